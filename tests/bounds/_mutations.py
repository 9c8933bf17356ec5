"""Made-up input: good sites with parts of bad ones, from a seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

__all__ = ["Attempt", "attempt"]

SITE = """\
cobweb: 1
name: fuzz
inventory: hosts.yml
imports: [more.yml]
types:
  t:
    states: [down, up]
    preferred: up
    remove: down
    spec:
      type: object
      properties:
        a: {type: string, pattern: "^[a-z]*$"}
        template: {type: string, x-cobweb: template}
        content: {type: string}
    check: {tasks: tasks.yml}
    transitions: {down -> up: {timeout: 60}, up -> down: }
cobs:
  app: {type: t, on: web, spec: {a: "{{ v }}", template: x.j2}, requires: [db@db]}
  db: {type: t, on: "db:!web", spec: {a: "{{ w | lower }}"}}
"""
MORE = """\
limits:
  rolling: {on: web, cob: app, max: 50%, order: "{{ 1 if v == 'a' else 2 }}"}
"""
HOSTS = """\
all: {vars: {v: "{{ w }}", w: abc, list: [1, 2, {a: b}]}}
web: {hosts: {"web[1:3]": }}
db: {hosts: {db1: }, children: {more: }}
more: {vars: {n: 1}}
"""
TEMPLATE = (
    "{% for h in groups['all'] %}{{ h }} {{ hostvars[h].w | upper }}\n{% endfor %}{{ list }}\n"
)
JSON = '{"web1/app": "up", "db1/db": "down"}'
FILES: Mapping[str, str] = {
    "site.yml": SITE,
    "more.yml": MORE,
    "hosts.yml": HOSTS,
    "tasks.yml": "- set_fact: {cob_state: up}\n",
    "x.j2": TEMPLATE,
    "x.json": JSON,
}
COMMANDS: Sequence[tuple[str, ...]] = (
    ("validate",),
    ("show", "-o", "json"),
    ("graph", "-o", "json"),
    ("plan", "-o", "json"),
    ("explain", "web1/app.spec.a"),
    ("simulate",),
    ("simulate", "--initial", "SITE/x.json"),
    ("simulate", "--durations", "SITE/x.json"),
    ("apply", "SITE/x.json"),
    ("report", "--events", "SITE/x.json"),
    ("cluster", "plan", "--durations", "SITE/x.json"),
    ("import", "coopr", "SITE/x.json"),
    ("show", "--limit", "~(a|aa)+$"),
)
PIECES: Sequence[str] = (
    *(
        "[",
        "]",
        "{",
        "}",
        "{{",
        "}}",
        "{%",
        "%}",
        ": ",
        "- ",
        ", ",
        "&x ",
        "*x",
        "<<: ",
        "!vault ",
        "\n",
    ),
    *(
        "|",
        ">",
        "'",
        '"',
        "\\",
        "\0",
        "\ufeff",
        "\u202e",
        "\ud7ff",
        "~",
        "null",
        "1e999",
        "-1",
        "0x10",
    ),
    *(
        "[" * 300,
        "{a: " * 150,
        "- " * 500,
        "(" * 300,
        "9" * 5000,
        "a" * 5000,
        "~(a|aa)+$",
        "web[1:99999]",
    ),
    *("{{ v }}", "{{ hostvars }}", "{{ groups }}", "{{ 9 ** 999 ** 9 }}", "{{ 'x' * 99999999 }}"),
    *(
        "{% for i in range(99) %}",
        "{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}",
        "{{ m() }}",
    ),
    *(
        "| to_json",
        "| from_yaml",
        "| regex_search('(a|aa)+$')",
        "| replace('a', 'b' * 9999)",
        "| list",
    ),
    *("imports: [site.yml]", "children: {all: }", "NaN", "Infinity", '"\\ud800"', "\x1b[31m", "é"),
)
VALUES: Sequence[Any] = (
    *(None, True, -1, 0, 1.5, 10**30, "", "x", [], {}, "{{ v }}", "{{ w ~ v }}", "{{ [v] * 3 }}"),
    *(
        "~(a|aa)+$",
        "all:!web",
        "web[0]",
        "99999999999999s",
        "1000%",
        "../x",
        "/dev/null",
        "a" * 300,
    ),
)
MAX_CHANGES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Files of a site, and the command that is run on it."""

    files: Mapping[str, bytes]
    command: tuple[str, ...]


def attempt(seed: int, templates: Sequence[str]) -> Attempt:
    """Return what a seed makes; `templates` are further ones to take parts of."""
    random = Random(seed)
    files = {name: text.encode() for name, text in FILES.items()}
    for _ in range(random.randint(1, MAX_CHANGES)):
        name = random.choice([*files, "hosts.yml", "site.yml", "x.j2"])
        files[name] = random.choice(_CHANGES)(random, files[name], templates)
    return Attempt(files=files, command=random.choice([*COMMANDS, *list(COMMANDS[:2]) * 3]))


def _piece(random: Random, data: bytes, templates: Sequence[str]) -> bytes:
    at = random.randint(0, len(data))
    piece = random.choice([*PIECES, *random.sample(list(templates), 2)])
    return data[:at] + piece.encode("utf-8", "surrogatepass") + data[at:]


def _cut(random: Random, data: bytes, _: Sequence[str]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + data[at + random.randint(0, 20) :]


def _bits(random: Random, data: bytes, _: Sequence[str]) -> bytes:
    changed = bytearray(data or b"x")
    changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _twice(random: Random, data: bytes, _: Sequence[str]) -> bytes:
    at, end = sorted((random.randint(0, len(data)), random.randint(0, len(data))))
    return data[:end] + data[at:end] * random.choice([1, 2, 50]) + data[end:]


def _value(random: Random, data: bytes, templates: Sequence[str]) -> bytes:
    """Put another value in the place of a word."""
    words = data.split(b" ")
    made = json.dumps(random.choice([*VALUES, random.choice(templates)]))
    words[random.randrange(len(words))] = made.encode()
    return b" ".join(words)


_CHANGES = (_piece, _piece, _cut, _bits, _twice, _value, _value)
