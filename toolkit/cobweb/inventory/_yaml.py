"""Read strict YAML: every value knows its place, and nothing turns silently into something else.

Plain scalars follow the core schema of YAML 1.2, made stricter: `null`, `~`, `true`, `false`, and
a number only where writing the number gives the same text back. So `NO`, `on`, `0644`, `22:22`,
`1_000`, `1.10` and dates stay text. Duplicate keys, foreign tags and second documents are findings.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from cobweb.errors import Finding, Place
from cobweb.inventory._nodes import VAULT_KEY, Leaf, Map, Node, Priority, Seq, key_place, kind

MAX_BYTES = 64 * 2**20
"""A longer file is not read."""

MAX_DEPTH = 100
"""Deeper nesting is a finding."""

MAX_REPEATED = 100_000
"""So many values may come from aliases in one file: more is a billion laughs."""

_PLAIN = "tag:cobweb,2025:plain"
_CORE = "tag:yaml.org,2002:"
_PRIORITIES = {"!default": Priority.DEFAULT, "!force": Priority.FORCE}
_VAULTS = ("!vault", "!vault-encrypted")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_FLOAT = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,17}", re.ASCII)
_DEEP_LINE = re.compile(rf"^[ \-?]{{{MAX_DEPTH}}}", re.MULTILINE)
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # the base is chosen at run time
    """Composes nodes only; plain scalars get a tag of our own."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012  PyYAML's own shape


_Loader.add_implicit_resolver(_PLAIN, re.compile(""), [None])


def read_yaml(data: bytes, file: str) -> tuple[Node | None, tuple[Finding, ...]]:
    """Return the document in `data`, or None if there is none, and what is wrong with it.

    `file` is the name that places carry. An empty document is None without a finding.
    """
    text, finding = _decode(data, file)
    if finding:
        return None, (finding,)
    try:
        depth_error = _too_deep(text, file)
        if depth_error:
            return None, (depth_error,)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        return None, (_syntax_finding(error, file),)
    if root is None:
        return None, ()
    reader = _Reader(file)
    node = reader.node(root, 0)
    return node, tuple(reader.findings)


def scalar(text: str) -> Any:
    """Return what a plain scalar stands for (see the module's docstring)."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text) if text != "-0" else text
    if _FLOAT.fullmatch(text) and str(float(text)) == text:
        return float(text)
    return text


class _Reader:
    """Turns PyYAML's nodes into ours; a node behind an alias is converted once and shared."""

    def __init__(self, file: str) -> None:
        self.findings: list[Finding] = []
        self._file = file
        self._done: dict[int, tuple[Node, int]] = {}
        self._open: set[int] = set()
        self._repeated = 0
        self._size = 0

    def node(self, source: yaml.Node, depth: int) -> Node:
        """Convert one node and all below it."""
        known = self._done.get(id(source))
        if known:
            return self._again(source, *known)
        if id(source) in self._open or depth > MAX_DEPTH:
            what = "contains itself" if depth <= MAX_DEPTH else "is nested too deeply"
            self._find(source, f"a value that {what}", "write it without the alias")
            return Leaf(value=None, place=self._place(source))
        self._open.add(id(source))
        before = self._size
        self._size += 1
        node = self._convert(source, depth)
        self._open.discard(id(source))
        self._done[id(source)] = (node, self._size - before)
        return node

    def _again(self, source: yaml.Node, node: Node, size: int) -> Node:
        self._repeated += size
        self._size += size
        if self._repeated > MAX_REPEATED:
            if self._repeated - size <= MAX_REPEATED:
                hint = "write fewer aliases of large values"
                self._find(source, f"aliases repeat more than {MAX_REPEATED} values", hint)
            return Leaf(value=None, place=self._place(source))
        return node

    def _convert(self, source: yaml.Node, depth: int) -> Node:
        priority = _PRIORITIES.get(source.tag, Priority.NORMAL)
        place = self._place(source)
        if isinstance(source, yaml.ScalarNode):
            return Leaf(value=self._scalar(source), place=place, priority=priority)
        if isinstance(source, yaml.SequenceNode):
            self._known_tag(source, "seq")
            items = tuple(self.node(item, depth + 1) for item in source.value)
            return Seq(items=items, place=place, priority=priority)
        self._known_tag(source, "map")
        return self._mapping(source, depth, priority)

    def _mapping(self, source: yaml.Node, depth: int, priority: Priority) -> Map:
        items: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Map] = []
        for key_node, value_node in source.value:
            if _is_merge(key_node):
                merged += self._merged(value_node, depth)
                continue
            key = self._key(key_node)
            place = self._place(key_node)
            if key in items:
                self._find(key_node, f"`{key}` is written twice", f"first in line {keys[key].line}")
                continue
            keys[key] = place
            items[key] = self.node(value_node, depth + 1)
        for other in merged:
            for key in other.items:
                if key not in items:
                    items[key], keys[key] = other.items[key], key_place(other, key)
        return Map(items=items, keys=keys, place=self._place(source), priority=priority)

    def _merged(self, source: yaml.Node, depth: int) -> list[Map]:
        node = self.node(source, depth + 1)
        nodes = node.items if isinstance(node, Seq) else (node,)
        for item in nodes:
            if not isinstance(item, Map):
                self._find(
                    source, f"`<<` takes mappings, not {kind(item)}", "name an anchor: `<<: *x`"
                )
        return [item for item in nodes if isinstance(item, Map)]

    def _key(self, source: yaml.Node) -> str:
        if not isinstance(source, yaml.ScalarNode):
            self._find(source, "a key must be text", "put quotes round a template")
            return f"?{source.start_mark.line}"
        if source.tag not in (_PLAIN, "!", _CORE + "str"):
            self._find(source, f"a key cannot have the tag `{source.tag}`", "leave the tag out")
        return str(source.value)

    def _scalar(self, source: yaml.ScalarNode) -> Any:
        tag, text = source.tag, str(source.value)
        if tag in (_PLAIN, *_PRIORITIES):
            return text if source.style else scalar(text)
        if tag in _VAULTS:
            return {VAULT_KEY: text}
        short = tag.removeprefix(_CORE)
        if short in ("int", "float", "bool", "null"):
            return self._typed(source, short)
        if short not in ("!", "str"):
            self._unknown_tag(source)
        return text

    def _typed(self, source: yaml.ScalarNode, short: str) -> Any:
        value = scalar(str(source.value))
        if type(value).__name__.replace("NoneType", "null") != short:
            self._find(source, f"`{source.value}` is no {short}", "write it without the tag")
        return value

    def _known_tag(self, source: yaml.Node, core: str) -> None:
        if source.tag not in (_CORE + core, "!", *_PRIORITIES):
            self._unknown_tag(source)

    def _unknown_tag(self, source: yaml.Node) -> None:
        shown = source.tag.replace(_CORE, "!!")
        self._find(source, f"unknown tag `{shown}`", "known are `!default`, `!force` and `!vault`")

    def _place(self, source: yaml.Node) -> Place:
        mark = source.start_mark
        return Place(file=self._file, line=mark.line + 1, column=mark.column + 1)

    def _find(self, source: yaml.Node, message: str, hint: str) -> None:
        self.findings.append(Finding(place=self._place(source), message=message, hint=hint))


def _is_merge(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.tag == _PLAIN and key.value == "<<"


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


def _too_deep(text: str, file: str) -> Finding | None:
    """Look at the events first: composing is recursive, deep nesting would end the process."""
    if text.count("[") + text.count("{") < MAX_DEPTH and not _DEEP_LINE.search(text):
        return None
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                place = _marked(event.start_mark, file)
                return Finding(place=place, message=f"more than {MAX_DEPTH} levels of nesting")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return None


def _syntax_finding(error: yaml.YAMLError, file: str) -> Finding:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return Finding(
        place=_marked(mark, file),
        message=f"this is not YAML: {problem}",
        hint=_syntax_hint(str(problem)),
    )


def _marked(mark: Any, file: str) -> Place:
    if mark is None:
        return Place(file=file)
    return Place(file=file, line=mark.line + 1, column=mark.column + 1)


def _syntax_hint(problem: str) -> str:
    hints = {
        "\\t": "indent with spaces, not with tabs",
        "cannot start any token": "put quotes round the value, and indent with spaces",
        "mapping values are not": "put quotes round a value with `: `, or mend the indentation",
        "undefined alias": "name an anchor that stands before it in the same file",
        "another document": "write one document per file, without a second `---`",
        "control characters": "save the file as UTF-8 text",
        "not allowed": "save the file as UTF-8 text",
        "unhashable": "put quotes round a template",
    }
    return next((hint for part, hint in hints.items() if part in problem), "mend the syntax")
