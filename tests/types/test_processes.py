"""The type `process` on a host without an init system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.operator import Operator

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

OURS = "^(sleep 1000|python3 -m http|python3 -c)"
SPEC = {"command": ["sleep", "1000"], "env": {"WORD": "one"}}


@pytest.fixture
def host(fabric: Fabric, plain_host: FabricHost) -> Iterator[FabricHost]:
    """Return a host on which nothing of the tests runs in the end."""
    yield plain_host
    left = fabric.run(plain_host, "pgrep", "-f", OURS, check=False).stdout
    clean = (
        f"pkill -f 'superviso[r].py'; pkill -f '{OURS}'; rm -rf /var/lib/cobweb/process /srv/rest"
    )
    fabric.run(plain_host, "sh", "-c", clean)
    assert left == ""


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    live.check_type("process", host, SPEC, {**SPEC, "env": {"WORD": "two"}})


def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "process")


def test_it_is_started_again_when_it_ends_by_itself(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """The supervisor outlives the run, and the way down finds the new process."""
    cob = live.cob("process", host, {**SPEC, "backoff": 0.1})
    cob.go("down", "up")
    fabric.run(
        host,
        "sh",
        "-c",
        "old=$(pgrep -f '^sleep 1000') && kill $old && for i in $(seq 200); do "
        "new=$(pgrep -f '^sleep 1000') && [ $new != $old ] && exit; sleep 0.1; done; exit 1",
    )
    cob.go("up", "down")


LISTENS = """
import os, socket, time
while True:
    while not os.path.exists("/srv/open"):
        time.sleep(0.05)
    with socket.create_server(("127.0.0.1", 8123)):
        while os.path.exists("/srv/open"):
            time.sleep(0.05)
"""
ANSWERS = (
    """python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8123))' 2> /dev/null"""
)
FAULTS = {
    "both killed": "pkill -KILL -f 'superviso[r].py'; pkill -KILL -f '^python3 -c'",
    "killed": "pkill -KILL -f '^python3 -c'",
    "deaf": f"rm /srv/open; while {ANSWERS}; do :; done",
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_does_not_work_is_broken_and_never_outdated(
    fabric: Fabric, live: Live, host: FabricHost, name: str
) -> None:
    """With a new content too; a change alone is no fault, and counts by the port of before."""
    spec = {"command": ["python3", "-c", LISTENS], "listen": 8123, "backoff": 50}
    other = {**spec, "listen": 8124}
    fabric.run(host, "touch", "/srv/open")
    cob = live.cob("process", host, spec)
    cob.go("down", "up")
    cob.applied, cob.spec = spec, other
    assert cob.check() == "outdated"
    fabric.run(host, "sh", "-c", FAULTS[name])
    assert cob.check() == "broken"
    cob.spec = spec
    assert cob.check() == "broken"
    fabric.run(host, "touch", "/srv/open")
    cob.go("broken", "up")
    fabric.run(host, "sh", "-c", f"{FAULTS['killed']}; rm /srv/open")
    assert cob.check() == "broken"
    cob.go("broken", "down")


def test_who_needs_a_program_that_ends_waits_for_it(
    fabric: Fabric, host: FabricHost, tmp_path: Path
) -> None:
    """The report has its exit status; the rest goes on."""
    operator = Operator(fabric, tmp_path)
    operator.write_inventory({"app": [host]})
    (tmp_path / "site.yml").write_text("""
cobweb: 1
name: ending
inventory: hosts.yml
cobs:
  ends: {type: process, on: app, spec: {command: [sh, -c, exit 7]}}
  user: {type: file, on: app, spec: {path: /srv/user, content: x}, after: [ends]}
  rest: {type: file, on: app, spec: {path: /srv/rest, content: x}}
""")
    run = operator.apply()
    assert run.code == 1, run.out + run.err
    assert run.transitions() == [(f"{host.name}/rest", "up")]
    assert "status 7" in run.out + run.err
    assert f"{host.name}/ends" in operator.cobweb("why", f"{host.name}/user").out
    fabric.run(host, "rm", "/srv/rest")
