"""A state database that stays away in a real run: what is at work ends, and is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.postgresql import PostgreSQL
from tests.system.conftest import Workshop
from tests.system.test_interrupts import CHECK, SITE, UP, Gates

pytestmark = [
    pytest.mark.full("a database that goes away in real time; tests/kernel has it by the clock")
]

SITE_OF_THREE = f"""\
{SITE.replace(", after: [first@one]", "")}\
  third: {{type: gated, on: two, spec: {{dir: DIR}}, requires: [first@one]}}
"""
"""Two transitions begin, and one waits."""


@pytest.fixture
def gates(workshop: Workshop, tmp_path: Path, own_postgresql: PostgreSQL) -> Gates:
    """Return the gates of a site in PostgreSQL."""
    made = Gates(tmp_path / "gates")
    state = f"name: gates\nstate: {own_postgresql.url('postgres')}"
    site = SITE_OF_THREE.replace("DIR", str(made.folder)).replace("name: gates", state)
    (workshop.site / "site.yml").write_text(site)
    (workshop.site / "check.yml").write_text(CHECK)
    (workshop.site / "up.yml").write_text(UP)
    return made


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Read what a run says to people until `text` is in a line; return all of it."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if text in line:
            return said
    raise AssertionError(said)


def begin(workshop: Workshop, gates: Gates) -> subprocess.Popen[str]:
    """Begin a run; return it when two transitions are at work, and nothing else."""
    run = workshop.start("apply", "--yes", "--store-timeout", "1s")
    gates.await_begun("first")
    gates.await_begun("second")
    while workshop.states()["two/third"]["state"] != "down":  # its check may be the last one
        pass
    return run


def apply_without(
    workshop: Workshop, gates: Gates, server: PostgreSQL
) -> tuple[subprocess.Popen[str], str]:
    """Begin a run and take its database away; return it when it waits for what is at work."""
    run = begin(workshop, gates)
    server.kill()
    gates.open("first")
    return run, read_until(run, "still at work")


def test_a_run_without_its_database_lets_end_what_is_at_work_and_tells_from_memory(
    workshop: Workshop, gates: Gates, own_postgresql: PostgreSQL
) -> None:
    run, said = apply_without(workshop, gates, own_postgresql)
    assert "waiting 1 s for it, and nothing new is started" in said
    assert "nothing new is started; 1 still at work: two/second: down -> up" in said
    gates.open("second")
    _, err = run.communicate()
    assert run.returncode == 1, err
    assert gates.is_up("first")
    assert gates.is_up("second")
    ended = "one/first: down -> up (ok), two/second: down -> up (ok)"
    assert f"in flight, and ended without being written down: {ended}" in err
    assert "out of service, or not known: two/third" in err
    assert "mend the state database, then `cobweb apply` checks what was in flight" in err
    assert "Traceback" not in err
    assert not list(gates.folder.glob("third*"))
    own_postgresql.start()
    ran = workshop.run("apply", "--yes")
    assert ran.code == 0, ran.err
    assert "1 transition" in ran.err, "what was in flight is checked, not done again"
    assert {it["state"] for it in workshop.states().values()} == {"up"}


def test_a_run_whose_database_is_back_before_its_end_writes_down_the_truth(
    workshop: Workshop, gates: Gates, own_postgresql: PostgreSQL
) -> None:
    run, _ = apply_without(workshop, gates, own_postgresql)
    own_postgresql.start()
    gates.open("second")
    _, err = run.communicate()
    assert run.returncode == 1, err
    assert "stopped: the state database" in err
    assert "two/third was not begun: the run was told to stop" in err
    states = workshop.states()
    assert {cob: it["state"] for cob, it in states.items()} == {
        "one/first": "up",
        "two/second": "up",
        "two/third": "down",
    }
    assert "not locked" in workshop.run("lock", "show").out


@pytest.mark.timeout(240)
def test_a_server_that_is_frozen_is_as_one_that_is_gone(
    workshop: Workshop, gates: Gates, own_postgresql: PostgreSQL
) -> None:
    """It takes all that it is sent and says nothing; what is at work ends, and is told."""
    run = begin(workshop, gates)
    with own_postgresql.frozen():
        gates.open("first")
        said = read_until(run, "1 still at work")
        assert "waiting 1 s for it, and nothing new is started" in said
        gates.open("second")
        _, err = run.communicate()
    assert run.returncode == 1, err
    assert "in flight, and ended without being written down: one/first: down -> up (ok)" in err
    ran = workshop.run("apply", "--yes")
    assert ran.code == 0, ran.err
    assert "1 transition" in ran.err, "what was in flight is checked, not done again"


def test_who_asks_twice_to_stop_is_told_what_was_stopped_in_the_middle(
    workshop: Workshop, gates: Gates, own_postgresql: PostgreSQL
) -> None:
    run, _ = apply_without(workshop, gates, own_postgresql)
    run.terminate()
    read_until(run, "still at work")
    run.terminate()
    _, err = run.communicate()
    assert run.returncode == 1, err
    assert "stopped in the middle: two/second: down -> up" in err
    assert "one/first: down -> up (ok)" in err, err
    assert "out of service, or not known: two/second, two/third" in err
    assert workshop.mine() == []
    own_postgresql.start()
