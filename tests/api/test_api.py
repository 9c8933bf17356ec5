"""`cobweb.api`: a site plans, applies, goes back, is looked at and watched, by values alone."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from cobweb.api import Site
from cobweb.errors import LockedError, SiteError, UsageError
from cobweb.operations import Caller, Orders, Retention
from cobweb.store import this_process
from tests.cli.conftest import SITE, TYPE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins" / "embed-cobweb.md"
SIMULATED = Orders(executor="simulate")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the site of figure 1 of the COB paper."""
    folder = tmp_path / "site"
    (folder / "simple").mkdir(parents=True)
    for name in ("check", "start", "stop"):
        (folder / "simple" / f"{name}.yml").write_text("- set_fact: {cob_state: up}\n")
    (folder / "site.yml").write_text(SITE)
    return folder


@pytest.fixture
def site(folder: Path) -> Iterator[Site]:
    with Site(folder) as site:
        yield site


def edited(folder: Path, old: str, new: str) -> Site:
    """Return the site with other words in its file."""
    text = (folder / "site.yml").read_text()
    assert old in text
    (folder / "site.yml").write_text(text.replace(old, new))
    return Site(folder)


def test_a_site_is_planned_applied_looked_at_and_taken_back(site: Site, folder: Path) -> None:
    plan = site.plan()
    changes = plan.as_data()["changes"]
    assert [it["cob"] for it in changes] == ["alpha/a", "alpha/cfg", "beta/b"]
    assert site.apply(within=plan, orders=SIMULATED).exit_code == 0
    assert site.plan().is_empty
    assert site.drift(orders=SIMULATED).exit_code == 0
    with edited(folder, "port=", "p=") as changed:
        assert sorted(changed.plan().as_data()["downtime"]) == ["alpha/a", "beta/b"]
        assert changed.simulate(from_journal=True).counts["transitions"]
        assert changed.apply(orders=SIMULATED).exit_code == 0
        assert changed.store().current_generation_id() == 2
        assert changed.rollback(orders=SIMULATED).exit_code == 0
        assert changed.store().current_generation_id() == 3


def test_nothing_goes_out_that_the_plan_did_not_name(site: Site, folder: Path) -> None:
    assert site.apply(orders=SIMULATED).exit_code == 0
    empty = site.plan()
    with edited(folder, "port=", "p=") as changed:
        result = changed.apply(within=empty, orders=SIMULATED)
    assert result.exit_code == 1
    assert result.has_unplanned


def test_events_are_had_once_each_also_by_who_comes_back(site: Site) -> None:
    run = site.apply(orders=SIMULATED).run
    events = list(site.watch(run))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "run.end"
    for at in (0, 1, len(events) // 2, len(events) - 1):
        assert list(site.watch(after=at)) == events[at:]


def test_a_run_is_watched_while_it_goes_on(site: Site, folder: Path) -> None:
    written: SimpleQueue[bool] = SimpleQueue()
    caller = Caller(sinks=[lambda events: written.put(bool(events))])

    def work() -> None:
        with Site(folder) as other:
            other.apply(orders=SIMULATED, caller=caller)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert written.get(timeout=60)
        events = list(site.watch(wait=lambda: written.get(timeout=60)))
    finally:
        thread.join(timeout=60)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "run.end"


def test_a_watch_ends_where_the_watcher_says_so(site: Site) -> None:
    run = site.apply(orders=SIMULATED).run
    last = [event["seq"] for event in site.watch(run)][-1]
    answers = iter((True, True, False))
    assert not list(site.watch(run, after=last, wait=lambda: next(answers)))
    assert not list(answers)


def test_nothing_is_printed(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.plan()
    site.apply(orders=SIMULATED)
    site.simulate()
    assert capsys.readouterr() == ("", "")


def test_runs_of_one_second_that_draw_the_same_digits_have_two_names(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(["1a2b", "1a2b", "3c4d"])
    monkeypatch.setattr("cobweb.api.wall_clock", lambda: 1_795_273_539.5)
    monkeypatch.setattr("cobweb.api.secrets.token_hex", lambda _size: next(drawn))
    assert site.apply(orders=SIMULATED).run == "20261121-150539-1a2b"
    hold = this_process(run="hold", reason="disk swap", since=0.0)
    site.store().site_lock(clock=lambda: 0.0).hold(hold, for_s=1.0)
    said: list[str] = []
    with site.turn(say=said.append) as turn:
        assert turn.info.id == "20261121-150539-3c4d"
    assert [line.partition(":")[0] for line in said] == ["a hold is over"]


def test_one_turn_at_a_time(site: Site, folder: Path) -> None:
    with site.turn("first"), Site(folder) as other, pytest.raises(LockedError, match="first"):
        other.apply(orders=SIMULATED)
    assert site.apply(orders=SIMULATED).exit_code == 0


@pytest.mark.parametrize("call", ["plan", "apply", "drift", "simulate", "check"])
def test_what_can_never_work_is_refused_before_anything(folder: Path, call: str) -> None:
    (folder / "site.yml").write_text(
        "cobweb: 1\nname: wrong\ninventory: {all: {hosts: {h: }}}\n"
        + TYPE
        + "cobs:\n  a: {type: simple, on: h, requires: [b]}\n"
        "  b: {type: simple, on: h, requires: [a]}\n"
    )
    with Site(folder) as site:
        with pytest.raises(SiteError) as caught:
            getattr(site, call)()
        assert "site.yml" in str(caught.value)
        assert not site.store().runs()


def test_a_run_that_there_is_not(site: Site) -> None:
    with pytest.raises(UsageError, match="there is no run yet in "):
        list(site.watch())
    with pytest.raises(UsageError, match="there is no run '20200101"):
        list(site.watch("20200101"))


def test_old_history_is_deleted_by_a_program(site: Site) -> None:
    first = site.apply(orders=SIMULATED).run
    last = site.apply(orders=SIMULATED).run
    least = Retention(runs=1)
    assert [it.info.id for it in site.gc(least, dry_run=True).runs] == [first]
    assert [it.info.id for it in site.gc(least).runs] == [first]
    assert site.gc(least).runs == ()
    with pytest.raises(UsageError, match="`cobweb gc` has deleted runs up to"):
        list(site.watch(first))
    assert list(site.watch(last))
    with site.turn("gc") as turn:
        assert turn.gc().runs == ()


@pytest.mark.gate("the program of a page, as an embedder runs it")
def test_the_program_of_the_page_does_what_it_says(folder: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    program = folder / "gentle.py"
    code = code.replace("import Caller", "import Caller, Orders")
    code = code.replace("site.apply(", "site.apply(orders=Orders(executor='simulate'), ")
    program.write_text(code)

    def ran() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, str(program), str(folder)]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)

    first = ran()
    assert first.returncode == 0, first.stderr
    order = [line.split()[0] for line in first.stdout.splitlines()]
    assert order == ["alpha/cfg", "alpha/a", "beta/b"]
    edited(folder, "port=", "p=")
    second = ran()
    assert second.returncode == 1
    assert second.stderr == "not now, these would be out: alpha/a, beta/b\n"


def test_observers_of_plugins_are_one_sink(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = tmp_path / "listening-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: listening\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cobweb]\nlistening = tests.support.listening\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "told"
    observers = site.observers(("listening", str(file)))
    result = site.simulate(caller=Caller(sinks=[observers]))
    observers.result = {"exit_code": result.exit_code}
    assert observers.close() == ()
    first, *_, last, end = file.read_text().splitlines()
    assert (first, last, end) == ("version", "run.end", "{'exit_code': 0}")
    with pytest.raises(UsageError, match="did you mean listening"):
        site.observers(("listening", str(file)), ("listenin", ""))
