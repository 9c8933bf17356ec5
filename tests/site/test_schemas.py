"""The schemas for editors say the same as the loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cobweb._resources import data_dir
from cobweb.site import _load
from cobweb.site.hosts import _sources
from cobweb.site.objects import _cobs, _confirm, _drift, _limits, _references, _types
from cobweb.site.reading._nodes import plain
from cobweb.site.reading._yaml import read_yaml

ROOT = Path(__file__).resolve().parents[2]
SITES = sorted(ROOT.glob("inventories/*/site.yml"))


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((data_dir("schemas") / f"{name}.schema.json").read_text())
    return loaded


def read(text: str) -> Any:
    node, findings = read_yaml(text.encode(), "f")
    assert not findings
    assert node is not None
    return plain(node)


def errors(name: str, text: str) -> list[str]:
    return [error.message for error in Draft202012Validator(schema(name)).iter_errors(read(text))]


def test_the_schemas_know_the_keys_of_the_loader() -> None:
    site = schema("site")
    parts = site["$defs"]
    sections = {path.name.partition(".")[0] for path in ROOT.glob("schemas/sections/*.schema.json")}
    assert sections
    assert set(site["properties"]) == {*_load._KEYS, "imports", *sections}
    assert set(parts["cob"]["properties"]) == set(_cobs._KEYS)
    assert set(parts["need"]["properties"]) == set(_references._NEED_KEYS)
    assert set(parts["type"]["properties"]) == set(_types._KEYS)
    assert set(parts["action"]["properties"]) == set(_types._ACTION_KEYS)
    assert set(parts["step"]["properties"]) == set(_types._STEP_KEYS)
    assert set(parts["limit"]["properties"]) == set(_limits._KEYS)
    assert set(site["properties"]["drift"]["properties"]) == set(_drift._KEYS)
    assert set(parts["confirm"]["anyOf"][1]["properties"]) == set(_confirm._KEYS)
    group = parts["group"]["anyOf"][1]
    assert set(group["properties"]) == set(_sources._GROUP_KEYS)
    assert schema("inventory")["$defs"]["group"] == parts["group"]


@pytest.mark.parametrize("path", SITES, ids=lambda path: path.parent.name)
def test_example_sites_fit(path: Path) -> None:
    assert errors("site", path.read_text()) == []


def test_sites_of_the_table_of_bad_input_fit() -> None:
    table = yaml.safe_load((ROOT / "tests/bad_input/cases.yml").read_text())
    for base in table["bases"].values():
        assert errors("site", base["site.yml"]) == []
        if "hosts.yml" in base:
            assert errors("inventory", base["hosts.yml"]) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("site", "cobweb: 2"),
        ("site", "nmae: x"),
        ("site", "cobs: {a: {typ: x}}"),
        ("site", "cobs: {a/b: {type: x}}"),
        ("site", "cobs: {a: {requires: b}}"),
        ("site", "cobs: {a: {confirm: soon}}"),
        ("site", "cobs: {a: {confirm: {revert: x}}}"),
        ("site", "cobs: {a: {confirm: {within: 60s, prepare: x}}}"),
        ("site", "limits: {l: {max: -1}}"),
        ("site", "limits: {l: {max: 1, first: 0}}"),
        ("site", "limits: {l: {max: 1, first: 1, pause: soon}}"),
        ("site", "limits: {l: {max: 1, trust: -1}}"),
        ("site", "limits: {l: {max: 1, order: [a]}}"),
        ("site", "limits: {l: {max: 1, during: {cob: a}}}"),
        ("site", "limits: {l: {max: 1, during: {cob: a, state: up, host: b}}}"),
        *(
            ("site", f"limits: {{l: {{max: 1, transition: a -> b, {key}: {value}}}}}")
            for key, value in {"unit": "host", "first": 1, "group": "g", "order": "x"}.items()
        ),
        ("site", "drift: {ignore: log}"),
        ("site", "drift: {ignored: [log]}"),
        ("site", "types: {t: {states: []}}"),
        ("site", "inventory: {app: {host: {}}}"),
        ("site", "state: /tmp/x"),
        ("inventory", "app: {childern: {}}"),
        ("inventory", "app: [h]"),
    ],
)
def test_mistakes_do_not_fit(name: str, text: str) -> None:
    assert errors(name, text)
