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


def cob(name: str) -> dict[str, str | bytes]:
    """Return a site with a COB of this name, as it is written."""
    return {"site.yml": SITE.replace("  app: {", f"  {name}: {{")}


def host(name: str) -> dict[str, str | bytes]:
    """Return an inventory of one host."""
    return {"hosts.yml": json.dumps({"all": {"hosts": {name: None}, "vars": {"v": 1}}})}


def raw(text: str) -> dict[str, str | bytes]:
    """Return the inventory with one variable, as it is written."""
    return {"hosts.yml": HOSTS.replace("VALUE", text)}


def limit(text: str) -> dict[str, str | bytes]:
    """Return a site with a limit."""
    return {"site.yml": f"{SITE}limits: {{a: {{on: all, max: {text}}}}}\n"}


def state(url: str) -> dict[str, str | bytes]:
    """Return a site whose state is there."""
    return {"site.yml": f"state: {url}\n{SITE}"}


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
KNOWN: Mapping[str, Case] = {
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


NO_HOST = "is no name for a host (letters, digits, `_`, `.` and `-`, at most 253)"
NO_ASCII = (
    "is no name for a host (letters, digits, `_`, `.` and `-`, at most 253, all of ASCII; write "
)
NO_COB = "is no name for a COB (letters, digits, `_`, `.` and `-`, at most 253)"
NO_PLAN = "this is no plan"
REVIEWED: Mapping[str, tuple[Mapping[str, str | bytes], tuple[str, ...], int, str]] = {
    "UTF-16": ({"site.yml": SITE.encode("utf-16")}, (), 3, "site.yml:1:1: the file is not UTF-8"),
    "Latin-1": ({"host_vars/h1.yml": b"a: \xe9\n"}, (), 3, "h1.yml:1:4: the file is not UTF-8"),
    "a mark and CRLF": (
        {"site.yml": ("\ufeff" + SITE.replace("\n", "\r\n")).encode()},
        (),
        0,
        "is valid",
    ),
    "CR alone": ({"site.yml": SITE.replace("\n", "\r").encode()}, (), 0, "is valid"),
    "NUL in a file": ({"site.yml": SITE + "#\0"}, (), 3, "control characters are not allowed"),
    "half a pair": (raw(r'"\uD800"'), (), 3, "invalid Unicode character escape code"),
    "a million [": (raw("[" * 10**6), (), 3, "hosts.yml:1:129: more than 100 levels of nesting"),
    "a million -": ({"hosts.yml": "- " * 10**6}, (), 3, "1:201: more than 100 levels of nesting"),
    "a large file": ({"hosts.yml": "#" + "x" * 70_000_000}, (), 3, "is longer than 64 MiB"),
    "a twin in Unicode": (host("e\u0301"), (), 3, NO_ASCII),
    "a Cyrillic twin": (host("\u0430pp"), (), 3, NO_ASCII),
    "a space of no width": (host("a\u200bb"), (), 3, f"`a\u200bb` {NO_ASCII}"),
    "full-width digits": (host("\uff11"), (), 3, NO_ASCII),
    "a host of two lines": (host("a\nb"), (), 3, f"`a\\nb` {NO_HOST}"),
    "a host with a space": (host("a b"), (), 3, f"`a b` {NO_HOST}"),
    "a host that is an option": (host("-oProxyCommand=x"), (), 3, f"`-oProxyCommand=x` {NO_HOST}"),
    "a host that is a folder": (host(".."), (), 3, f"`..` {NO_HOST}"),
    "a long host": (host("h" * 254), (), 3, NO_HOST),
    "a COB with a slash": (cob('"a/b"'), (), 3, f"`a/b` {NO_COB}"),
    "a COB of two lines": (cob(r'"a\nb"'), (), 3, f"`a\\nb` {NO_COB}"),
    "a COB without a name": (cob('""'), (), 3, f"`` {NO_COB}"),
    "a COB that controls": (cob(r'"\e[2J"'), (), 3, f"`\\x1b[2J` {NO_COB}"),
    "a COB that turns around": (cob(r'"\u202e"'), (), 3, f"`\\u202e` {NO_COB}"),
    "a COB that is an option": (cob('"-x"'), (), 3, f"`-x` {NO_COB}"),
    "a long COB": (cob("a" * 254), (), 3, NO_COB),
    "a COB of digits": (cob("007"), (), 0, "is valid"),
    "a COB called null": (cob("null"), (), 0, "is valid"),
    "an import without end": (
        {"site.yml": f"{SITE}imports: [/dev/zero]\n"},
        (),
        3,
        "of the running system, and never a file of a site",
    ),
    "a limit below nothing": (limit("-1"), (), 3, "must be a number from 1 or a percentage"),
    "a limit of 0 %": (limit("0%"), (), 3, "must be a number from 1 or a percentage"),
    "half a unit": (limit("1.5"), (), 3, "must be a number from 1 or a percentage"),
    "laughs in tasks": ({"tasks.yml": f"- x: {{{', '.join(LAUGHS.splitlines())}}}\n"}, (), 0, ""),
    "fewer than nobody": ({}, ("apply", "--yes", "--parallel", "-1"), 64, "is not in the range"),
    "no time": ({}, ("apply", "--yes", "--timeout", "nan"), 64, "'nan' is no duration"),
    "more than all": ({}, ("apply", "--yes", "--max-failures", "101%"), 64, "more than 100%"),
    "a limit of two lines": ({}, ("plan", "--limit", "a\nb"), 64, "no host or group is called"),
    "a plan of nothing": ({}, ("apply", "/dev/null"), 1, NO_PLAN),
    "a plan that is a list": ({"x": "[]"}, ("apply", "SITE/x"), 1, NO_PLAN),
    "a plan that is empty": ({"x": "{}"}, ("apply", "SITE/x"), 1, NO_PLAN),
    "a plan that is no number": ({"x": "NaN"}, ("apply", "SITE/x"), 1, NO_PLAN),
    "less than no time": ({"x": '{"app": -1}'}, ("simulate", "--durations", "SITE/x"), 64, "-1"),
    "a full disk for a plan": ({}, ("plan", "--out", "/dev/full"), 1, "No space left on device"),
    "a plan to nowhere": ({}, ("plan", "--out", "SITE/no/x"), 1, "No such file or directory"),
    "a full disk for events": ({}, ("simulate", "--events", "/dev/full"), 0, "no longer written"),
    "another database": (state("mysql://x/y"), ("status",), 3, "`state` is no URL of a database"),
    "a database that refuses": (
        state("postgresql+psycopg://u:hunter2@127.0.0.1:1/x"),
        ("status",),
        1,
        "u:***@127.0.0.1:1/x cannot be used",
    ),
}
"""The rest of table C of the review: files, command, exit code, and what is said."""
CASES: Mapping[str, Case] = dict(KNOWN) | {
    name: Case(files=files, command=command or ("validate",), code=code, said=(said,))
    for name, (files, command, code, said) in REVIEWED.items()
}


@pytest.mark.gate("some take what a site may take")
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
