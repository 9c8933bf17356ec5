"""What differs between two generations, as names and lines; pure.

Two contents are compared, the plain data of the canonical JSON of an evaluated site. A line begins
with `-` where it is only in the old one, with `+` where it is only in the new one, and with `~`
where it says that a secret differs: of secrets nothing else is said.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cobweb.generation._content import INPUTS, SECRET_MARK, inputs_of
from cobweb.generation._texts import ChangeKind, text_difference
from cobweb.generation._trees import TREE, tree_of

_LONG = 72
"""A list or mapping that takes more characters is shown item by item."""

_NEED = ("cob", "in", "from", "to", "on", "state")
"""The keys of a need."""

_MARKS = {
    "confirm": "(confirm)",
    "machines": "(machine)",
    "protected": "(protect)",
    "trusts": "(trust)",
    "wants": "(want)",
}
"""Keys of a content that say something of single objects, and how it is shown."""

_NEWLINE = "\n"
_SECRET = "(secret)"  # noqa: S105 - what is shown instead of one

_Data = Mapping[str, Any]
_Lines = Callable[[Any, Any], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs; `lines` say in what if it was changed, and are empty if not.

    `old` and `new` are the type of an object, "" where there is none, and for all but objects;
    `trees` are the digests of its file trees where these differ: (old, new).
    """

    name: str
    kind: ChangeKind
    lines: tuple[str, ...] = ()
    old: str = ""
    new: str = ""
    trees: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedDifference:
    """A need that was added or removed, with the keys of section 7 of the design."""

    kind: ChangeKind
    need: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDiff:
    """All that differs, each sorted by name, needs by object.

    `files` are those that types work with, by the names that actions have for them.
    """

    hosts: tuple[Difference, ...] = ()
    cobs: tuple[Difference, ...] = ()
    needs: tuple[NeedDifference, ...] = ()
    types: tuple[Difference, ...] = ()
    limits: tuple[Difference, ...] = ()
    files: tuple[Difference, ...] = ()

    def __bool__(self) -> bool:
        """Say whether anything differs."""
        return self != SiteDiff()


def site_diff(old: _Data, new: _Data) -> SiteDiff:
    """Return what differs between the contents of two generations.

    The time is that of writing both as JSON, but for long texts in specs, which are compared line
    by line.
    """
    before, after = _parts(old), _parts(new)
    return SiteDiff(
        hosts=_differences(before["hosts"], after["hosts"], spec_diff),
        cobs=_cobs(old, new),
        needs=tuple(_needs(old["needs"], new["needs"])),
        types=_differences(before["types"], after["types"], _type_lines),
        limits=_differences(before["limits"], after["limits"], _limit_lines),
        files=_differences(before["files"], after["files"], lambda *_: ()),
    )


def spec_diff(old: _Data, new: _Data) -> tuple[str, ...]:
    """Return the lines that differ between two specs, key by key.

    Texts of several lines are compared line by line: `~key: +1 -2`, and then the hunks of a unified
    diff. Of a file tree it is told how large it is. Of a secret nothing is shown but that it is
    one, and that it differs. Each variable that is content is a key of its own.
    """
    old, new = _flat(old), _flat(new)
    lines: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        lines += _key_diff(key, old, new)
    return tuple(lines)


def _flat(spec: _Data) -> _Data:
    variables = {f"{INPUTS}.{name}": value for name, value in inputs_of(spec).items()}
    rest = {key: value for key, value in spec.items() if key != INPUTS}
    return {**rest, **variables} if variables else spec


def changed_trees(old: _Data, new: _Data) -> tuple[str, str] | None:
    """Return the digests of the trees of two specs; None unless both have one and they differ."""
    found = tree_of(old), tree_of(new)
    return found if all(found) and found[0] != found[1] else None


def _differences(old: _Data, new: _Data, lines: _Lines) -> tuple[Difference, ...]:
    """Compare things by name; `lines` tells how two that differ do."""
    return tuple(
        Difference(
            name=name,
            kind=kind,
            lines=lines(old[name], new[name]) if kind is ChangeKind.CHANGED else (),
        )
        for name, kind in _changes(old, new)
    )


def _changes(old: _Data, new: _Data) -> Iterator[tuple[str, ChangeKind]]:
    """Yield what became of each name, for those whose values differ as JSON."""
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield name, ChangeKind.ADDED
        elif name not in new:
            yield name, ChangeKind.REMOVED
        elif not _same(old[name], new[name]):
            yield name, ChangeKind.CHANGED


def _parts(content: _Data) -> dict[str, _Data]:
    """Return what is compared by name; what says nothing (null, "", 0) is as if absent."""
    return {
        "hosts": {
            name: {"(groups)": host["groups"], **host["variables"]}
            for name, host in content["hosts"].items()
        },
        "types": {name: _said(kind) for name, kind in content["types"].items()},
        "limits": {
            limit["name"]: _said(limit) for limit in (*content["limits"], *content["budgets"])
        },
        "files": content["files"],
    }


def _said(value: Any) -> Any:
    """Return plain data without what says nothing."""
    if isinstance(value, Mapping):
        said = {key: _said(item) for key, item in value.items()}
        return {key: item for key, item in said.items() if item}
    return [_said(item) for item in value] if isinstance(value, list) else value


def _cobs(old: _Data, new: _Data) -> tuple[Difference, ...]:
    """Compare objects: their types, their specs, and what else is said of them."""
    before, after = old["cobs"], new["cobs"]
    marks = (_marks(old), _marks(new))
    found = dict(_changes(before, after))
    for cob, _ in _changes(*marks):
        if cob in before and cob in after:  # what is added or removed is that already
            found[cob] = ChangeKind.CHANGED
    return tuple(
        Difference(
            name=cob,
            kind=kind,
            lines=_cob_lines(cob, (before, after), marks),
            old=before.get(cob, {}).get("type", ""),
            new=after.get(cob, {}).get("type", ""),
            trees=changed_trees(*(side.get(cob, {}).get("spec", {}) for side in (before, after))),
        )
        for cob, kind in sorted(found.items())
    )


def _marks(content: _Data) -> dict[str, dict[str, Any]]:
    """Return what is said of objects that have it beside their types and specs."""
    found: dict[str, dict[str, Any]] = {}
    for key, name in _MARKS.items():
        for cob, value in content.get(key, {}).items():
            found.setdefault(cob, {})[name] = _said(value)
    return found


def _cob_lines(cob: str, cobs: tuple[_Data, _Data], marks: tuple[_Data, _Data]) -> tuple[str, ...]:
    """Return how an object differs that both sides have; nothing for another one."""
    if not all(cob in side for side in cobs):
        return ()
    specs = [side[cob]["spec"] for side in cobs]
    others = [side.get(cob, {}) for side in marks]
    return spec_diff(specs[0], specs[1]) + spec_diff(others[0], others[1])


def _needs(old: Sequence[_Data], new: Sequence[_Data]) -> Iterator[NeedDifference]:
    """Yield the needs that only one of both has, by object, those that are gone first."""
    before, after = (
        {tuple(need.get(key, "") for key in _NEED) for need in it} for it in (old, new)
    )
    found = [(need, ChangeKind.REMOVED) for need in before - after]
    found += [(need, ChangeKind.ADDED) for need in after - before]
    for need, kind in sorted(found, key=lambda it: (it[0][0], it[1] is ChangeKind.ADDED, it[0])):
        known = {key: value for key, value in zip(_NEED, need, strict=True) if value}
        yield NeedDifference(kind=kind, need=known)


def _limit_lines(old: _Data, new: _Data) -> tuple[str, ...]:
    return _line_diff(*(list(_limit_text(limit)) for limit in (old, new)))


def _limit_text(limit: _Data) -> Iterator[str]:
    """Yield what a limit says: its bound, and for each group or unit its members."""
    for key, value in limit.items():
        if key not in ("name", "groups", "units"):
            yield f"{key}: {value}"
    for unit in limit.get("units", ()):
        for member in unit["members"]:
            yield f"{unit['name']}: {member}"
        for domain in unit.get("domains", ()):
            yield f"{unit['name']} in {domain}"
        if "order" in unit:
            yield f"{unit['name']} order {unit['order'][2] or unit['order'][1]}"
    for group in limit.get("groups", ()):
        name = f"{group['name']}: " if "name" in group else ""
        yield f"{name}at most {group['bound']}"
        for member in group.get("members", ()):
            yield f"{name}{member}"


def _type_lines(old: _Data, new: _Data) -> tuple[str, ...]:
    shared = [{"shared": it["shared"]} if "shared" in it else {} for it in (old, new)]
    return _line_diff(*(list(_type_text(kind)) for kind in (old, new))) + spec_diff(*shared)


def _type_text(kind: _Data) -> Iterator[str]:
    """Yield what a type says, one line for each step of its matrix, in order of declaration."""
    for key, value in kind.items():
        if key == "shared":  # its values are told as those of a spec
            continue
        if key == "transitions":
            steps = [f"{step['from']} -> {step['to']}" for step in value]
            yield f"transitions: {', '.join(steps)}"
            for name, step in zip(steps, value, strict=True):
                rest = {other: it for other, it in step.items() if other not in ("from", "to")}
                yield f"{name}: {_short(rest)}"
        elif key == "groups":
            yield from (f"group {name}: {_short(states)}" for name, states in value.items())
        else:
            yield f"{key}: {_short(value)}"


def _short(value: Any) -> str:
    """Return a value without quotes and brackets."""
    if isinstance(value, Mapping):
        parts = ((key if key != "action" else "", _short(item)) for key, item in value.items())
        return ", ".join(f"{key} {text}".lstrip() for key, text in parts)
    return ", ".join(map(_short, value)) if isinstance(value, list) else str(value)


def _line_diff(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Return the lines that only one of both has; each is there once."""
    before, after = set(old), set(new)
    gone = [f"-{line}" for line in old if line not in after]
    return (*gone, *(f"+{line}" for line in new if line not in before))


# --- values and secrets


def _key_diff(key: str, old: _Data, new: _Data) -> list[str]:
    if key not in old:
        return [f"+{line}" for line in _lines(key, _hidden(new[key]))]
    if key not in new:
        return [f"-{line}" for line in _lines(key, _hidden(old[key]))]
    return [] if _same(old[key], new[key]) else _value_diff(key, old[key], new[key])


def _value_diff(key: str, old: Any, new: Any) -> list[str]:
    """Return the lines that differ between two values that do."""
    if all(isinstance(value, str) and "\n" in value for value in (old, new)):
        return list(_text_diff(key, old, new))
    if key == TREE and tree_of({key: old}) and tree_of({key: new}):
        return [f"~{key}: {_size(old)} -> {_size(new)}"]
    before, after = (list(_lines(key, _hidden(value))) for value in (old, new))
    found = difflib.unified_diff(before, after, lineterm="", n=0)
    lines = [line for line in islice(found, 2, None) if not line.startswith("@@")]
    secrets = [list(_secrets(value)) for value in (old, new)]
    gone, come = (set(one) - set(other) for one, other in (secrets, reversed(secrets)))
    if (gone and come) or (not lines and secrets[0] != secrets[1]):
        lines.append(f"~{key}: (secret changed)")
    return lines or [f"-{_line(key, _hidden(old))}", f"+{_line(key, _hidden(new))}"]


def _text_diff(key: str, old: str, new: str) -> Iterator[str]:
    found = text_difference(old, new)
    if found is None:
        yield f"~{key}: {old.count(_NEWLINE)} lines -> {new.count(_NEWLINE)} lines"
        return
    yield f"~{key}: +{found.added} -{found.removed}"
    for line in found.lines:
        yield f"   {line}" if line.startswith("@@") else f"{line[:1]}  {line[1:]}"


def _size(tree: _Data) -> str:
    return f"{tree['files']} files, {tree['bytes']} bytes"


def _lines(name: str, value: Any) -> Iterator[str]:
    """Yield a value line by line: texts by their lines, long lists and mappings by their parts."""
    line = _line(name, value)
    if isinstance(value, str) and "\n" in value:
        yield f"{name}: |" if value.endswith("\n") else f"{name}: |-"
        for text in value.removesuffix("\n").split("\n"):
            yield f"  {text}"
    elif len(line) > _LONG and isinstance(value, Mapping):
        for key in sorted(value):
            yield from _lines(f"{name}.{key}", value[key])
    elif len(line) > _LONG and isinstance(value, list):
        for item in value:
            yield from _lines(f"{name}[]", item)
    else:
        yield line


def _line(name: str, value: Any) -> str:
    return f"{name}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"


def _hidden(value: Any) -> Any:
    """Return a value with secrets replaced by a word."""
    if isinstance(value, Mapping):
        if value.keys() == {SECRET_MARK}:
            return _SECRET
        return {key: _hidden(item) for key, item in value.items()}
    return [_hidden(item) for item in value] if isinstance(value, list) else value


def _secrets(value: Any) -> Iterator[str]:
    """Yield the digests of the secrets in a value."""
    if isinstance(value, Mapping) and value.keys() == {SECRET_MARK}:
        yield value[SECRET_MARK]
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _secrets(item)


def _same(one: Any, other: Any) -> bool:
    """Say whether two values are the same JSON: `1`, `1.0` and `true` are not."""
    if repr(one) == repr(other):  # which is quick, but knows the order of keys
        return True
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
