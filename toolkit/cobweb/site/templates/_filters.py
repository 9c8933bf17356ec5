"""The filters and tests of Ansible that templates use most; pure, so evaluation is repeatable.

Names, arguments and results are those of ansible-core (`ansible.builtin`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, zip_longest
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import yaml
from jinja2 import Undefined, pass_environment
from jinja2.filters import do_unique, make_attrgetter

from cobweb._foreign_json import json_of
from cobweb.site.reading._nodes import holds_vault, is_vault
from cobweb.site.reading._regex import Regex
from cobweb.site.templates._meter import check_text, joined
from cobweb.site.templates._yaml_text import YamlTextError, yaml_of

_TRUE = ("1", "on", "yes", "true", "t", "y")
_FALSE = ("0", "off", "no", "false", "f", "n", "")


MAX_COMPARED = 5000
"""So many lists or mappings `unique`, `union` and their like compare with each other."""


class FilterError(ValueError):
    """A filter cannot work on what it was given."""


def _open(value: Any, name: str) -> Any:
    """Refuse what must not be looked into: vaulted values, and names that are not defined."""
    opened = _whole(_defined(value))
    if holds_vault(opened):
        raise FilterError(f"the filter `{name}` cannot read a vaulted value")
    return opened


def _whole(value: Any) -> Any:
    """Return plain dicts and lists for mappings that make their values on demand."""
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _text(value: Any, name: str) -> str:
    opened = _open(value, name)
    return opened if isinstance(opened, str) else str(opened)


def _bool(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    word = _text(value, "bool").strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE or word.replace(".", "").isdigit():
        return False
    raise FilterError(f"`{value}` is neither true nor false")


def _to_json(value: Any, indent: int | None = None, *, sort_keys: bool = False, **_: Any) -> str:
    return json.dumps(_open(value, "to_json"), indent=indent, sort_keys=sort_keys)


def _to_nice_json(value: Any, indent: int = 4, *, sort_keys: bool = True, **_: Any) -> str:
    opened = _open(value, "to_nice_json")
    return json.dumps(opened, indent=indent, sort_keys=sort_keys, separators=(",", ": "))


def _to_yaml(
    value: Any, indent: int = 2, *, default_flow_style: bool | None = None, **_: Any
) -> str:
    opened = _open(value, "to_yaml")
    return yaml.safe_dump(
        opened, indent=indent, allow_unicode=True, default_flow_style=default_flow_style
    )


def _to_nice_yaml(value: Any, indent: int = 4, **options: Any) -> str:
    return _to_yaml(value, indent, **{"default_flow_style": False, **options})


def _from_json(value: Any) -> Any:
    return json_of(_text(value, "from_json"), "`from_json`")


def _from_yaml(value: Any) -> Any:
    try:
        return yaml_of(_text(value, "from_yaml"))
    except YamlTextError as error:
        raise FilterError(f"`from_yaml` cannot read its text: {error}") from error


def _ternary(value: Any, yes: Any, no: Any, none: Any = None) -> Any:
    if value is None and none is not None:
        return none
    return yes if value else no


def _combine(*values: Any, recursive: bool = False, list_merge: str = "replace") -> dict[str, Any]:
    if list_merge not in ("replace", "keep", "append", "prepend"):
        raise FilterError("`combine` knows list_merge replace, keep, append and prepend")
    merged: dict[str, Any] = {}
    for value in chain.from_iterable(v if isinstance(v, list) else [v] for v in values):
        if not isinstance(_defined(value), Mapping) or is_vault(value):
            raise FilterError("`combine` takes mappings")
        merged = _merged(merged, value, recursive=recursive, list_merge=list_merge)
    return merged


def _merged(
    one: Mapping[str, Any], other: Mapping[str, Any], *, recursive: bool, list_merge: str
) -> dict[str, Any]:
    result = dict(one)
    for key, value in other.items():
        old = result.get(key)
        if recursive and isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = _merged(old, value, recursive=True, list_merge=list_merge)
        elif isinstance(old, list) and isinstance(value, list):
            joined = {"keep": old, "append": old + value, "prepend": value + old}
            result[key] = joined.get(list_merge, value)
        else:
            result[key] = value
    return result


def _regex(pattern: str, *, ignorecase: bool = False, multiline: bool = False) -> Regex:
    return Regex(pattern, ignorecase=ignorecase, multiline=multiline)


def _regex_replace(
    value: Any, pattern: str = "", replacement: str = "", *, count: int = 0, **flags: bool
) -> str:
    regex = _regex(pattern, **flags)
    return joined(regex.replaced(_text(value, "regex_replace"), replacement, count))


def _regex_search(value: Any, pattern: str, *groups: str, **flags: bool) -> Any:
    found = _regex(pattern, **flags).search(_text(value, "regex_search"))
    if not found:
        return None
    if not groups:
        return found[0]
    return [found[_group(name)] for name in groups]


def _group(name: str) -> int | str:
    match = re.fullmatch(r"\\(?:g<(\w+)>|(\d+))", name)
    if not match:
        raise FilterError("`regex_search` names groups as `\\\\1` or `\\\\g<name>`")
    return int(match[2]) if match[2] else match[1]


def _regex_findall(value: Any, pattern: str, **flags: bool) -> list[Any]:
    found: list[Any] = []
    size = 0
    for match in _regex(pattern, **flags).all_in(_text(value, "regex_findall")):
        groups = ["" if group is None else group for group in match.groups()]
        found.append(groups if len(groups) > 1 else groups[0] if groups else match[0])
        size += sum(map(len, groups)) if groups else len(match[0])
        check_text(size)
    return found


def _b64encode(value: Any, encoding: str = "utf-8") -> str:
    return base64.b64encode(_text(value, "b64encode").encode(encoding)).decode("ascii")


def _b64decode(value: Any, encoding: str = "utf-8") -> str:
    try:
        return base64.b64decode(_text(value, "b64decode"), validate=True).decode(encoding)
    except binascii.Error as error:
        raise FilterError(f"`b64decode` cannot read its text: {error}") from error


def _hash(value: Any, algorithm: str = "sha1") -> str:
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake"):
        raise FilterError(f"`hash` knows no algorithm `{algorithm}`")
    data = _text(value, "hash").encode()
    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()


def _checksum(value: Any) -> str:
    return _hash(value, "sha1")


def _mandatory(value: Any, message: str = "") -> Any:
    if isinstance(value, Undefined) and message:
        raise FilterError(message)
    return _defined(value)


@pass_environment
def _unique(
    environment: Any, value: Any, *, case_sensitive: bool = True, attribute: Any = None
) -> Any:
    listed = _list(value, "unique")
    if any(isinstance(item, dict | list) for item in listed):
        return _distinct(listed)
    return list(do_unique(environment, listed, case_sensitive, attribute))


def _list(value: Any, name: str) -> list[Any]:
    if (
        isinstance(_defined(value), str | bytes)
        or not isinstance(value, Iterable)
        or is_vault(value)
    ):
        raise FilterError(f"`{name}` takes a list")
    return list(value)


def _defined(value: Any) -> Any:
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()  # noqa: SLF001  the one way to its message
    return value


class _Pool:
    """Values that are looked for; lists and mappings among them one by one."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._hashed: set[Any] = set()
        self._others: list[Any] = []
        for value in values:
            self.add(value)

    def __contains__(self, value: object) -> bool:
        return value in (self._hashed if _is_hashed(value) else self._others)

    def add(self, value: Any) -> None:
        """Add a value; FilterError for too many that cannot be hashed."""
        if _is_hashed(value):
            self._hashed.add(value)
            return
        self._others.append(value)
        if len(self._others) > MAX_COMPARED:
            raise FilterError(f"more than {MAX_COMPARED} lists or mappings are compared")


def _distinct(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    pool = _Pool()
    for value in values:
        if value not in pool:
            pool.add(value)
            found.append(value)
    return found


def _is_hashed(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@pass_environment
def _sum(environment: Any, values: Any, attribute: Any = None, start: Any = 0) -> Any:
    """Add up numbers; lists are joined, each copied once."""
    listed = list(values)
    if attribute is not None:
        listed = list(map(make_attrgetter(environment, attribute), listed))
    if isinstance(start, list | tuple):
        return type(start)(chain(start, *listed))
    return sum(listed, start)


def _union(one: Any, other: Any) -> list[Any]:
    return _distinct([*_list(one, "union"), *_list(other, "union")])


def _difference(one: Any, other: Any) -> list[Any]:
    gone = _Pool(_list(other, "difference"))
    return _distinct(item for item in _list(one, "difference") if item not in gone)


def _intersect(one: Any, other: Any) -> list[Any]:
    kept = _Pool(_list(other, "intersect"))
    return _distinct(item for item in _list(one, "intersect") if item in kept)


def _symmetric_difference(one: Any, other: Any) -> list[Any]:
    return [*_difference(one, other), *_difference(other, one)]


def _flatten(value: Any, levels: int | None = None, *, skip_nulls: bool = True) -> list[Any]:
    found: list[Any] = []
    for item in _list(value, "flatten"):
        if skip_nulls and item in (None, "None", "null"):
            continue
        if isinstance(item, list | tuple) and (levels is None or levels > 0):
            below = None if levels is None else levels - 1
            found += _flatten(list(item), below, skip_nulls=skip_nulls)
        else:
            found.append(item)
    return found


def _dict2items(
    value: Any, key_name: str = "key", value_name: str = "value"
) -> list[dict[str, Any]]:
    if not isinstance(_defined(value), Mapping) or is_vault(value):
        raise FilterError("`dict2items` takes a mapping")
    return [{key_name: key, value_name: item} for key, item in value.items()]


def _items2dict(value: Any, key_name: str = "key", value_name: str = "value") -> dict[str, Any]:
    listed = _list(value, "items2dict")
    if not all(isinstance(i, Mapping) and key_name in i and value_name in i for i in listed):
        raise FilterError(f"`items2dict` takes mappings with `{key_name}` and `{value_name}`")
    return {_extract(key_name, item): _extract(value_name, item) for item in listed}


def _zip(value: Any, *others: Any) -> list[list[Any]]:
    lists = [_list(item, "zip") for item in (value, *others)]
    return [list(row) for row in zip(*lists, strict=False)]


def _zip_longest(value: Any, *others: Any, fillvalue: Any = None) -> list[list[Any]]:
    lists = [_list(item, "zip_longest") for item in (value, *others)]
    return [list(row) for row in zip_longest(*lists, fillvalue=fillvalue)]


def _extract(item: Any, container: Any, morekeys: Any = None) -> Any:
    value = container
    more = morekeys if isinstance(morekeys, list) else [] if morekeys is None else [morekeys]
    for key in (item, *more):
        if is_vault(value):
            raise FilterError("the filter `extract` cannot read a vaulted value")
        value = value[key]
    return value


def _subelements(value: Any, key: str) -> list[list[Any]]:
    listed = _list(value, "subelements")
    return [[item, part] for item in listed for part in _extract(key, item)]


def _quote(value: Any) -> str:
    return shlex.quote("" if value is None else _text(value, "quote"))


def _comment(value: Any, style: str = "plain") -> str:
    marks = {"plain": "# ", "erlang": "% ", "c": "// "}
    if style not in marks:
        raise FilterError("`comment` knows the styles plain, erlang and c")
    lines = ["", *_text(value, "comment").splitlines(), ""]
    return "\n".join((marks[style] + line).rstrip() for line in lines)


def _match(value: Any, pattern: str, **flags: bool) -> bool:
    return _regex(pattern, **flags).match(_text(value, "match")) is not None


def _search(value: Any, pattern: str, **flags: bool) -> bool:
    return _regex(pattern, **flags).search(_text(value, "search")) is not None


def _version_key(text: str) -> list[tuple[int, int, str]]:
    parts = re.findall(r"\d+|[a-z]+", text.lower())
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(("==", "=", "eq"), eq),
    **dict.fromkeys(("!=", "ne"), ne),
    **dict.fromkeys(("<", "lt"), lt),
    **dict.fromkeys(("<=", "le"), le),
    **dict.fromkeys((">", "gt"), gt),
    **dict.fromkeys((">=", "ge"), ge),
}


def _version(value: Any, other: Any, operator: str = "==", **_: Any) -> bool:
    one, two = _version_key(_text(value, "version")), _version_key(_text(other, "version"))
    if operator not in _OPERATORS:
        raise FilterError(f"`version` knows no operator `{operator}`")
    return _OPERATORS[operator](one, two)


def _splitext(value: Any) -> list[str]:
    return list(posixpath.splitext(_text(value, "splitext")))


def _basename(value: Any) -> str:
    return posixpath.basename(_text(value, "basename"))


def _dirname(value: Any) -> str:
    return posixpath.dirname(_text(value, "dirname"))


def _split(value: Any, separator: str | None = None, maxsplit: int = -1) -> list[str]:
    return _text(value, "split").split(separator, maxsplit)


_OWN: dict[str, Callable[..., Any]] = {
    "b64decode": _b64decode,
    "b64encode": _b64encode,
    "basename": _basename,
    "bool": _bool,
    "checksum": _checksum,
    "combine": _combine,
    "comment": _comment,
    "dict2items": _dict2items,
    "difference": _difference,
    "dirname": _dirname,
    "extract": _extract,
    "flatten": _flatten,
    "from_json": _from_json,
    "from_yaml": _from_yaml,
    "hash": _hash,
    "intersect": _intersect,
    "items2dict": _items2dict,
    "mandatory": _mandatory,
    "quote": _quote,
    "regex_escape": re.escape,
    "regex_findall": _regex_findall,
    "regex_replace": _regex_replace,
    "regex_search": _regex_search,
    "split": _split,
    "splitext": _splitext,
    "subelements": _subelements,
    "sum": _sum,
    "symmetric_difference": _symmetric_difference,
    "ternary": _ternary,
    "to_json": _to_json,
    "to_nice_json": _to_nice_json,
    "to_nice_yaml": _to_nice_yaml,
    "to_yaml": _to_yaml,
    "union": _union,
    "unique": _unique,
    "zip": _zip,
    "zip_longest": _zip_longest,
}

FILTERS: Mapping[str, Callable[..., Any]] = {
    **_OWN,
    **{f"ansible.builtin.{name}": function for name, function in _OWN.items()},
}
"""By name, short and full."""

TESTS: Mapping[str, Callable[..., Any]] = {
    "match": _match,
    "regex": _search,
    "search": _search,
    "version": _version,
}
"""By name."""
