"""The type `script` on a host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

DEADLINE_S = 120
SECRET = "open-sesame-4711"  # noqa: S105 - of this test alone
SPEC = {
    "check": 'test -e mark || exit 1; test "$(cat mark)" = "$WANTED" || exit 10',
    "do": 'echo "$WANTED" > mark',
    "undo": "rm -f mark",
    "env": {"WANTED": "one"},
    "cwd": "/srv",
}
WAITS = {
    "creates": "/run/mark",
    "do": 'read line < /run/gate; printf %s "$SECRET" | sha256sum > /run/mark',
    "undo": "rm -f /run/mark /run/gate",
    "interpreter": ["/bin/sh", "-eu"],
    "env": {"SECRET": SECRET},
}


@pytest.fixture
def host(fabric: Fabric, plain_host: FabricHost) -> Iterator[FabricHost]:
    """Return a host that has no files of ours in the end."""
    yield plain_host
    left = "ls -d /srv/mark /run/mark /run/gate /var/lib/app.*"
    after = fabric.run(plain_host, "sh", "-c", left, check=False).stdout
    fabric.run(plain_host, "sh", "-c", "rm -rf /srv/mark /run/mark /run/gate /var/lib/app.*")
    assert after == ""


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    live.check_type("script", host, SPEC, {**SPEC, "env": {"WANTED": "two"}})


def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "script")


def test_no_process_and_no_file_shows_a_secret(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """On the host and on the operator's side, while the script is at work and afterwards."""
    cob = live.cob("script", host, WAITS)
    fabric.run(host, "mkfifo", "/run/gate")
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(cob.move, "down", "up")
        try:
            seen = command_lines_until(b"/bin/sh\0-eu\0/dev/fd/")
        finally:
            fabric.run(host, "sh", "-c", "echo go > /run/gate")
        report = moving.result()
    assert report.outcome is Outcome.OK
    assert SECRET.encode() not in seen
    assert SECRET not in str(report)
    places = "/root /home /run /tmp /var/tmp /var/lib/cobweb /var/log"
    command = f"grep -rlIs --devices=skip {SECRET} {places}"
    assert fabric.run(host, "sh", "-c", command, check=False).stdout == ""
    cob.go("up", "down")


def command_lines_until(mark: bytes) -> bytes:
    """Return all command lines of this machine, its hosts included, seen until one has `mark`."""
    seen = b""
    deadline = time.monotonic() + DEADLINE_S
    while mark not in seen:
        assert time.monotonic() < deadline, "the script was never seen at work"
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen += path.read_bytes()
            except OSError:
                continue
    return seen
