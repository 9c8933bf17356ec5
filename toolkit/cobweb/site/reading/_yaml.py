"""Read strict YAML: every value knows its place, and nothing turns silently into something else.

Plain scalars follow the core schema of YAML 1.2, made stricter: `null`, `~`, `true`, `false`, and
a number only where writing the number gives the same text back. So `NO`, `on`, `0644`, `22:22`,
`1_000`, `1.10` and dates stay text. Duplicate keys, foreign tags and second documents are findings.
What is Ansible's own, inventories and files of variables, is full of the truth values of YAML 1.1:
there they are what Ansible takes them for, and told.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.composer import ComposerError

from cobweb.errors import Finding, Place
from cobweb.site.reading._nodes import (
    UNSAFE_KEY,
    VAULT_KEY,
    Leaf,
    Map,
    Node,
    Priority,
    Seq,
    key_place,
    kind,
)

MAX_BYTES = 64 * 2**20
"""A longer file is not read."""

MAX_DEPTH = 100
"""Deeper nesting is a finding."""

MAX_REPEATED = 100_000
"""So many values may come from aliases in one file: more is a billion laughs."""

_CORE = "tag:yaml.org,2002:"
_PLAIN = " plain"
"""Stands for the tag of a plain scalar without one; no document can write it."""

_PRIORITIES = {"!default": Priority.DEFAULT, "!force": Priority.FORCE}
_VAULTS = ("!vault", "!vault-encrypted")
_UNSAFE = "!unsafe"
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WORDS = {
    **{word: True for text in ("yes", "on") for word in (text, text.title(), text.upper())},
    **{word: False for text in ("no", "off") for word in (text, text.title(), text.upper())},
}
"""Truth values of YAML 1.1 as PyYAML, and so Ansible, reads them."""

ALL_KEYS = "*"
"""Stands for every part of a file."""

_NUMBER_STARTS = frozenset("-0123456789")
_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_FLOAT = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,17}", re.ASCII)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(
    data: bytes, file: str, *, ansible: str = "", words: dict[str, list[Place]] | None = None
) -> tuple[Node | None, tuple[Finding, ...]]:
    """Return the document in `data`, or None if there is none, and what is wrong with it.

    `file` is the name that places carry. An empty document is None without a finding. What is
    below the key `ansible`, or ALL_KEYS, is read as Ansible does: `words` gets the places where
    that is another value.
    """
    text, finding = _decode(data, file)
    if finding:
        return None, (finding,)
    try:
        loader = _Loader(text)
        try:
            reader = _Reader(file, loader.get_event, ansible, {} if words is None else words)
            return reader.document(), tuple(reader.findings)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        return None, (_syntax_finding(error, file),)


def scalar(text: str) -> Any:
    """Return what a plain scalar stands for (see the module's docstring)."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text):
        return int(text) if text != "-0" else text
    if _FLOAT.fullmatch(text) and str(float(text)) == text:
        return float(text)
    return text


@dataclass(slots=True)
class _Anchor:
    """What an alias stands for: where it begins, its value once it is read, how many values."""

    event: Any
    node: Node | None = None
    size: int = 1


class _Reader:
    """Turns PyYAML's events into our nodes; what is behind an alias is one node, shared."""

    def __init__(
        self, file: str, next_event: Callable[[], Any], ansible: str, words: dict[str, list[Place]]
    ) -> None:
        self.findings: list[Finding] = []
        self._ansible = ansible
        self._is_ansible = ansible == ALL_KEYS
        self._is_unsafe = False
        self._words = words
        self._file = file
        self._next = next_event
        self._anchors: dict[str, _Anchor] = {}
        self._repeated = 0
        self._size = 0

    def document(self) -> Node | None:
        """Read the only document; YAMLError for wrong syntax, deep nesting and a second one."""
        self._next()
        start = self._next()
        if type(start) is yaml.StreamEndEvent:
            return None
        node = self._value(self._next(), 0)
        self._next()
        after = self._next()
        if type(after) is not yaml.StreamEndEvent:
            raise ComposerError(None, None, "but found another document", after.start_mark)
        return node

    def _value(self, event: Any, depth: int) -> Node:
        """Read the value that begins with `event`, and all below it."""
        if type(event) is yaml.AliasEvent:
            return self._again(self._anchor(event))
        anchor = self._anchored(event) if event.anchor is not None else None
        before, was_unsafe = self._size, self._is_unsafe
        self._size += 1
        self._is_unsafe = was_unsafe or event.tag == _UNSAFE
        node = self._leaf(event) if type(event) is yaml.ScalarEvent else self._inner(event, depth)
        self._is_unsafe = was_unsafe
        if anchor is not None:
            anchor.node, anchor.size = node, self._size - before
        return node

    def _anchored(self, event: Any) -> _Anchor:
        if event.anchor in self._anchors:
            problem = f"the anchor `{event.anchor}` is there twice"
            raise ComposerError(None, None, problem, event.start_mark)
        made = self._anchors[event.anchor] = _Anchor(event)
        return made

    def _anchor(self, alias: Any) -> _Anchor:
        if alias.anchor not in self._anchors:
            raise ComposerError(None, None, "found undefined alias", alias.start_mark)
        return self._anchors[alias.anchor]

    def _again(self, anchor: _Anchor) -> Node:
        if anchor.node is None and type(anchor.event) is yaml.ScalarEvent:  # it was a key
            anchor.node = self._leaf(anchor.event)
            self._size += 1
            return anchor.node
        if anchor.node is None:
            self._find(anchor.event, "a value that contains itself", "write it without the alias")
            return Leaf(value=None, place=self._place(anchor.event))
        self._repeated += anchor.size
        self._size += anchor.size
        if self._repeated > MAX_REPEATED:
            if self._repeated - anchor.size <= MAX_REPEATED:
                hint = "write fewer aliases of large values"
                self._find(anchor.event, f"aliases repeat more than {MAX_REPEATED} values", hint)
            return Leaf(value=None, place=self._place(anchor.event))
        return anchor.node

    def _leaf(self, event: Any) -> Leaf:
        tag = _tag_of(event)
        if tag == _PLAIN or (tag == _UNSAFE and self._is_ansible):
            value = scalar(event.value)  # below `!unsafe` a quoted number is one, to Ansible
            if self._is_ansible and event.value in _WORDS:
                value = _WORDS[event.value]
                self._words.setdefault(event.value, []).append(self._place(event))
        else:
            value = self._scalar(event, tag)
        if self._is_unsafe and isinstance(value, str):
            value = {UNSAFE_KEY: value}
        priority = _PRIORITIES.get(tag, Priority.NORMAL)
        return Leaf(value=value, place=self._place(event), priority=priority)

    def _inner(self, event: Any, depth: int) -> Node:
        if depth >= MAX_DEPTH:
            raise _TooDeepError(None, None, "", event.start_mark)
        priority = _PRIORITIES.get(event.tag, Priority.NORMAL)
        if type(event) is yaml.MappingStartEvent:
            self._known_tag(event, "map")
            return self._mapping(event, depth, priority)
        self._known_tag(event, "seq")
        items = []
        while type(item := self._next()) is not yaml.SequenceEndEvent:
            items.append(self._value(item, depth + 1))
        return Seq(items=tuple(items), place=self._place(event), priority=priority)

    def _mapping(self, event: Any, depth: int, priority: Priority) -> Map:
        items: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Map] = []
        while type(first := self._next()) is not yaml.MappingEndEvent:
            if type(first) is yaml.ScalarEvent and first.tag is None and first.anchor is None:
                key_event, key = first, first.value  # nearly all are like this
            else:
                key_event = self._key_event(first, depth)
                key = self._key(key_event)
            if key == "<<" and _tag_of(key_event) == _PLAIN:
                merged += self._merged(depth)
                continue
            place = self._place(key_event)
            if key in items:
                hint = f"first in line {keys[key].line}"
                self._find(key_event, f"`{key}` is written twice", hint)
                self._skip(self._next(), depth)
                continue
            keys[key] = place
            self._is_ansible = self._is_ansible or (depth == 0 and key == self._ansible)
            items[key] = self._value(self._next(), depth + 1)
            self._is_ansible = self._ansible == ALL_KEYS or (depth > 0 and self._is_ansible)
        for other in merged:
            for key in other.items:
                if key not in items:
                    items[key], keys[key] = other.items[key], key_place(other, key)
        return Map(items=items, keys=keys, place=self._place(event), priority=priority)

    def _key_event(self, event: Any, depth: int) -> Any:
        """Return the event of a key, that of its anchor for an alias; all of a long one is read."""
        if type(event) is yaml.AliasEvent:
            return self._anchor(event).event
        if type(event) is not yaml.ScalarEvent:
            self._skip(event, depth)
        elif event.anchor is not None:
            self._anchored(event)
        return event

    def _skip(self, event: Any, depth: int) -> None:
        """Read what is no part of the document's value; what is wrong inside does not matter."""
        found, size, repeated = len(self.findings), self._size, self._repeated
        self._value(event, depth + 1)
        del self.findings[found:]
        self._size, self._repeated = size, repeated

    def _merged(self, depth: int) -> list[Map]:
        event = self._next()
        source = self._anchor(event).event if type(event) is yaml.AliasEvent else event
        node = self._value(event, depth + 1)
        nodes = node.items if isinstance(node, Seq) else (node,)
        for item in nodes:
            if not isinstance(item, Map):
                message = f"`<<` takes mappings, not {kind(item)}"
                self._find(source, message, "name an anchor: `<<: *x`")
        return [item for item in nodes if isinstance(item, Map)]

    def _key(self, event: Any) -> str:
        if type(event) is not yaml.ScalarEvent:
            self._find(event, "a key must be text", "put quotes round a template")
            return f"?{event.start_mark.line}"
        tag = _tag_of(event)
        if tag not in (_PLAIN, _CORE + "str"):
            self._find(event, f"a key cannot have the tag `{tag}`", "leave the tag out")
        return str(event.value)

    def _scalar(self, event: Any, tag: str) -> Any:
        text = str(event.value)
        if tag in _PRIORITIES:
            return text if event.style else scalar(text)
        if tag in _VAULTS:
            return {VAULT_KEY: text}
        short = tag.removeprefix(_CORE)
        if short in ("int", "float", "bool", "null"):
            return self._typed(event, short)
        if short != "str":
            self._unknown_tag(event)
        return text

    def _typed(self, event: Any, short: str) -> Any:
        value = scalar(str(event.value))
        if type(value).__name__.replace("NoneType", "null") != short:
            self._find(event, f"`{event.value}` is no {short}", "write it without the tag")
        return value

    def _known_tag(self, event: Any, core: str) -> None:
        if event.tag not in (None, "!", _CORE + core, *_PRIORITIES):
            self._unknown_tag(event)

    def _unknown_tag(self, event: Any) -> None:
        if event.tag == _UNSAFE and self._is_ansible:
            return
        shown = event.tag.replace(_CORE, "!!")
        hint = "known are `!default`, `!force` and `!vault`, and `!unsafe` in files of Ansible"
        self._find(event, f"unknown tag `{shown}`", hint)

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(file=self._file, line=mark.line + 1, column=mark.column + 1)

    def _find(self, event: Any, message: str, hint: str) -> None:
        self.findings.append(Finding(place=self._place(event), message=message, hint=hint))


class _TooDeepError(yaml.MarkedYAMLError):
    """The nesting is deeper than it may be; reading it to the end could end the process."""


def _tag_of(event: Any) -> str:
    """Return the tag of a scalar; one without a tag is plain or text."""
    if event.tag is None or event.tag == "!":
        return _PLAIN if event.implicit[0] else _CORE + "str"
    return str(event.tag)


def _decode(data: bytes, file: str) -> tuple[str, Finding | None]:
    if len(data) > MAX_BYTES:
        message = f"the file is longer than {MAX_BYTES // 2**20} MiB"
        return "", Finding(place=Place(file=file), message=message, hint="split it")
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        place = Place(file=file, line=line, column=column)
        return "", Finding(place=place, message="the file is not UTF-8", hint="save it as UTF-8")


def _syntax_finding(error: yaml.YAMLError, file: str) -> Finding:
    mark = getattr(error, "problem_mark", None)
    place = Place(file=file)
    if mark is not None:
        place = Place(file=file, line=mark.line + 1, column=mark.column + 1)
    if isinstance(error, _TooDeepError):
        return Finding(place=place, message=f"more than {MAX_DEPTH} levels of nesting")
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    message, hint = f"this is not YAML: {problem}", _syntax_hint(str(problem))
    return Finding(place=place, message=message, hint=hint)


def _syntax_hint(problem: str) -> str:
    hints = {
        "\\t": "indent with spaces, not with tabs",
        "cannot start any token": "put quotes round the value, and indent with spaces",
        "mapping values are not": "put quotes round a value with `: `, or mend the indentation",
        "is there twice": "give one of them another name",
        "undefined alias": "name an anchor that stands before it in the same file",
        "another document": "write one document per file, without a second `---`",
        "control characters": "save the file as UTF-8 text",
        "not allowed": "save the file as UTF-8 text",
        "unhashable": "put quotes round a template",
    }
    return next((hint for part, hint in hints.items() if part in problem), "mend the syntax")
