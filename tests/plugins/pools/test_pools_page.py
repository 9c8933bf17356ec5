"""The page on pools: its section is one, its settings are all there are, its policy works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from cobweb_plugins.pools.decision import AdapterFacts, Pools, Service, Standing, pools_of

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "pools.md").read_text(encoding="utf-8")
SCHEMA: dict[str, Any] = json.loads(
    (ROOT / "schemas" / "pool-trace.schema.json").read_text(encoding="utf-8")
)


def code(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_section_of_the_page_is_one() -> None:
    # PyYAML reads `on` as true, which the reader of sites does not.
    section = yaml.safe_load(code("yaml").replace(" on: ", ' "on": '))["pools"]
    definitions = {"$defs": SCHEMA["$defs"]}
    Draft202012Validator({**definitions, **SCHEMA["properties"]["pools"]}).validate(section)
    facts = AdapterFacts(holds=frozenset({"host", "licence"}))
    pools = pools_of(section, dict.fromkeys(["processes", "spare"], facts))
    assert [id_ for id_, it in pools.resources.items() if it.static] == ["n12"]
    assert pools.resources["n12"].properties["cores"] == 8
    # What the page gives as default is what the example says, where it says it.
    defaults = Pools()
    assert (pools.immunity_s, pools.grow_after_s, pools.shrink_after_s) == (
        defaults.immunity_s,
        defaults.grow_after_s,
        defaults.shrink_after_s,
    )


def test_the_page_names_each_key_of_the_section() -> None:
    keys = {
        key
        for name, part in SCHEMA["$defs"].items()
        if name not in ("workload", "record", "stream", "member", "answer")
        for key in part.get("properties", {})
    }
    assert {key for key in keys if not re.search(rf"\b{key}\b", PAGE)} == set()


def test_the_policy_of_the_page_weighs_twice() -> None:
    names: dict[str, Any] = {}
    exec(code("python"), names)  # noqa: S102  # what the page tells people to write
    policy = names["Doubled"]()
    service = Service(name="a", adapter="any", holds=frozenset())
    assert policy.weight(Standing(service=service, entitled=0), 21, 1) == 42
    assert (policy.point, policy.name) == ("pool_policy", "doubled")


def test_the_section_of_a_site_is_that_of_a_trace() -> None:
    """A trace has the section as it is written; in a site its names are those of objects, too."""
    path = ROOT / "schemas" / "sections" / "pools.schema.json"
    section = json.loads(path.read_text(encoding="utf-8"))
    for name, part in section["$defs"].items():
        assert part == SCHEMA["$defs"][name]
    for name in ("services", "resources"):
        assert section["properties"][name].pop("propertyNames")
    assert section["properties"] == SCHEMA["$defs"]["pools"]["properties"]
