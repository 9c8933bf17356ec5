"""Sites and files that are too deep, too large or take for ever: a message, and the exit code."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cobweb.cli import main
from tests.support.bounded import bounded

SITE = """\
cobweb: 1
inventory: hosts.yml
types:
  t:
    states: [down, up]
    preferred: up
    remove: down
    spec: {}
    check: {tasks: tasks.yml}
    transitions: {down -> up: , up -> down: }
cobs:
  app: {type: t, on: all, spec: {x: "{{ v }}"}}
"""
HOSTS = "all: {hosts: {h1: }, vars: {v: VALUE}}\n"
TASKS = "- set_fact: {cob_state: up}\n"
DEEP = "[" * 100_000
SIMULATE = ("simulate",)


def hosts(value: object) -> dict[str, str | bytes]:
    """Return the inventory with one variable."""
    return {"hosts.yml": HOSTS.replace("VALUE", json.dumps(value))}


def spec(schema: str, text: str) -> dict[str, str | bytes]:
    """Return a site whose type has a schema, and a value for its spec."""
    return {"site.yml": SITE.replace("spec: {}", f"spec: {schema}"), **hosts(text)}


def imports(count: int) -> dict[str, str | bytes]:
    """Return files that import each other in a chain."""
    chain = {f"m{n}.yml": f"imports: [m{n + 1}.yml]\n" for n in range(count)}
    return {"site.yml": f"{SITE}imports: [m0.yml]\n", **chain, f"m{count}.yml": "cobs: {}\n"}


def groups(count: int) -> dict[str, str | bytes]:
    """Return groups of groups, each with the next one as its child."""
    named = {f"g{n}": {"children": {f"g{n + 1}": None}} for n in range(count)}
    last = {f"g{count}": {"hosts": {"h1": None}}, "all": {"vars": {"v": 1}}}
    return {"hosts.yml": json.dumps({**named, **last})}


def chain(count: int) -> dict[str, str | bytes]:
    """Return variables that refer to each other in a chain."""
    values = {f"v{n}": f"{{{{ v{n + 1} }}}}" for n in range(count)}
    return {
        "hosts.yml": json.dumps(
            {"all": {"hosts": {"h1": None}, "vars": {"v": "{{ v0 }}", **values, f"v{count}": 1}}}
        )
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is added to the site, the command, its exit code, and what it says."""

    files: Mapping[str, str | bytes] = field(default_factory=dict)
    command: tuple[str, ...] = ("validate",)
    code: int = 3
    said: tuple[str, ...]


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{one}: &{one} [{', '.join(['*' + other] * 9)}]\n"
    for one, other in zip("bcdefghij", "abcdefghi", strict=True)
)
LONG = "a" * 60 + "!"
FOLDED = "fold"
PATTERN: dict[str, dict[str, str]] = {"^(a|aa)+$": {}}
CASES: Mapping[str, Case] = {
    "a number that cannot be written": Case(
        files=hosts("{{ (10**1000)**5 }}"),
        command=("show", "-o", "json"),
        said=("hosts.yml:1:", "a number of more than 8192 bits"),
    ),
    "powers of powers": Case(
        files=hosts("{{ ((10**1000)**1000)**100 }}"), said=("more than 8192 bits",)
    ),
    "a host pattern that takes for ever": Case(
        files={
            "site.yml": SITE.replace("on: all", 'on: "~(a|aa)+$"'),
            "hosts.yml": f"all: {{hosts: {{{LONG[:-1]}b: }}, vars: {{v: 1}}}}\n",
        },
        said=("site.yml:12:", "takes more than 1 s", "nested repetitions"),
    ),
    "a pattern of a schema that takes for ever": Case(
        files=spec('{properties: {x: {type: string, pattern: "^(a|aa)+$"}}}', LONG),
        said=("site.yml:", "takes more than 1 s", "mend the expression"),
    ),
    "names of properties that take for ever": Case(
        files=spec(f"{{properties: {{x: {{patternProperties: {json.dumps(PATTERN)}}}}}}}", "")
        | {"hosts.yml": HOSTS.replace("VALUE", json.dumps({LONG: 1}))},
        said=("takes more than 1 s",),
    ),
    "unnamed properties that take for ever": Case(
        files=spec(
            "{properties: {x: {additionalProperties: false,"
            f" patternProperties: {json.dumps(PATTERN)}}}}}}}",
            "",
        )
        | {"hosts.yml": HOSTS.replace("VALUE", json.dumps({LONG: 1}))},
        said=("takes more than 1 s",),
    ),
    "a huge number beside multipleOf": Case(
        files=spec("{properties: {x: {multipleOf: 0.5}}}", "{{ 10**1000 }}"),
        said=("a number of `spec` is too large",),
    ),
    "a billion laughs in a text": Case(
        files=hosts(
            f"{{{{ '{base64.b64encode(LAUGHS.encode()).decode()}' | b64decode | from_yaml"
            " | to_json }}"
        ),
        said=("each counted once per alias",),
    ),
    "a text that grows": Case(
        files=hosts("{{ ('x'*8000000).replace('x','y'*1000) }}"),
        said=("more than 8388608 characters",),
    ),
    "1500 imports in a chain": Case(
        files=imports(1500), said=("m98.yml:1:", "more than 100 files import each other")
    ),
    "groups 1500 deep": Case(files=groups(1500), code=0, said=("is valid",)),
    "1500 variables in a chain": Case(
        files=chain(1500), said=("more than 50 variables refer to each other in a chain",)
    ),
    "a plan that is deep": Case(
        files={"x.plan": DEEP}, command=("apply", "SITE/x.plan"), code=1, said=("this is no plan",)
    ),
    "first states that are deep": Case(
        files={"x.json": DEEP},
        command=(*SIMULATE, "--initial", "SITE/x.json"),
        code=64,
        said=("x.json: more than 100 levels of nesting",),
    ),
    "first states of binary bytes": Case(
        files={"x.json": b"\x80\x81"},
        command=(*SIMULATE, "--initial", "SITE/x.json"),
        code=64,
        said=("x.json:1:1: the text is not UTF-8",),
    ),
    "durations that are deep": Case(
        files={"x.json": DEEP},
        command=(*SIMULATE, "--durations", "SITE/x.json"),
        code=64,
        said=("levels of nesting",),
    ),
    "durations without end": Case(
        files={"x.json": '{"app": 1e999}'},
        command=(*SIMULATE, "--durations", "SITE/x.json"),
        code=64,
        said=("app takes inf",),
    ),
    "durations of a huge number": Case(
        files={"x.json": '{"app": 1' + "0" * 5000 + "}"},
        command=(*SIMULATE, "--durations", "SITE/x.json"),
        code=64,
        said=("this is no JSON that Cobweb reads",),
    ),
    "events that are deep": Case(
        files={"x.jsonl": DEEP},
        command=("report", "--events", "SITE/x.jsonl"),
        code=1,
        said=("this is no event of Cobweb: more than 100 levels",),
    ),
    "entities that are deep": Case(
        files={"services/x.json": DEEP},
        command=("import", "coopr", "SITE/services"),
        code=1,
        said=("more than 100 levels of nesting", "nothing was written"),
    ),
    "an anchor that is there twice": Case(
        files={"hosts.yml": "all: {hosts: {h1: }, vars: {v: &x 1, w: &x 2}}\n"},
        said=("hosts.yml:1:", "the anchor `x` is there twice"),
    ),
    "a template that includes another": Case(
        files=hosts("{% include 'x' %}"),
        said=("hosts.yml:1:", "`include` is not possible", "a template is one file"),
    ),
    "an import that is no file": Case(
        files={"site.yml": f"{SITE}imports: [{FOLDED}.yml]\n", f"{FOLDED}.yml/x": ""},
        said=("imported file `fold.yml` is no file",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_too_much_gets_a_message(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    files = {"site.yml": SITE, **hosts(1), "tasks.yml": TASKS, **case.files}
    for file, content in files.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    command = [part.replace("SITE", str(tmp_path)) for part in case.command]
    os.environ.pop("COBWEB_SITE", None)
    outcome = bounded(lambda: main(["-C", str(tmp_path), *command]))
    assert "Traceback" not in outcome.said
    assert outcome.end == case.code, outcome
    for part in case.said:
        assert part in outcome.said
