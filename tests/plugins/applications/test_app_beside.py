"""Other commands beside an application at work, and a controller that goes and comes back."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli import main
from tests.cli.conftest import Run
from tests.plugins.applications.conftest import Start
from tests.support.counted_application import CountedApplication
from tests.support.pool_members import until


@pytest.fixture
def ring(tmp_path: Path, run: Run) -> Iterator[CountedApplication]:
    """Give an application of two phases, of which the first waits; and a file that is applied."""
    ring = CountedApplication(tmp_path)
    write(ring, "a")
    assert run("-C", ring.folder, "apply", "--yes").code == 0
    yield ring
    ring.let_go()
    ring.end()


def write(ring: CountedApplication, content: str) -> None:
    """Write the site, with what the file beside the application has for content."""
    spec = {"path": f"{ring.base}/note.{{{{ inventory_hostname }}}}", "content": f"{content}\n"}
    ring.write(
        {
            "one": {"run": ring.command("one", ring.waits())},
            "two": {"after": ["one"], "run": ring.command("two")},
        },
        more={"cobs": {"note": {"type": "file", "on": "all", "spec": spec}}},
    )


def begin(ring: CountedApplication, start: Start) -> Any:
    """Begin `app run` in a process of its own, and wait until its first run has ended."""
    process = start("-C", ring.folder, "app", "run", "ring", "--yes")
    ring.await_said(("n1", "one", "begins"), ("n2", "one", "begins"))
    until(lambda: has_ended(ring))
    return process


def has_ended(ring: CountedApplication) -> bool:
    """Say whether nobody holds the lock of the site."""
    with redirect_stdout(StringIO()) as out:
        assert main(["-C", str(ring.folder), "lock", "show", "-o", "json"]) == 0
    return not json.loads(out.getvalue())["lock"]


def transitions(events: Path) -> list[Mapping[str, Any]]:
    """Return the beginnings of transitions that a command has noted."""
    found = [json.loads(it) for it in events.read_text(encoding="utf-8").splitlines()]
    assert found
    return [it for it in found if it["type"].startswith("transition")]


ONCE = {(host, phase): 1 for host in ("n1", "n2") for phase in ("one", "two")}
BEGUN = {("n1", "one"): 1, ("n2", "one"): 1}


@pytest.mark.gate("an application at work, and six commands beside it")
def test_commands_beside_it_have_the_lock_at_once_and_touch_nothing(
    ring: CountedApplication, run: Run, start: Start
) -> None:
    process = begin(ring, start)
    events = ring.base / "events"
    for words in (
        ["apply", "--yes"],
        ["apply", "--yes", "--refresh", "all"],
        ["drift"],
        ["rollback", "1", "--yes"],
    ):
        ran = run("-C", ring.folder, *words, "--events", events)
        assert ran.code == 0, (words, ran.err)
        assert transitions(events) == [], words
        events.unlink()
    ran = run("-C", ring.folder, "plan", "--detailed-exitcode")
    assert ran.code == 0, ran.out
    assert ring.starts() == BEGUN
    ring.let_go()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert ring.starts() == ONCE


@pytest.mark.full("an application at work, and a change beside it")
def test_a_change_of_another_object_does_not_hinder_the_next_phases(
    ring: CountedApplication, run: Run, start: Start
) -> None:
    process = begin(ring, start)
    write(ring, "b")
    ring.let_go()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert ring.starts() == ONCE
    assert (ring.base / "note.n1").read_text() == "a\n"  # who is not named stays as it is
    ran = run("-C", ring.folder, "apply", "--yes")
    assert ran.code == 0, ran.err
    assert (ring.base / "note.n1").read_text() == "b\n"
    assert ring.starts() == ONCE


@pytest.mark.full("it is interrupted, and comes back")
def test_an_interrupted_controller_comes_back(ring: CountedApplication, start: Start) -> None:
    process = begin(ring, start)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "ring goes on without a controller; `cobweb app run ring` comes back to it" in err
    assert "Traceback" not in err
    ring.let_go()
    ring.await_said(("n1", "one", "ends"), ("n2", "one", "ends"))
    after = start("-C", ring.folder, "app", "run", "ring")  # it asks nothing: it goes on
    _, err = after.communicate(timeout=60)
    assert after.returncode == 0, err
    assert err.startswith("ring goes on: ")
    assert ring.starts() == ONCE


@pytest.mark.full("two controllers at once")
def test_two_controllers_start_it_once(ring: CountedApplication, start: Start) -> None:
    ring.let_go()
    both = [start("-C", ring.folder, "app", "run", "ring", "--yes") for _ in range(2)]
    said = [it.communicate(timeout=90) for it in both]
    assert ring.starts() == ONCE, said
    assert len(ring.instances()) == 1
    assert 0 in {it.returncode for it in both}, said
    assert "Traceback" not in str(said)


@pytest.mark.full("a site that is held for a while")
def test_it_is_started_once_the_site_is_free(
    ring: CountedApplication, run: Run, start: Start
) -> None:
    ring.let_go()
    held = run("-C", ring.folder, "lock", "hold", "--for", "10m", "--reason", "a disk").out.strip()
    process = start("-C", ring.folder, "app", "run", "ring", "--yes", "--wait", "1s")
    assert process.stderr is not None
    assert any("a disk" in line and "it is tried again" in line for line in process.stderr)
    assert ring.starts() == {}
    assert run("-C", ring.folder, "lock", "break", held, "--yes").code == 0
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert ring.starts() == ONCE
