"""The sandbox that templates run in: names from a scope, counted loops, bounded texts.

Jinja2's own sandbox keeps templates away from Python's insides; what is added here keeps them from
running for ever and from filling the memory, and vaulted values out of longer texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined
from jinja2 import nodes as syntax
from jinja2.lexer import TOKEN_STRING, TOKEN_VARIABLE_BEGIN, TOKEN_VARIABLE_END, Lexer
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from cobweb.inventory._filters import FILTERS, TESTS, FilterError
from cobweb.inventory._nodes import is_vault

MAX_TEXT = 8 * 2**20
"""A template that makes a longer text is an error (characters)."""

MAX_STEPS = 1_000_000
"""A template whose loops take more steps is an error."""

SCOPE = "__cobweb_scope"
"""The name under which a render gets its lookup function."""

STEPS = "__cobweb_steps"
"""The name under which a render gets a list with the number of steps taken, 0 at first."""

_STEP = "__cobweb_step"
_TEXT = "__cobweb_text"
INTERNAL = frozenset({_STEP, _TEXT})
"""Names that stand in compiled templates but not in their texts."""

_MAX_POWER = 1000
_PASS_VAULTS = {
    "default",
    "d",
    "mandatory",
    "ternary",
    "combine",
    "extract",
    "list",
    "first",
    "last",
}
_WIDTH = re.compile(r"[0-9*]{6,}")
_PADDING = ("center", "expandtabs", "ljust", "rjust", "zfill")


class RenderError(Exception):
    """A template cannot be rendered; `name` is the undefined variable if that is the reason."""

    def __init__(self, message: str, *, hint: str = "", name: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.name = name
        self.line = line


class YamlLexer(Lexer):
    """Keeps the backslashes of texts in `{{ }}`, which Jinja2 would take for escapes."""

    def tokeniter(self, *args: Any, **options: Any) -> Iterator[tuple[int, str, str]]:
        inside = False
        for line, token, value in super().tokeniter(*args, **options):
            inside = token == TOKEN_VARIABLE_BEGIN or (inside and token != TOKEN_VARIABLE_END)
            keep = inside and token == TOKEN_STRING
            yield line, token, value.replace("\\", "\\\\") if keep else value


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox: names come from a scope, loops are counted, products are bounded."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self, lexer: type[Lexer]) -> None:
        super().__init__(
            undefined=StrictUndefined,
            trim_blocks=True,
            keep_trailing_newline=True,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
            finalize=checked,
            cache_size=0,
        )
        self.context_class = _Context
        self._lexer = lexer(self)
        for name in ("cycler", "joiner", "lipsum"):
            self.globals.pop(name, None)
        self.globals["range"] = _range
        self.globals[_TEXT] = checked
        for name in ("random", "pprint", "xmlattr", "urlize"):
            self.filters.pop(name, None)
        self.filters.update(FILTERS)
        for name in set(self.filters) - _PASS_VAULTS:
            self.filters[name] = _guarded(name, self.filters[name])
        self.tests.update(TESTS)

    @property
    def lexer(self) -> Lexer:
        """Split a template into tokens."""
        return self._lexer

    def parse(
        self, source: str, name: str | None = None, filename: str | None = None
    ) -> syntax.Template:
        """Return the tree of a template, with its loops counted and its texts guarded."""
        tree = super().parse(source, name, filename)
        _count_loops(tree)
        _guard_texts(tree)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse products and powers that would fill the memory."""
        if (operator == "*" and _product_size(left, right) > MAX_TEXT) or (
            operator == "+" and _size(left) + _size(right) > MAX_TEXT
        ):
            raise _too_long()
        if operator == "**" and isinstance(right, int | float) and abs(right) > _MAX_POWER:
            raise RenderError(f"the template raises to a power above {_MAX_POWER}")
        if operator == "%" and isinstance(left, str):
            raise RenderError("the template formats with `%`", hint="join texts with `~`")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, *args: Any, **options: Any) -> Any:
        """Refuse methods of texts that would fill the memory."""
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str) and function.__name__ in _PADDING:
            _check_width(args)
        return super().call(context, function, *args, **options)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Refuse widths in format strings that would fill the memory."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None and _WIDTH.search(value.__self__):
            raise _too_long()
        return wrapped


def checked(value: Any) -> Any:
    """Return a value that may stand in a text; RenderError for a vaulted or a huge one."""
    if is_vault(value):
        raise RenderError(
            "a vaulted value stands inside a longer text",
            hint='use it alone, as in `key: "{{ secret }}"`, or vault the whole text',
        )
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise _too_long()
    return value


class _Context(Context):
    """Looks names up in the scope when they are used, not before."""

    def resolve_or_missing(self, key: str) -> Any:
        found = super().resolve_or_missing(key)
        if found is not missing:
            return found
        if key == _STEP:
            return self._step
        try:
            return self.parent[SCOPE](key)
        except KeyError:
            return missing

    def _step(self) -> str:
        steps = self.parent[STEPS]
        steps[0] += 1
        if steps[0] > MAX_STEPS:
            raise RenderError(f"the loops of the template take more than {MAX_STEPS} steps")
        return ""


def _range(*bounds: int) -> range:
    made = range(*bounds)
    if len(made) > MAX_STEPS:
        raise RenderError(f"the loops of the template take more than {MAX_STEPS} steps")
    return made


def _count_loops(tree: syntax.Template) -> None:
    for loop in list(tree.find_all(syntax.For)):
        call = syntax.Call(syntax.Name(_STEP, "load"), [], [], None, None)
        loop.body.insert(0, syntax.ExprStmt(call, lineno=loop.lineno))


def _guard_texts(tree: syntax.Template) -> None:
    """Let `a ~ b` refuse vaulted values."""
    for joined in list(tree.find_all(syntax.Concat)):
        joined.nodes = [
            syntax.Call(syntax.Name(_TEXT, "load"), [part], [], None, None) for part in joined.nodes
        ]


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that refuses to work on a vaulted value."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if any(is_vault(value) for value in args[:2]):
            raise FilterError(f"the filter `{name}` cannot read a vaulted value")
        if name in ("center", "indent"):
            _check_width((*args, *options.values()))
        if name == "format" and _WIDTH.search(str(args[0])):
            raise _too_long()
        result = function(*args, **options)
        if _size(result) > MAX_TEXT:
            raise _too_long()
        return result

    return call


def _product_size(left: Any, right: Any) -> int:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, str | list | tuple) and isinstance(other, int):
            return len(one) * max(other, 0)
    return 0


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


def _check_width(values: tuple[Any, ...]) -> None:
    if any(isinstance(value, int) and value > MAX_TEXT for value in values):
        raise _too_long()


def _too_long() -> RenderError:
    return RenderError(f"the template makes more than {MAX_TEXT} characters")
