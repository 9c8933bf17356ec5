"""Members that go away again and again are left out, until somebody has them invited again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.support.counted_application import CountedApplication
from tests.support.pool_members import until

CheckSchema = Callable[[str, Any], None]

SSH = """\
#!/bin/sh
# ssh to n2, which is this machine, or no way there.
while [ $# -gt 0 ] && [ "$1" != n2 ]; do shift; done
[ $# -gt 0 ] || exit 0
[ ! -e {away} ] || {{ echo "ssh: connect to host n2 port 22: No route to host" >&2; exit 255; }}
shift
exec sh -c "$*"
"""


@pytest.fixture
def away(tmp_path: Path) -> Path:
    """Return what is there while there is no way to n2."""
    return tmp_path / "away"


@pytest.fixture
def ring(tmp_path: Path, away: Path) -> Iterator[CountedApplication]:
    """Give an application on n1 and n2, which waits until it is let go."""
    ring = CountedApplication(tmp_path)
    write(ring, away, {"at_least": 1, "flaps": "3 in 10m"})
    yield ring
    ring.end()
    if ring.starts():  # with the last object of the site its mark leaves n2
        away.unlink(missing_ok=True)
        site = json.loads((ring.folder / "site.yml").read_text(encoding="utf-8"))
        (ring.folder / "site.yml").write_text(json.dumps({**site, "applications": {}}))
        ran = ring.cobweb("apply", "--yes", "--max-removals", "100%")
        assert ran.code == 0, ran.err


def write(
    ring: CountedApplication, away: Path, members: Mapping[str, Any], **application: Any
) -> None:
    ssh = ring.base / "ssh"
    ssh.write_text(SSH.format(away=away), encoding="utf-8")
    ssh.chmod(0o755)
    over = {
        "ansible_connection": "ssh",
        "ansible_ssh_executable": str(ssh),
        "ansible_ssh_transfer_method": "piped",
        "cobweb_shared": True,
    }
    phases = {
        "one": {"run": ring.command("one", ring.waits())},
        "two": {"after": ["one"], "run": ring.command("two")},
    }
    ring.write(phases, {"n1": {}, "n2": over}, members=members, **application)


LEFT = "n2 is left out, for it was away 3 times within 10m: `cobweb app admit n2` has it invited"


@pytest.mark.full("a host goes away three times; then the application is run twice")
@pytest.mark.timeout(300)
def test_who_goes_away_too_often_is_left_out_until_it_is_admitted(
    ring: CountedApplication, away: Path, check_schema: CheckSchema
) -> None:
    with ring.start() as started:
        for host in ("n1", "n2"):
            ring.await_supervised(host, "one")
        for time in range(3):
            away.touch()
            if time < 2:
                started.await_error_line("n2 does not answer, and is waited for")
                away.unlink()
                started.await_error_line("n2 answers again")
        started.await_error_line(f"{LEFT} again")
        assert ring.supervisors("n2")
        away.unlink()
        until(lambda: not ring.supervisors("n2"))
        ring.let_go()
        run = started.end()
    assert run.code == 1, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 1 of 2 nodes; failed: n2"
    assert ("n2", "one", "ends") not in ring.said()
    check_left(ring, check_schema)

    run = ring.cobweb()
    assert run.code == 0, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 1 of 1 node; not joined: n2"
    data = check_left(ring, check_schema)
    assert list(data["missing"]) == ["n2"]
    assert ring.starts()["n2", "one"] == 1

    said = "n2 is invited again in the next instance of ring\n"
    ran = ring.cobweb("app", "admit", "n2", "--reason", "a new cable")
    assert (ran.code, ran.out + ran.err) == (0, said)
    assert ring.cobweb("app", "admit", "n2").code == 64
    assert ring.status()["left"] == {}
    run = ring.cobweb()
    assert run.code == 0, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 2 of 2 nodes"
    assert ring.starts()["n2", "one"] == 2


def check_left(ring: CountedApplication, check_schema: CheckSchema) -> Any:
    """Check that n2 is left out, and why; return what `app status` knows."""
    data = ring.status()
    check_schema("application", data)
    assert list(data["left"]) == ["n2"]
    assert "3 times within 10m" in data["left"]["n2"]
    return data


@pytest.mark.full("a host is away for some time, and its application is run to its end")
@pytest.mark.timeout(300)
def test_who_is_away_for_too_long_has_failed(
    ring: CountedApplication, away: Path, check_schema: CheckSchema
) -> None:
    """A restart cannot help it; it is invited again in the next instance."""
    members = {"at_least": 1, "lost_after": "10s"}
    write(ring, away, members, recover={"on": ["lost"], "do": "restart"})
    with ring.start() as started:
        for host in ("n1", "n2"):
            ring.await_supervised(host, "one")
        away.touch()
        started.await_error_line("n2 has failed in one: ")
        away.unlink()
        until(lambda: not ring.supervisors("n2"))
        ring.let_go()
        run = started.end()
    assert run.code == 1, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 1 of 2 nodes; failed: n2"
    assert "started again" not in run.err
    data = ring.status()
    check_schema("application", data)
    assert (data["left"], ring.starts()["n2", "one"]) == ({}, 1)
    run = ring.cobweb()
    assert run.code == 0, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 2 of 2 nodes"


@pytest.mark.full("a host is away until its application has ended")
@pytest.mark.timeout(300)
def test_what_is_at_work_on_who_stays_away_is_named_and_can_be_stopped(
    ring: CountedApplication, away: Path
) -> None:
    write(ring, away, {"at_least": 1, "lost_after": "5s"})
    with ring.start() as started:
        for host in ("n1", "n2"):
            ring.await_supervised(host, "one")
        away.touch()
        started.await_error_line("n2 has failed in one: ")
        for pid in ring.supervisors("n1"):  # so n1 ends, and n2 does not
            os.kill(pid, signal.SIGUSR1)
        run = started.end()
    assert run.code == 1, run.err
    told = "what is at work on n2 could not be ended: `cobweb app stop ring` ends it"
    assert f"{told}, once they answer" in run.err.splitlines()
    assert ring.supervisors("n2")
    away.unlink()
    ran = ring.cobweb("app", "stop", "ring", "--yes")
    assert ran.code == 0, ran.err
    assert not ring.supervisors("n2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["n2"], "n2"),
        (["n2", "--of", "ring"], "n2"),
        (["n2", "--of", "rung"], "there is no application `rung`"),
        (["n9"], "n9"),
    ],
    ids=str,
)
def test_nobody_is_admitted_who_was_not_left_out(
    ring: CountedApplication, run: Run, words: list[str], said: str
) -> None:
    ran = run("-C", ring.folder, "app", "admit", *words)
    assert ran.code == 64, ran.out + ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.full("it waits for a phase to end itself")
def test_a_phase_without_a_controller_ends_itself(ring: CountedApplication, away: Path) -> None:
    write(ring, away, {"orphan": "5s"})
    with ring.start() as started:
        for host in ("n1", "n2"):
            ring.await_supervised(host, "one")
        started.process.send_signal(signal.SIGKILL)
    until(lambda: not ring.at_work())
    assert {what for *_, what in ring.said()} == {"begins"}
    run = ring.cobweb()
    assert run.code == 1, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 0 of 2 nodes; failed: n[1-2]"


@pytest.mark.full("a phase that is longer than it may be without a controller")
def test_a_phase_that_is_looked_after_goes_on(ring: CountedApplication) -> None:
    phases = {"one": {"run": ring.command("one", "sleep 45")}}
    ring.write(phases, ["n1"], members={"orphan": "30s"})
    run = ring.cobweb()
    assert run.code == 0, run.err
