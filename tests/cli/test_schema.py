"""The shipped schemas are right, and right for what is really written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from cobweb.cli.schema import read_schema, schema_files

Run = Callable[..., Any]


class _Yaml12(yaml.SafeLoader):
    """Reads `on` as a word, as YAML 1.2, editors and Cobweb do."""


_Yaml12.yaml_implicit_resolvers = {
    first: [(tag, words) for tag, words in known if not tag.endswith(":bool")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
NAMES = list(schema_files())
VERSION = {"seq": 1, "type": "version", "events": 1, "cobweb": "0.1.0"}
EVENTS: list[dict[str, Any]] = [
    VERSION,
    {"seq": 2, "time": 1.5, "type": "run.start"},
    {"seq": 3, "time": 1.5, "type": "cob.state", "cob": "h/a", "state": "up", "reason": "check"},
    *(
        {"seq": 4, "time": 1, "type": kind, "cob": "h/a", "holder": "h/b", "state": "up"}
        for kind in ("lock.request", "lock.grant", "lock.release", "lock.recall")
    ),
    {
        "seq": 5,
        "time": 2,
        "type": "transition.start",
        "cob": "h/a",
        "from": "down",
        "to": "up",
        "locks": [{"cob": "h/b", "state": "up"}],
    },
    {
        "seq": 6,
        "time": 3,
        "type": "transition.end",
        "cob": "h/a",
        "from": "down",
        "to": "up",
        "state": "up",
        "result": "ok",
        "attempt": 1,
        "seconds": 0.5,
    },
    {"seq": 7, "time": 4, "type": "cob.gave_up", "cob": "h/a"},
    {"seq": 8, "time": 4, "type": "slot.take", "limit": "rolling", "unit": "h"},
    {"seq": 9, "time": 4, "type": "slot.return", "limit": "rolling", "unit": "h"},
    {
        "seq": 10,
        "time": 4,
        "type": "limit.pause",
        "limit": "rolling",
        "units": ["h"],
        "seconds": 30,
    },
    {"seq": 11, "time": 4, "type": "generation.switch", "hosts": ["h"], "generation": 2},
    {
        "seq": 12,
        "time": 5,
        "type": "run.end",
        "result": "ok",
        "exit_code": 0,
        "counts": {"cobs": 1},
    },
]


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_one_of_draft_2020_12(name: str) -> None:
    schema = read_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_printed_as_json(run: Run, name: str) -> None:
    ran = run("schema", name)
    assert ran.code == 0
    assert json.loads(ran.out) == read_schema(name)


def test_a_schema_is_printed_as_yaml_where_asked_for(run: Run) -> None:
    assert yaml.safe_load(run("schema", "events", "-o", "yaml").out) == read_schema("events")


def test_the_list_names_every_schema(run: Run, check_schema: Callable[[str, Any], None]) -> None:
    text = run("schema").out
    assert all(name in text for name in NAMES)
    data = json.loads(run("schema", "-o", "json").out)
    check_schema("schemas", data)
    assert [schema["name"] for schema in data["schemas"]] == NAMES


def test_outputs_have_schemas() -> None:
    wanted = "events findings graph lock plan plugins result show site status why"
    assert set(wanted.split()) <= set(NAMES)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: str(event["type"]))
def test_each_event_of_the_design_is_valid(
    check_schema: Callable[[str, Any], None], event: dict[str, Any]
) -> None:
    check_schema("events", event)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: str(event["type"]))
def test_an_event_without_one_of_its_keys_is_not(
    check_schema: Callable[[str, Any], None], event: dict[str, Any]
) -> None:
    for key in event:
        if event["type"] == "run.start" and key not in {"seq", "time", "type"}:
            continue
        with pytest.raises(ValidationError):
            check_schema("events", {k: v for k, v in event.items() if k != key})


@pytest.mark.parametrize(
    "change",
    [{"type": "cob.gone"}, {"reason": "rumour"}, {"seq": 0}, {"cob": "nohost"}, {"state": 1}],
)
def test_an_event_with_a_wrong_value_is_not_valid(
    check_schema: Callable[[str, Any], None], change: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        check_schema("events", EVENTS[2] | change)


@pytest.mark.parametrize("name", ["site", "inventory"])
def test_what_people_write_has_a_schema_that_takes_the_demo(
    run: Run, tmp_path: Path, check_schema: Callable[[str, Any], None], name: str
) -> None:
    """The schemas of what people write are for editors: they take what Cobweb takes."""
    run("init", tmp_path)
    demo = Path(__file__).resolve().parents[2] / "inventories" / "demo"
    file = {"site": "site.yml", "inventory": "hosts.yml"}[name]
    for folder in (demo, tmp_path):
        data = yaml.load((folder / file).read_text(encoding="utf-8"), _Yaml12)  # noqa: S506 - it is a safe loader
        check_schema(name, data)


@pytest.mark.parametrize(
    "text",
    [
        "cobweb: 2",
        "cobs: {a: {typ: file}}",
        "cobs: {a: {requires: 1}}",
        "cobs: {a: {needs: [{when: up, cob: b}]}}",
        "types: {t: {states: []}}",
        "types: {t: {transitions: {down: {}}}}",
        "types: {t: {check: {tasks: a, role: b}}}",
        "limits: {l: {max: none}}",
        "state: mysql://x",
    ],
)
def test_a_wrong_site_is_marked_by_an_editor(
    check_schema: Callable[[str, Any], None], text: str
) -> None:
    with pytest.raises(ValidationError):
        check_schema("site", yaml.safe_load(text))
