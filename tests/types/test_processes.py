"""The type `process` on a host without an init system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.operator import Operator

pytestmark = pytest.mark.timeout(600)

OURS = "^(sleep 1000|python3 -m http)"
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
    cob.go("outdated", "down")


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
