"""Jinja2 in a sandbox: no files, no lookups, no clock, no randomness, and named limits.

A text that is exactly one expression gives that expression's value, as in Ansible: `"{{ port }}"`
is a number if `port` is one. Undefined names are errors. A vaulted value passes through as it is,
but not into a longer text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import (
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    meta,
)
from jinja2 import nodes as syntax
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from cobweb.inventory._filters import FILTERS, TESTS, FilterError
from cobweb.inventory._nodes import is_vault

MAX_TEXT = 8 * 2**20
"""A template that makes a longer text is an error (characters)."""

MAX_STEPS = 1_000_000
"""A template whose loops take more steps is an error."""

_SCOPE = "__cobweb_scope"
_STEP = "__cobweb_step"
_STEPS = "__cobweb_steps"
_SIGN = re.compile(r"\{[{%#]")
_UNDEFINED = re.compile(r"'([^']+)' is undefined")


class RenderError(Exception):
    """A template cannot be rendered; `name` is the undefined variable if that is the reason."""

    def __init__(self, message: str, *, hint: str = "", name: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.name = name
        self.line = line


Lookup = Callable[[str], Any]
"""Gives the value of a variable; KeyError if there is none."""


def is_template(text: str) -> bool:
    """Say whether a text holds anything for Jinja2."""
    return "{" in text and _SIGN.search(text) is not None


class Template:
    """A compiled text; `names` are the variables that it reads."""

    def __init__(self, environment: Environment, text: str) -> None:
        tree = environment.parse(text)
        self.names = tuple(sorted(meta.find_undeclared_variables(tree) - {_STEP}))
        self._expression = None
        self._template = None
        source = _only_expression(tree, text)
        if source is not None:
            self._expression = environment.compile_expression(source, undefined_to_none=False)
        else:
            self._template = environment.from_string(text)

    def render(self, lookup: Lookup) -> Any:
        """Return the value; RenderError if there is none."""
        values = {_SCOPE: lookup, _STEPS: [0]}
        try:
            if self._expression is not None:
                return _plain(self._expression(values))
            assert self._template is not None
            context = self._template.new_context(values)
            return _join(self._template.root_render_func(context))
        except RenderError:
            raise
        except UndefinedError as error:
            raise _undefined(error) from error
        except (TemplateError, FilterError) as error:
            raise RenderError(f"the template fails: {error}") from error
        except RecursionError as error:
            raise RenderError("the template calls itself for ever") from error
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise RenderError(f"the template fails: {error}") from error


class Templates:
    """Compiles each text once."""

    def __init__(self) -> None:
        self._environment = Environment()
        self._known: dict[str, Template | RenderError] = {}

    def get(self, text: str) -> Template:
        """Return the compiled text; RenderError for wrong syntax."""
        if text not in self._known:
            self._known[text] = self._compile(text)
        found = self._known[text]
        if isinstance(found, RenderError):
            raise found
        return found

    def _compile(self, text: str) -> Template | RenderError:
        try:
            return Template(self._environment, text)
        except TemplateSyntaxError as error:
            message = f"the template is wrong: {error.message}"
            return RenderError(message, hint=_syntax_hint(str(error.message)), line=error.lineno)
        except RecursionError:
            return RenderError("the template is nested too deeply")


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox: names come from a scope, loops are counted, products are bounded."""

    intercepted_binops = frozenset(["*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            undefined=StrictUndefined,
            trim_blocks=True,
            keep_trailing_newline=True,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
            finalize=_no_vault,
            cache_size=0,
        )
        self.context_class = _Context
        for name in ("cycler", "joiner", "lipsum"):
            self.globals.pop(name, None)
        self.globals["range"] = _range
        for name in ("random", "pprint", "xmlattr", "urlize"):
            self.filters.pop(name, None)
        self.filters.update(FILTERS)
        self.tests.update(TESTS)

    def _parse(self, source: str, name: str | None, filename: str | None) -> syntax.Template:
        tree = super()._parse(source, name, filename)
        _count_loops(tree)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse products and powers that would fill the memory."""
        if operator == "*" and _product_size(left, right) > MAX_TEXT:
            raise RenderError(f"the template makes more than {MAX_TEXT} characters")
        if operator == "**" and isinstance(right, int | float) and abs(right) > 1000:  # noqa: PLR2004
            raise RenderError("the template raises to a power above 1000")
        if operator == "%" and isinstance(left, str):
            raise RenderError("the template formats with `%`", hint="join texts with `~`")
        return super().call_binop(context, operator, left, right)


class _Context(Context):
    """Looks names up in the scope when they are used, not before."""

    def resolve_or_missing(self, key: str) -> Any:
        found = super().resolve_or_missing(key)
        if found is not missing:
            return found
        if key == _STEP:
            return self._step
        try:
            return self.parent[_SCOPE](key)
        except KeyError:
            return missing

    def _step(self) -> str:
        steps = self.parent[_STEPS]
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


def _only_expression(tree: syntax.Template, text: str) -> str | None:
    """Return the source of the expression that the whole text is, None if it is more or less."""
    if not (text.startswith("{{") and text.endswith("}}") and len(tree.body) == 1):
        return None
    output = tree.body[0]
    if not isinstance(output, syntax.Output) or len(output.nodes) != 1:
        return None
    if isinstance(output.nodes[0], syntax.TemplateData):
        return None
    return text[2:-2].lstrip("-+").rstrip("-+ \n\t")


def _no_vault(value: Any) -> Any:
    if is_vault(value):
        raise RenderError(
            "a vaulted value stands inside a longer text",
            hint='use it alone, as in `key: "{{ secret }}"`, or vault the whole text',
        )
    return value


def _join(pieces: Any) -> str:
    parts: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_TEXT:
            raise RenderError(f"the template makes more than {MAX_TEXT} characters")
        parts.append(piece)
    return "".join(parts)


def _plain(value: Any) -> Any:
    """Return a value as plain data; iterators and tuples become lists."""
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()  # noqa: SLF001  the one way to its message
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range) or hasattr(value, "__next__"):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if hasattr(value, "__iter__") and not isinstance(value, type):
        return [_plain(item) for item in value]
    raise RenderError(f"the template gives no plain value but {type(value).__name__}")


def _product_size(left: Any, right: Any) -> int:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, str | list | tuple) and isinstance(other, int):
            return len(one) * max(other, 0)
    return 0


def _undefined(error: UndefinedError) -> RenderError:
    message = str(error)
    match = _UNDEFINED.search(message)
    if match:
        return RenderError(f"`{match[1]}` is undefined", name=match[1])
    return RenderError(f"the template fails: {message}")


def _syntax_hint(message: str) -> str:
    if "No filter named" in message or "no filter named" in message:
        return "see docs/site.md for the filters; lookups are not possible"
    if "end of print statement" in message:
        return "close `{{` with `}}`"
    if "nexpected end of template" in message:
        return "close every `{% ... %}` block"
    return "mend the template"
