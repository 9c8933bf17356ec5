"""Read YAML that stands in a text, as Ansible's `from_yaml` does (YAML 1.1), within bounds.

Aliases share values: what they stand for is counted before anything is made of them.
"""

from __future__ import annotations

from typing import Any

import yaml

MAX_DOCUMENT = 2**20
"""A longer text is not read as YAML (characters)."""

MAX_DEPTH = 100
"""Deeper nesting is an error."""

MAX_VALUES = 100_000
"""A text may have so many values, each as often as an alias names it."""

MAX_NUMBER = 1000
"""A longer number is an error (characters)."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlTextError(ValueError):
    """A text is no YAML, or more than is read."""


class _Loader(_Base):  # type: ignore[misc]  # of which it is depends on how PyYAML was built
    """PyYAML's own, but for numbers that take for ever to read."""


def _number(loader: Any, node: Any) -> Any:
    if len(node.value) > MAX_NUMBER:
        raise YamlTextError(f"a number has more than {MAX_NUMBER} characters")
    return loader.construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _number)


def yaml_of(text: str) -> Any:
    """Return the document in a text; YamlTextError for what is none, and for too much."""
    if len(text) > MAX_DOCUMENT:
        raise YamlTextError(f"the text has more than {MAX_DOCUMENT} characters")
    try:
        _count(text)
        return yaml.load(text, _Loader)  # noqa: S506, TID251  a safe loader
    except (yaml.YAMLError, RecursionError) as error:
        raise YamlTextError(str(error)) from error


def _count(text: str) -> None:
    """Refuse a text with too many values, told from its events."""
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            total += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = total - before
        if total > MAX_VALUES:
            raise YamlTextError(f"more than {MAX_VALUES} values, each counted once per alias")
        if len(open_) > MAX_DEPTH:
            raise YamlTextError(f"more than {MAX_DEPTH} levels of nesting")
