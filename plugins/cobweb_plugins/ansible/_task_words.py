"""What a file of tasks says that a play of one host takes otherwise, and what it takes in.

A file is read as nodes of YAML and never as values: each word has its place, a tag that nobody
knows (`!vault`, `!unsafe`) does no harm, and an alias is no copy. Nothing here is templated, so a
file or a role that a template names is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Position = tuple[int, int]
"""Line and column, counted from 1."""

MAGIC = ("ansible_play_hosts", "ansible_play_hosts_all", "ansible_play_batch", "play_hosts")
"""Variables that name the hosts of the play."""

_FALSE = ("", "~", "null", "false", "no", "off", "n", "f", "0")
KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "run_once": _FALSE,
    "any_errors_fatal": _FALSE,
    "throttle": ("", "~", "null", "0"),
    "max_fail_percentage": (),
}
"""Keywords of a task or a block that speak of other hosts -> values with which they say nothing."""

MAX_DEPTH = 100
"""What is nested more deeply is not looked at."""

_BLIND = frozenset(["command", "shell", "raw", "script", "expect"])
"""Modules that do in check mode nothing at all, if they are not told more."""

_ASKS = frozenset(["assert", "fail"])
"""Modules that do nothing to a host: it is the same whether one host has them done or each."""

_TAKE_FILES = frozenset(["import_tasks", "include_tasks"])
_TAKE_ROLES = frozenset(["import_role", "include_role"])
_BLOCKS = ("block", "rescue", "always")
_ACTIONS = ("action", "local_action")
_TOLD = frozenset(["check_mode", "changed_when"])
_BOUNDS = frozenset(["creates", "removes"])
_OURS = re.compile(r"ansible\.(?:builtin|legacy)\.")
MAGIC_WORDS = re.compile(rf"\b(?:{'|'.join(sorted(MAGIC, reverse=True))})\b")
_ARGUMENT = re.compile(r"(?:^|\s)(\w+)=(\S*)")
_LINE_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Part(StrEnum):
    """What a file is for; of a role it is the name of the folder."""

    TASKS = "tasks"
    HANDLERS = "handlers"
    VARS = "vars"
    DEFAULTS = "defaults"
    META = "meta"
    TEMPLATES = "templates"


@dataclass(slots=True)
class Words:
    """What a file says.

    `spanning` are words that speak of other hosts, `blind` the modules of tasks that check mode
    cannot look at. `files` and `roles` are the names of what the file takes in, `once` the files
    among them that `run_once` takes in. A file that `only_asks` does nothing to a host.
    """

    spanning: dict[Position, str] = field(default_factory=dict)
    blind: dict[Position, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    once: dict[Position, str] = field(default_factory=dict)
    only_asks: bool = False


def words_of(data: bytes, part: Part) -> Words:
    """Return what a file says; nothing for one that is not what it should be."""
    found = Words()
    text = data.decode("utf-8", errors="replace")
    if part is Part.TEMPLATES:
        _look_for_words(_without_comments(text), None, found)
        return found
    try:
        root = _composed(text, _Loader)
    except (yaml.YAMLError, RecursionError):
        return found
    if root is None:
        return found
    _look_for_words(text, root, found)
    if part is Part.META:
        found.roles += _dependencies(root)
    elif part in (Part.TASKS, Part.HANDLERS):
        tasks = list(_tasks(root))
        found.only_asks = all(_asks(task) for task, _ in tasks)
        for task, is_told in tasks:
            _look_at_task(task, found, is_told=is_told or part is Part.HANDLERS)
    return found


def tasks_node(text: str) -> Node | None:
    """Return the one document of a text; YAMLError or RecursionError where it cannot be had.

    The loader in C is quick, the other one says better what is wrong.
    """
    try:
        return _composed(text, _Loader)
    except yaml.YAMLError:
        return _composed(text, yaml.SafeLoader)


def _composed(text: str, loader: Any) -> Node | None:
    """Compose a document that is not nested too deeply: the loader in C would not survive that."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError("it is nested too deeply")
    node: Node | None = yaml.compose(text, Loader=loader)
    return node


def _without_comments(text: str) -> str:
    """Return a template with blanks in the place of its comments, so that all places stay."""
    parts, begin = [], 0
    while (start := text.find("{#", begin)) >= 0 and (end := text.find("#}", start + 2)) >= 0:
        parts += [text[begin:start], re.sub(r"\S", " ", text[start : end + 2])]
        begin = end + 2
    return "".join([*parts, text[begin:]])


def _look_for_words(text: str, root: Node | None, found: Words) -> None:
    """Find the magic variables in all texts of a document, or in all of a text."""
    if not MAGIC_WORDS.search(text):
        return
    lines = _LINE_END.split(text)
    whole = ((number, 0, len(line)) for number, line in enumerate(lines))
    for number, start, end in whole if root is None else _spans(root, lines):
        for match in MAGIC_WORDS.finditer(lines[number], start, end):
            found.spanning[number + 1, match.start() + 1] = match[0]


def _spans(root: Node, lines: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of lines that are in texts: line from 0, first column, and after the last."""
    for node in _scalars(root):
        first, last = node.start_mark, node.end_mark
        for number in range(first.line, min(last.line + 1, len(lines))):
            start = first.column if number == first.line else 0
            yield number, start, last.column if number == last.line else len(lines[number])


def _scalars(root: Node) -> Iterator[ScalarNode]:
    """Yield each text of a document once, those that are keys among them."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ScalarNode):
            yield node
        elif isinstance(node, MappingNode):
            waiting += (it for pair in node.value for it in pair)
        else:
            waiting += node.value


_Pairs = Mapping[str, tuple[ScalarNode, Node]]
"""A mapping: the name of a key -> its node, and that of its value."""


def _pairs(node: object) -> _Pairs:
    """Return what a mapping has, with what it merges by `<<`; nothing for what is none."""
    waiting, seen = [node], set[int]()
    found: dict[str, tuple[ScalarNode, Node]] = {}
    while waiting:
        here = waiting.pop()
        if not isinstance(here, MappingNode) or id(here) in seen:
            continue
        seen.add(id(here))
        for key, value in here.value:
            if not isinstance(key, ScalarNode):
                continue
            if key.value == "<<":
                waiting += value.value if isinstance(value, SequenceNode) else [value]
            else:
                found.setdefault(key.value, (key, value))
    return found


def _value(pairs: _Pairs, name: str) -> Node | None:
    return pairs[name][1] if name in pairs else None


def _tasks(root: Node) -> Iterator[tuple[_Pairs, bool]]:
    """Yield the tasks and blocks of a list; and whether a block around says its check mode."""
    waiting, seen = [(root, False)], set[int]()
    while waiting:
        node, is_told = waiting.pop()
        if not isinstance(node, SequenceNode) or id(node) in seen:
            continue
        seen.add(id(node))
        for task in map(_pairs, node.value):
            inside = is_told or "check_mode" in task
            waiting += ((task[it][1], inside) for it in _BLOCKS if it in task)
            yield task, inside


def _asks(task: _Pairs) -> bool:
    return any(module in _ASKS for _, module, _ in _calls(task))


def _look_at_task(task: _Pairs, found: Words, *, is_told: bool) -> None:
    _look_at_keywords(task, found)
    if _asks(task) and "run_once" in task:
        found.spanning.pop(_position(task["run_once"][0]), None)
    for word, module, given in _calls(task):
        if module in _TAKE_FILES | _TAKE_ROLES:
            _look_at_keywords(_pairs(_value(_pairs(given), "apply")), found)
            arguments = _arguments((given, _value(task, "args")))
            keys = ("file", "") if module in _TAKE_FILES else ("name", "role")
            taken = next((arguments[it] for it in keys if arguments.get(it)), "")
            into = found.files if module in _TAKE_FILES else found.roles
            into += [taken] if taken and "{{" not in taken else []
            if into and into is found.files and "run_once" in task:
                place = _position(task["run_once"][0])
                if found.spanning.pop(place, ""):
                    found.once[place] = taken
        elif module in _BLIND and not (is_told or _TOLD & task.keys()):
            arguments = _arguments((given, _value(task, "args")))
            if not _BOUNDS & arguments.keys():
                found.blind[_position(word)] = word.value.strip().partition(" ")[0]


def _look_at_keywords(pairs: _Pairs, found: Words) -> None:
    for name, nothing in KEYWORDS.items():
        if name in pairs:
            key, value = pairs[name]
            if not isinstance(value, ScalarNode) or value.value.strip().lower() not in nothing:
                found.spanning[_position(key)] = name


def _calls(task: _Pairs) -> Iterator[tuple[ScalarNode, str, Node | str]]:
    """Yield what may be the module of a task: where it is named, its name, and what it is given.

    Ansible's own have the short one of their names.
    """
    for name, (key, value) in task.items():
        if name not in _ACTIONS:
            yield key, _short(name), value
        elif isinstance(value, ScalarNode):
            module, _, rest = value.value.strip().partition(" ")
            yield value, _short(module), rest
        else:
            named = _value(_pairs(value), "module")
            if isinstance(named, ScalarNode):
                yield named, _short(named.value.strip()), value


def _short(name: str) -> str:
    return _OURS.sub("", name, count=1) if _OURS.match(name) else name


def _arguments(given: Iterable[Node | str | None]) -> dict[str, str]:
    """Return the arguments of a module by name; "" is the first word of the free form."""
    found: dict[str, str] = {}
    for each in given:
        for name, (_, value) in _pairs(each).items():
            found[name] = value.value.strip() if isinstance(value, ScalarNode) else ""
        text = each.value if isinstance(each, ScalarNode) else each
        if isinstance(text, str):
            found.update((name, said.strip("'\"")) for name, said in _ARGUMENT.findall(text))
            found.setdefault("", next(iter(text.split()), "") if "{{" not in text else "")
    return found


def _dependencies(root: Node) -> Iterator[str]:
    """Yield the names of the roles that the meta data of a role say it depends on."""
    listed = _value(_pairs(root), "dependencies")
    for each in listed.value if isinstance(listed, SequenceNode) else ():
        named = _pairs(each)
        node = next((named[it][1] for it in ("role", "name") if it in named), each)
        if isinstance(node, ScalarNode) and "{{" not in node.value:
            yield node.value


def _position(node: Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1
