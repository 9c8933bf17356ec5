"""Each example site is valid and can be drawn, and its simulation keeps the promises."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli import main
from cobweb.testing.promises import check_promises

SITES = sorted(path.parent for path in Path(__file__).parents[2].glob("inventories/*/site.yml"))
FULL = [site for site in SITES if site.name not in ("lamp", "schedulers")]
"""Those with objects: of the others they follow from decisions (test_lamp.py, test_pools.py)."""

ROLLING = next(site for site in SITES if site.name == "rolling")


@pytest.fixture
def drive(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Call `cobweb` on example sites, with an environment that says nothing about them."""
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    return Driver(capsys)


class Driver:
    """Runs the command line on a site, in process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def code(self, site: Path, *arguments: str) -> int:
        """Return the exit code of a command."""
        return main(["-C", str(site), *arguments])

    def graph(self, site: Path) -> dict[str, Any]:
        """Return what `graph -o json` writes."""
        self._capsys.readouterr()
        assert self.code(site, "graph", "-o", "json") == 0
        data: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return data

    def simulate(self, site: Path, *arguments: str) -> list[dict[str, Any]]:
        """Return the events of a simulation that ends well."""
        self._capsys.readouterr()
        code = self.code(site, "simulate", "--events", "-", *arguments)
        shown = self._capsys.readouterr()
        assert code == 0, shown.err
        return [json.loads(line) for line in shown.out.splitlines()]


def test_there_are_examples() -> None:
    assert {site.name for site in SITES} >= {"demo", "rolling"}


@pytest.mark.parametrize("site", SITES, ids=lambda site: str(site.name))
def test_an_example_is_valid(site: Path, drive: Driver) -> None:
    assert drive.code(site, "validate") == 0


@pytest.mark.parametrize("initial", ["outdated", "unset"])
@pytest.mark.parametrize("site", FULL, ids=lambda site: str(site.name))
def test_a_simulation_keeps_the_promises(site: Path, initial: str, drive: Driver) -> None:
    """From nothing, and from a state where everything has changed."""
    arguments = [] if initial == "unset" else ["--initial", initial]
    events = drive.simulate(site, *arguments)
    assert check_promises(events, drive.graph(site)) == []


@pytest.fixture
def changed(drive: Driver, tmp_path: Path) -> Path:
    """Return a copy of the rolling site that is applied; then all web configurations change."""
    folder = tmp_path / "rolling"
    shutil.copytree(ROLLING, folder, ignore=shutil.ignore_patterns(".cobweb"))
    assert drive.code(folder, "apply", "--yes", "--executor", "simulate") == 0
    with (folder / "templates" / "web.conf.j2").open("a", encoding="utf-8") as template:
        template.write("# another one\n")
    return folder


def test_rolling_changes_a_quarter_of_each_rack_at_a_time(drive: Driver, changed: Path) -> None:
    """All web configurations change: at most two of a rack's eight servers leave the pool."""
    graph = drive.graph(changed)
    initial = {cob["id"]: cob["preferred"] for cob in graph["cobs"]}
    events = drive.simulate(changed, "--from-journal")
    assert check_promises(events, graph) == []
    out = list(_out_of_the_pool(events, initial))
    assert max(out, key=lambda racks: racks["a"])["a"] == 2
    assert max(out, key=lambda racks: racks["b"])["b"] == 2
    left = [event["cob"] for event in events if event.get("to") == "out"]
    assert len(set(left)) == 16
    (pause,) = (event for event in events if event["type"] == "limit.pause")
    assert [f"{unit}/member" for unit in pause["units"]] == [left[0]]
    (resume,) = (event for event in events if event["type"] == "limit.resume")
    assert resume["time"] - pause["time"] == 30.0


def test_rolling_touches_one_web_server_if_its_change_fails(
    drive: Driver, changed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The canary stays out of the pool; all others stay in it, and are told for whom they wait."""
    told = changed / "events.jsonl"
    arguments = ["--from-journal", "--fail", "web01/web-config", "--events", str(told)]
    capsys.readouterr()
    assert drive.code(changed, "simulate", *arguments) == 1
    shown = capsys.readouterr().err
    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert check_promises(events, drive.graph(changed)) == []
    started = {event["cob"] for event in events if event["type"] == "transition.start"}
    assert {cob.partition("/")[0] for cob in started} == {"web01"}
    assert "(pool, canary), taken by" in shown


def test_rolling_leaves_the_web_servers_up_when_the_database_changes(
    drive: Driver, tmp_path: Path
) -> None:
    """`after` is not `requires`: only the database itself goes down."""
    graph = drive.graph(ROLLING)
    initial = {cob["id"]: cob["preferred"] for cob in graph["cobs"]}
    initial["db01/db-config"] = "outdated"
    file = tmp_path / "initial.json"
    file.write_text(json.dumps(initial), encoding="utf-8")
    events = drive.simulate(ROLLING, "--initial", str(file))
    started = {event["cob"] for event in events if event["type"] == "transition.start"}
    assert started == {"db01/db-config", "db01/db"}


def _out_of_the_pool(
    events: Iterable[Mapping[str, Any]], initial: Mapping[str, str]
) -> Iterator[Counter[str]]:
    """Yield after each event how many members of each rack are not in the pool."""
    state = {cob: state for cob, state in initial.items() if cob.endswith("/member")}
    for event in events:
        cob = event.get("cob")
        if cob in state and event["type"] == "transition.start":
            state[cob] = "moving"
        elif cob in state and event["type"] == "transition.end":
            state[cob] = event["state"]
        yield Counter(_rack(cob) for cob, now in state.items() if now != "in")


def _rack(cob: str) -> str:
    number = int(cob.partition("/")[0].removeprefix("web"))
    return "a" if number <= 8 else "b"
