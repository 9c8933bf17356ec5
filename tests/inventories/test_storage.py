"""The storage site: made of its model, of the size that was asked for, and set up for real."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli import main
from cobweb.testing.promises import check_promises
from tests.inventories.conftest import Play

ROOT = Path(__file__).parents[2]
SITE = ROOT / "inventories" / "storage"
DEMO_S = 1500
WIDTH = 80

Cobweb = Callable[..., str]


@pytest.fixture
def cobweb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cobweb:
    """Run a command on the site, which must end well, and return its standard output."""
    monkeypatch.delenv("COBWEB_SITE", raising=False)

    def call(*arguments: str) -> str:
        capsys.readouterr()
        code = main(["-C", str(SITE), *arguments])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return shown.out

    return call


def test_what_is_generated_is_as_the_model_says(cobweb: Cobweb) -> None:
    """Who edits the model commits what it makes."""
    cobweb("generate", "--check")


def test_each_server_has_fifty_objects_and_they_need_each_other(cobweb: Cobweb) -> None:
    """As in section 6 of the paper; a need over hosts is one between two objects."""
    graph = json.loads(cobweb("graph", "-o", "json"))
    hosts = {cob["id"]: cob["host"] for cob in graph["cobs"]}
    per_host = Counter(hosts.values())
    assert min(per_host[f"st{number}"] for number in range(1, 5)) >= 50
    across = [need for need in graph["needs"] if hosts[need["cob"]] != hosts[need["on"]]]
    assert len(across) >= 250


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full("more seeds")) for seed in range(1, 5))]
)
def test_no_volume_stops_while_a_client_has_it_mounted(cobweb: Cobweb, seed: int) -> None:
    """Whatever the order in which things happen: mounts come after it, and go before it."""
    graph = json.loads(cobweb("graph", "-o", "json"))
    initial = ("--initial", "outdated") if seed % 2 else ()
    out = cobweb("simulate", "--seed", str(seed), "--events", "-", *initial)
    events: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert check_promises(events, graph) == []
    states: dict[str, str] = {}
    for event in events:
        if event["type"] == "cob.state":
            states[event["cob"]] = event["state"]
        if event["type"] == "transition.start" and event["cob"].endswith("/volume"):
            mounted = [cob for cob in states if cob.endswith("data-mount") and states[cob] == "up"]
            assert not mounted or event["to"] not in ("stopped", "absent"), event


@pytest.mark.full("five minutes of a storage cluster; the gate simulates it")
@pytest.mark.timeout(DEMO_S + 10)
def test_the_demo_keeps_its_promises(tmp_path: Path, play: Play) -> None:
    """From bare hosts to nothing again, with its own verdict at each step; nothing is left."""
    reports = tmp_path / "reports"
    play("storage", reports, DEMO_S)
    assert sorted(path.name for path in reports.iterdir()) == [f"{n}.html" for n in range(1, 8)]
