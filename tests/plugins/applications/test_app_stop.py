"""`cobweb app stop`, and what may be dropped from the site before and after it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.plugins.applications.conftest import Start
from tests.support.counted_application import CountedApplication
from tests.support.pool_members import marked, until


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[CountedApplication]:
    """Give an application of two phases: the first one waits, with a process that it has begun."""
    ring = CountedApplication(tmp_path)
    write(ring)
    yield ring
    ring.let_go()
    ring.end()


def write(ring: CountedApplication, name: str = "one") -> None:
    """Write the site; `name` is what the first phase is called."""
    pid = f"{ring.base}/pid.$COBWEB_HOST"
    work = f"(trap '' TERM; sleep 1000 & echo $! >{pid}.new; mv {pid}.new {pid}; wait) & "
    ring.write(
        {
            name: {"run": ring.command(name, work + ring.waits()), "stop_timeout": "1s"},
            "two": {"after": [name], "run": ring.command("two")},
        }
    )


def begin(ring: CountedApplication, run: Run, start: Start) -> None:
    """Begin the application, and leave it without a controller."""
    process = start("-C", ring.folder, "app", "run", "ring", "--yes")
    until(lambda: all((ring.base / f"pid.{it}").exists() for it in ("n1", "n2")))
    shown = ("-C", ring.folder, "lock", "show", "-o", "json")
    until(lambda: json.loads(run(*shown).out)["lock"] is None)
    process.send_signal(signal.SIGKILL)
    process.communicate()


BEGUN = {("n1", "one"): 1, ("n2", "one"): 1}


@pytest.mark.full("an application is started and stopped twice")
def test_stop_ends_all_and_the_next_run_is_another_instance(
    ring: CountedApplication, run: Run, start: Start
) -> None:
    begin(ring, run, start)
    ran = run("-C", ring.folder, "app", "stop", "ring", "--yes")
    assert (ran.code, ran.err.splitlines()[-1]) == (0, "ring is stopped")
    assert marked(ring.state_dir) == []
    assert ring.supervisors() == []
    ran = run("-C", ring.folder, "app", "stop", "ring", "--yes")
    assert (ran.code, ran.err.splitlines()[-1]) == (0, "nothing of ring is at work")
    ran = run("-C", ring.folder, "app", "status", "ring")
    assert ran.out.startswith("ring has ended: stopped; instance ")
    assert ring.starts() == BEGUN
    ring.let_go()
    ran = run("-C", ring.folder, "app", "run", "ring", "--yes")
    assert ran.code == 0, ran.err
    assert len(ring.instances()) == 2
    assert ring.starts() == {
        **dict.fromkeys(BEGUN, 2),
        ("n1", "two"): 1,
        ("n2", "two"): 1,
    }


@pytest.mark.gate("two processes of their own")
def test_who_waits_for_an_application_says_that_it_was_stopped(
    ring: CountedApplication, start: Start
) -> None:
    waits = start("-C", ring.folder, "app", "run", "ring", "--yes")
    until(lambda: len(list(ring.base.glob("pid.n?"))) == 2)
    stops = start("-C", ring.folder, "app", "stop", "ring", "--yes", "--reason", "enough of it")
    _, err = stops.communicate(timeout=60)
    assert stops.returncode == 0, err
    _, err = waits.communicate(timeout=60)
    assert waits.returncode == 1, err
    assert "it was decided otherwise meanwhile: " in err
    assert "enough of it" in err
    assert "Traceback" not in err
    assert marked(ring.state_dir) == []
    assert ring.starts() == BEGUN


@pytest.mark.full("three that are killed, and what follows")
def test_stop_may_be_killed_at_any_moment(ring: CountedApplication, run: Run, start: Start) -> None:
    begin(ring, run, start)
    for moment_s in (0.9, 1.8, 2.6):
        process = start("-C", ring.folder, "app", "stop", "ring", "--yes")
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment_s)
        process.kill()
        process.communicate()
    ran = run("-C", ring.folder, "app", "stop", "ring", "--yes")
    assert ran.code == 0, ran.err
    assert marked(ring.state_dir) == []
    data = json.loads(run("-C", ring.folder, "status", "-o", "json").out)
    assert {it["state"] for it in data["cobs"]} == {"down"}
    assert ring.starts() == BEGUN


@pytest.mark.full("an application is run twice")
def test_what_a_member_has_at_work_ends_when_it_has_failed(
    ring: CountedApplication, run: Run
) -> None:
    def phases(one: str) -> dict[str, Any]:
        health = {"health": "[ $COBWEB_HOST != n2 ]", "every": "0.3s"}
        two = {"after": ["one"], "run": ring.command("two")}
        return {"one": {"run": ring.command("one", one), **health}, "two": two}

    ring.write(phases(ring.waits("never", "n2")))
    ran = run("-C", ring.folder, "app", "run", "ring", "--yes")
    assert ran.code == 1, ran.err
    assert not marked(ring.state_dir)
    ring.write(phases(":"))
    ran = run("-C", ring.folder, "app", "run", "ring", "--yes")
    assert ran.code == 0, ran.err
    assert len(ring.instances()) == 2
    assert ("n2", "one", "ends") in ring.said()


@pytest.mark.full("an application is started and stopped")
def test_what_is_at_work_cannot_be_dropped_before_it_is_stopped(
    ring: CountedApplication, run: Run, start: Start
) -> None:
    begin(ring, run, start)
    with_it = (ring.folder / "site.yml").read_text()
    write(ring, "other")
    for words in (["plan"], ["apply", "--yes"]):
        ran = run("-C", ring.folder, *words)
        assert ran.code == 3, ran.err
        assert "the phase `one` of `ring` has begun" in ran.err
        assert "cobweb app stop ring" in ran.err
    site = json.loads(with_it)
    site["applications"] = {}
    (ring.folder / "site.yml").write_text(json.dumps(site))
    for words in (["plan"], ["apply", "--yes"]):
        ran = run("-C", ring.folder, *words)
        assert ran.code == 3, ran.err
        assert "the application `ring` is at work" in ran.err
        assert "cobweb app stop ring" in ran.err
    assert len(marked(ring.state_dir)) >= 2
    (ring.folder / "site.yml").write_text(with_it)
    assert run("-C", ring.folder, "app", "stop", "ring", "--yes").code == 0
    (ring.folder / "site.yml").write_text(json.dumps(site))
    assert run("-C", ring.folder, "validate").code == 0
    ran = run("-C", ring.folder, "apply", "--yes", "--max-removals", "100%")
    assert ran.code == 0, ran.err
    assert json.loads(run("-C", ring.folder, "status", "-o", "json").out)["cobs"] == []
    assert ring.starts() == BEGUN
