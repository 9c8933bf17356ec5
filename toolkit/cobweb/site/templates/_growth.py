"""How much a method or a filter may make or take, told from what goes into it, before it runs.

Memory cannot be given back once it is taken, and the clock is not looked at within one operation:
what grows faster than its input is checked here, by the name of the method or filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2.sandbox import SandboxedEscapeFormatter, SandboxedFormatter

from cobweb.site.templates._meter import (
    MAX_STEPS,
    Meter,
    RenderError,
    check_bits,
    check_text,
    too_many_steps,
)

MAX_WORK = 2**32
"""A method or filter that looks at each of n things m times may do so: n times m."""

MAX_DUMPED = 2 * 2**20
"""A value of more characters is not written as YAML, or as JSON with indentation."""

MAX_INDENT = 16
"""So many spaces may stand before a level of JSON or YAML."""

MAX_PRECISION = 100
"""So many digits `round` keeps."""

_NUMBER = re.compile(r"[0-9]+")
_LONG_NUMBER = re.compile(r"[0-9]{6,}")

_Check = Callable[..., None]


def check_method(owner: Any, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Refuse a call of a method that would make or take too much; RenderError."""
    check = _METHODS.get(name)
    if (check is not None and isinstance(owner, str | bytes | int)) or name == "strftime":
        run_check(_METHODS[name], owner, *args, **options)


def filter_check(name: str) -> Callable[..., None] | None:
    """Return what refuses a call of a filter that would make or take too much, if it could."""
    return _FILTERS.get(name.removeprefix("ansible.builtin."))


def run_check(check: _Check, *args: Any, **options: Any) -> None:
    """Run a check; wrong arguments are no matter of its."""
    try:
        check(*args, **options)
    except (TypeError, AttributeError, OverflowError):
        return  # wrong arguments, of which the method itself says what is wrong


def check_product(left: Any, right: Any) -> None:
    """Refuse a product that would fill the memory."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, str | bytes | list | tuple) and isinstance(other, int):
            check_text(len(one) * max(other, 0))
    if isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() + right.bit_length())


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else Meter().size(value)


class Formatter(SandboxedFormatter):
    """Fills in `{}` formats, with bounds on widths and on what comes out."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._made = 0

    def format_field(self, value: Any, format_spec: str) -> Any:
        """Return a value in its format; nested widths stand in the format already."""
        if _LONG_NUMBER.search(format_spec) or len(format_spec) > MAX_STEPS:
            check_text(MAX_WORK)
        made = super().format_field(value, format_spec)
        self._made += len(made)
        check_text(self._made)
        return made


class EscapeFormatter(Formatter, SandboxedEscapeFormatter):
    """The same for texts that escape what is put into them."""


def _width(owner: Any, width: int, *_: Any) -> None:
    check_text(max(len(owner), width))


def _expandtabs(owner: Any, tabsize: int = 8) -> None:
    check_text(len(owner) + owner.count("\t" if isinstance(owner, str) else b"\t") * tabsize)


def _replace(owner: Any, old: Any, new: Any, *_: Any, **__: Any) -> None:
    check_text(len(owner) + owner.count(old) * len(new))


def _join(owner: Any, parts: Any) -> None:
    if not isinstance(parts, str | bytes | list | tuple | dict | set):
        raise RenderError("the template joins what is no list", hint="put `| list` after it")
    check_text(len(owner) * len(parts) + sum(map(_length, parts)))


def _translate(owner: Any, table: Any, *_: Any, **__: Any) -> None:
    grown = [len(each) for each in table.values() if isinstance(each, str)]
    check_text(len(owner) * max(grown, default=1))


def _strip(owner: Any, characters: Any = None) -> None:
    if characters is not None:
        check_work(len(owner) * len(characters))


def _to_bytes(_owner: Any, length: int = 1, *_: Any, **__: Any) -> None:
    check_text(length)


def _strftime(_owner: Any, text: str) -> None:
    if _NUMBER.search(text):
        raise RenderError("the template writes a time with widths", hint="leave the numbers out")


def check_work(count: float) -> None:
    """Refuse what would look at things so often."""
    if count > MAX_WORK:
        raise RenderError("the template does too much in one step", hint="make the text shorter")


_METHODS: Mapping[str, _Check] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _width),
    **dict.fromkeys(("strip", "lstrip", "rstrip"), _strip),
    "expandtabs": _expandtabs,
    "join": _join,
    "replace": _replace,
    "strftime": _strftime,
    "to_bytes": _to_bytes,
    "translate": _translate,
}


def _wide(_meter: Meter, value: Any, width: int = 80) -> None:
    check_text(max(len(str(value)), width))


def _indent(_meter: Meter, text: str, width: int | str = 4, *_: Any, **__: Any) -> None:
    each = len(width) if isinstance(width, str) else width
    check_text(len(text) + (text.count("\n") + 1) * each)


def _format(_meter: Meter, value: Any, *args: Any, **options: Any) -> None:
    """Refuse to fill in a `%` format whose result would fill the memory."""
    text = str(value)
    flat: list[Any] = []
    for item in (*args, *options.values()):
        flat += item.values() if isinstance(item, dict) else [item]
    widths = [int(number) for number in _NUMBER.findall(text) if len(number) < len("1000000000")]
    if len(widths) < len(_NUMBER.findall(text)):
        check_text(MAX_WORK)
    stars = text.count("*") * max([abs(each) for each in flat if isinstance(each, int)], default=0)
    longest = max([_length(each) for each in flat], default=0)
    check_text(len(text) + sum(widths) + stars + text.count("%") * longest)


def _replaced(_meter: Meter, text: Any, old: Any, new: Any, *_: Any, **__: Any) -> None:
    _replace(str(text), str(old), str(new))


def _joined(_meter: Meter, parts: Any, between: Any = "", *_: Any, **__: Any) -> None:
    check_text(len(str(between)) * len(parts))


def _cut(_meter: Meter, _parts: Any, count: int, *_: Any, **__: Any) -> None:
    if count > MAX_STEPS:
        raise too_many_steps()


def _wordwrap(_meter: Meter, text: str, width: int = 79, *_: Any, **__: Any) -> None:
    check_work(len(text) ** 2 // max(width, 1))


def _striptags(_meter: Meter, text: Any) -> None:
    check_work(len(text) * str(text).count("<"))


def _trim(_meter: Meter, text: Any, chars: Any = None) -> None:
    _strip(str(text), chars)


def _round(_meter: Meter, _value: Any, precision: int = 0, *_: Any, **__: Any) -> None:
    if abs(precision) > MAX_PRECISION:
        raise RenderError(f"`round` keeps at most {MAX_PRECISION} digits")


def _json(meter: Meter, value: Any, indent: int | str | None = None, **_: Any) -> None:
    if indent is None:
        return
    if (len(indent) if isinstance(indent, str) else indent) > MAX_INDENT:
        raise RenderError(f"the template indents by more than {MAX_INDENT} spaces")
    _dumped(meter, value)


def _dumped(meter: Meter, value: Any, *_: Any, **__: Any) -> None:
    if meter.size(value) > MAX_DUMPED:
        raise RenderError(f"the template writes a value of more than {MAX_DUMPED} characters")


_FILTERS: Mapping[str, _Check] = {
    "batch": _cut,
    "center": _wide,
    "format": _format,
    "indent": _indent,
    "join": _joined,
    "replace": _replaced,
    "round": _round,
    "slice": _cut,
    "striptags": _striptags,
    "to_json": _json,
    "to_nice_json": _dumped,
    "to_nice_yaml": _dumped,
    "to_yaml": _dumped,
    "tojson": _json,
    "trim": _trim,
    "wordwrap": _wordwrap,
}
