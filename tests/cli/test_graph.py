"""`cobweb graph` keeps its contract, and draws."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb.cli.graph import current_states
from cobweb.model import CobId

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]


def _needs(data: Mapping[str, Any]) -> set[tuple[str, ...]]:
    return {tuple(need[key] for key in need) for need in data["needs"]}


def test_json_keeps_the_contract(run: Run, site: Path, check_schema: CheckSchema) -> None:
    ran = run("-C", site, "graph", "-o", "json")
    data = json.loads(ran.out)
    check_schema("graph", data)
    assert ran.code == 0
    assert [cob["id"] for cob in data["cobs"]] == ["alpha/a", "alpha/cfg", "beta/b"]
    assert data["cobs"][0] == {
        "id": "alpha/a",
        "host": "alpha",
        "name": "a",
        "type": "simple",
        "states": ["outdated", "down", "up"],
        "preferred": "up",
        "remove": "down",
        "transitions": [["down", "up"], ["up", "down"], ["outdated", "up"], ["outdated", "down"]],
        "current": "unknown",
    }


def test_groups_of_states_are_told_where_a_type_has_some(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    """Needs keep the name that they were written with."""
    text = (site / "site.yml").read_text(encoding="utf-8")
    assert "    remove: down\n" in text
    grouped = text.replace(
        "    remove: down\n", "    remove: down\n    groups: {off: [outdated, down]}\n"
    )
    need = "needs: [{when: '* -> up', cob: a, on: back, state: off}]"
    (site / "site.yml").write_text(grouped.replace("requires: [a@back]", need), encoding="utf-8")
    data = json.loads(run("-C", site, "graph", "-o", "json").out)
    check_schema("graph", data)
    assert [cob["groups"] for cob in data["cobs"]] == [{"off": ["outdated", "down"]}] * 3
    assert ("beta/b", "down", "up", "alpha/a", "off") in _needs(data)


def test_an_object_names_the_limits_that_speak_of_it(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    text = (site / "site.yml").read_text(encoding="utf-8")
    limits = "limits: {rolling: {on: all, cob: b, max: 1}}\n"
    (site / "site.yml").write_text(f"{text}{limits}", encoding="utf-8")
    data = json.loads(run("-C", site, "graph", "-o", "json").out)
    check_schema("graph", data)
    told = {cob["id"]: cob.get("limits") for cob in data["cobs"]}
    assert told == {"alpha/a": None, "alpha/cfg": None, "beta/b": ["rolling"]}


def test_needs_are_expanded(run: Run, site: Path) -> None:
    data = json.loads(run("-C", site, "graph", "-o", "json").out)
    assert _needs(data) == {
        ("alpha/cfg", "outdated", "up", "alpha/a", "down"),
        ("alpha/cfg", "outdated", "down", "alpha/a", "down"),
        ("alpha/a", "down", "up", "alpha/cfg", "up"),
        ("alpha/a", "outdated", "up", "alpha/cfg", "up"),
        ("beta/b", "down", "up", "alpha/a", "up"),
        ("beta/b", "outdated", "up", "alpha/a", "up"),
        ("alpha/a", "up", "down", "beta/b", "down"),
        ("alpha/a", "outdated", "down", "beta/b", "down"),
    }


def test_a_lock_need_says_in(run: Run, site: Path, check_schema: CheckSchema) -> None:
    text = (site / "site.yml").read_text(encoding="utf-8")
    (site / "site.yml").write_text(text.replace("requires: [a@", "binds: [a@"), encoding="utf-8")
    data = json.loads(run("-C", site, "graph", "-o", "json").out)
    check_schema("graph", data)
    assert {"cob": "beta/b", "in": "up", "on": "alpha/a", "state": "up"} in data["needs"]


def test_yaml_is_the_same_data(run: Run, site: Path) -> None:
    as_json = json.loads(run("-C", site, "graph", "-o", "json").out)
    assert yaml.safe_load(run("-C", site, "graph", "-o", "yaml").out) == as_json


def test_a_limit_keeps_what_is_needed(run: Run, site: Path) -> None:
    def ids(limit: str) -> list[str]:
        data = json.loads(run("-C", site, "graph", "--limit", limit, "-o", "json").out)
        return [cob["id"] for cob in data["cobs"]]

    assert "beta/b" in ids("beta")
    assert "alpha/a" in ids("beta")


def test_a_limit_that_fits_no_host_is_an_error(run: Run, site: Path) -> None:
    ran = run("-C", site, "graph", "--limit", "gamma")
    assert ran.code in {3, 64}
    assert "gamma" in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"# failed\n\nbeta\r\n", ""),
        (b"\n# nothing\n", "names no host"),
        (b"\xff", "it is not UTF-8"),
        (None, "No such file"),
    ],
)
def test_a_limit_may_be_the_lines_of_a_file(
    run: Run, site: Path, tmp_path: Path, text: bytes | None, said: str
) -> None:
    """As Ansible takes it, so that those that failed can be tried again."""
    if text is not None:
        (tmp_path / "failed.retry").write_bytes(text)
    ran = run("-C", site, "graph", "--limit", f"@{tmp_path / 'failed.retry'}", "-o", "json")
    assert (said in ran.err, ran.code) == (True, 64 if said else 0)
    assert not said if ran.out else said


def test_text_says_what_each_object_needs(run: Run, site: Path) -> None:
    ran = run("-C", site, "graph")
    assert "beta/b (simple)\n  * -> up: alpha/a up\n" in ran.out
    assert ran.err.startswith("3 COBs, ")


@pytest.mark.parametrize(
    ("wanted", "start"), [("dot", "digraph"), ("mermaid", "flowchart"), ("svg", "<svg")]
)
def test_drawings_show_every_object(run: Run, site: Path, wanted: str, start: str) -> None:
    ran = run("-C", site, "graph", "-o", wanted)
    assert ran.code == 0
    assert ran.out.startswith(start)
    assert ran.err == ""
    for name in ("cfg", "a", "b"):
        assert name in ran.out


def test_svg_is_xml(run: Run, site: Path) -> None:
    ET.fromstring(run("-C", site, "graph", "-o", "svg").out)  # noqa: S314 - it is our own text


def test_too_many_objects_for_a_drawing_are_an_error_with_a_hint(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobweb.cli._draw.MOST_BOXES", 2)
    ran = run("-C", site, "graph", "-o", "svg")
    assert ran.code == 64
    assert "--limit" in ran.err


def test_current_states_come_from_the_state_database(site: Path) -> None:
    from cobweb.api import Site
    from cobweb.store import RunInfo, StateWritten, TransitionBegan

    run_info = RunInfo(id="r1", command="apply", started=1.0, user="u", host="h", pid=1)
    a, b = CobId("alpha/a"), CobId("beta/b")
    with Site(site) as session:
        store = session.store(create=True)
        store.begin_run(run_info)
        store.write(
            [
                StateWritten(cob=a, state="up", reason="check", time=1.0),
                StateWritten(cob=b, state="down", reason="check", time=1.0),
                TransitionBegan(cob=b, source="down", dest="up", time=2.0),
            ]
        )
    with Site(site) as session:
        assert current_states(session) == {a: "up"}


def test_a_need_that_two_words_ask_for_is_told_once(run: Run, site: Path) -> None:
    text = (site / "site.yml").read_text(encoding="utf-8")
    both = text.replace("requires: [a@back]", "binds: [a@back]")
    (site / "site.yml").write_text(both, encoding="utf-8")
    needs = json.loads(run("-C", site, "graph", "-o", "json").out)["needs"]
    rows = [json.dumps(need, sort_keys=True) for need in needs]
    assert len(rows) == len(set(rows))
    assert {
        "cob": "alpha/a",
        "from": "outdated",
        "to": "down",
        "on": "beta/b",
        "state": "down",
    } in needs
