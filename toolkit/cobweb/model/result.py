"""Results: what the tasks of a host handed back, and the values that wait for them in specs.

A result is a value that is not known before a task has run: the id that a provider gave a node, its
address. Results are kept per host and by key. A spec names one by a token, `late_result(host,
key)`, which stays as it is wherever a site is read, compared or stored; a job is made with the
value in its place.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

Results = Mapping[str, Mapping[str, Any]]
"""What is known of hosts: values by key, by host; a host without any may be missing."""

MissingResult = tuple[str, str]
"""The host and the key of a result that is not known."""

RESULTS_LIMIT = 65_536
"""How long the JSON text of what one job hands back may be, if it is kept."""

ANSWER_LIMIT = 1 << 20
"""How long it may be if it is the answer to a question, which is not kept."""

USUAL_CONNECTION = frozenset(("ansible_host", "ansible_port", "ansible_user"))
"""The variables of the connection to a host that may be results of any type."""

_MARK = "%{cobweb:"
_TOKEN = re.compile(r"%\{cobweb:result:([^{}\s]+):([A-Za-z0-9_.-]+)\}")
_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_VAULT_MARK = "__ansible_vault"
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")
_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_PORT = re.compile(r"[0-9]{1,5}")
_LAST_PORT = 65_535
_SHOWN = 60
"""How much of a bad value is shown."""
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")
_WORD = re.compile(r"[^\x00-\x1f\x7f]{0,4096}")
_RUNS_HERE = re.compile(
    r"ansible_(?:connection|become.*|.*_(?:args|executable|interpreter|command|cmd|provider|python))"
)


def late_result(host: str, key: str) -> str:
    """Return the token that stands for a result in a spec; ValueError for what can be none."""
    token = f"{_MARK}result:{host}:{key}}}"
    if not _TOKEN.fullmatch(token):
        raise ValueError(f"no result can have the host {host!r} and the key {key!r}")
    return token


def has_late_values(spec: Any) -> bool:
    """Say whether plain data has a token in it; quick, since most has none."""
    if isinstance(spec, str):
        return _MARK in spec and _TOKEN.search(spec) is not None
    if type(spec) is dict or isinstance(spec, Mapping):
        spec = spec.values()
    elif not isinstance(spec, list | tuple):
        return False
    return any(has_late_values(it) for it in spec if type(it) is not str or _MARK in it)


def fill_in(
    spec: Any, results: Results, *, known: Any = None
) -> tuple[Any, tuple[MissingResult, ...]]:
    """Return plain data with its tokens replaced, and what was missing for that, sorted.

    A text that is nothing but one token becomes the value itself; within a longer one, what is no
    text is written as JSON. Where a text needs something that is missing it stays as it is, unless
    `known`, data of the same form, has a value at its place: then it becomes that.
    """
    missing: set[MissingResult] = set()
    return _filled(spec, results, known, missing), tuple(sorted(missing))


def merged_results(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a host once a job has handed back `new`: None deletes a key."""
    return {key: value for key, value in {**old, **new}.items() if value is not None}


def connection_variables(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a host whose keys make them variables of the connection to it."""
    return {key: value for key, value in results.items() if key.startswith("ansible_")}


def decides_what_runs_here(name: str) -> bool:
    """Say whether a variable of a connection can name a program that runs on the controller."""
    return _RUNS_HERE.fullmatch(name) is not None


def connection_problem(
    results: Mapping[str, Any], opened: Collection[str] = ()
) -> tuple[str, str] | None:
    """Return the first key that must not become a variable of a connection, and why; None if none.

    `opened` are names that may, besides the usual ones. A value of None deletes and is none.
    """
    for key, value in connection_variables(merged_results({}, results)).items():
        if key not in USUAL_CONNECTION and key not in opened:
            return key, "is not for results to say"
        if said := _CONNECTION_VALUES.get(key.replace("_ssh_", "_"), _word_problem)(value):
            return key, f"{said}: {str(value)[:_SHOWN]!r}"
    return None


def results_problem(results: object, *, is_answer: bool = False) -> str:
    """Say why something cannot be kept as results, or be an answer; "" if it can."""
    if not isinstance(results, Mapping):
        return f"results are a mapping of keys to values, not a {type(results).__name__}"
    if bad := [key for key in results if not isinstance(key, str) or not _KEY.fullmatch(key)]:
        return f"the key of a result is of letters, digits, `_`, `.` and `-`, not {bad[0]!r}"
    if secret := sorted(key for key, value in results.items() if _has_vault_mark(value)):
        return f"the result {secret[0]} is vaulted, and no secret is kept as a result"
    try:
        size = len(json.dumps(dict(results), allow_nan=False))
    except (TypeError, ValueError) as error:
        return f"results are plain JSON data: {error}"
    most = ANSWER_LIMIT if is_answer else RESULTS_LIMIT
    too_long = f"results of {size} characters of JSON; a job may hand back {most}"
    return too_long if size > most else ""


def _host_problem(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if ":" not in text:
        return "" if _NAME.fullmatch(text) else "is no name or address of a host"
    try:
        zone = ipaddress.IPv6Address(text).scope_id
    except ValueError:
        return "is no address of a host"
    return "" if zone is None or _ZONE.fullmatch(zone) else "is no address of a host"


def _port_problem(value: object) -> str:
    text = str(value)
    is_port = _PORT.fullmatch(text) and 1 <= int(text) <= _LAST_PORT
    return "" if is_port else f"is no number from 1 to {_LAST_PORT}"


def _user_problem(value: object) -> str:
    return "" if isinstance(value, str) and _USER.fullmatch(value) else "is no name of a user"


def _word_problem(value: object) -> str:
    is_word = isinstance(value, str) and _WORD.fullmatch(value)
    return "" if is_word or isinstance(value, int | float) else "is no line of text or number"


_CONNECTION_VALUES = {
    "ansible_host": _host_problem,
    "ansible_port": _port_problem,
    "ansible_user": _user_problem,
}
"""What is wrong with a value, by name; `ansible_ssh_host` and its like are other names of these."""


def _filled(value: Any, results: Results, known: Any, missing: set[MissingResult]) -> Any:
    if isinstance(value, str):
        return _filled_text(value, results, known, missing) if _MARK in value else value
    if isinstance(value, Mapping):
        then = known if isinstance(known, Mapping) else {}
        return {key: _filled(item, results, then.get(key), missing) for key, item in value.items()}
    if isinstance(value, list | tuple):
        same = isinstance(known, list | tuple) and len(known) == len(value)
        items: Iterable[Any] = known if same else [None] * len(value)
        pairs = zip(value, items, strict=True)
        return [_filled(item, results, before, missing) for item, before in pairs]
    return value


def _filled_text(text: str, results: Results, known: Any, missing: set[MissingResult]) -> Any:
    named: list[MissingResult] = _TOKEN.findall(text)
    found = {(host, key): results[host][key] for host, key in named if key in results.get(host, ())}
    if lacks := [pair for pair in named if pair not in found]:
        if known is not None:
            return known
        missing.update(lacks)
        return text
    if _TOKEN.fullmatch(text):
        return found[named[0]]
    texts = {pair: it if isinstance(it, str) else json.dumps(it) for pair, it in found.items()}
    return _TOKEN.sub(lambda it: texts[it[1], it[2]], text)


def _has_vault_mark(value: object) -> bool:
    if isinstance(value, Mapping):
        return _VAULT_MARK in value or any(map(_has_vault_mark, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_vault_mark, value))
