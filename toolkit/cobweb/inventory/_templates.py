"""Jinja2 in a sandbox: no files, no lookups, no clock, no randomness, and named limits.

A text that is exactly one expression gives that expression's value, as in Ansible: `"{{ port }}"`
is a number if `port` is one. Undefined names are errors. A vaulted value passes through as it is,
but not into a longer text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, Undefined, UndefinedError, meta
from jinja2 import nodes as syntax
from jinja2.lexer import Lexer

from cobweb.inventory._filters import FilterError
from cobweb.inventory._sandbox import (
    INTERNAL,
    MAX_TEXT,
    SCOPE,
    STEPS,
    Environment,
    RenderError,
    YamlLexer,
)

_VALUE = "__cobweb_value"
_SIGN = re.compile(r"\{[{%#]")
_UNDEFINED = re.compile(r"'([^']+)' is undefined")
_NO_ENTRY = re.compile(r" object' has no attribute '([^']+)'$")


Lookup = Callable[[str], Any]
"""Gives the value of a variable; KeyError if there is none."""


def is_template(text: str) -> bool:
    """Say whether a text holds anything for Jinja2."""
    return "{" in text and _SIGN.search(text) is not None


class Template:
    """A compiled text; `names` are the variables that it reads."""

    def __init__(self, environment: Environment, text: str) -> None:
        tree = environment.parse(text)
        self.names = tuple(sorted(meta.find_undeclared_variables(tree) - INTERNAL))
        self._native = _make_native(tree, text)
        tree.set_environment(environment)
        self._template = environment.from_string(tree)

    def render(self, lookup: Lookup) -> Any:
        """Return the value; RenderError if there is none."""
        try:
            return self._rendered({SCOPE: lookup, STEPS: [0]})
        except RenderError:
            raise
        except UndefinedError as error:
            raise _undefined(error) from error
        except RecursionError as error:
            raise RenderError("the template calls itself for ever") from error
        except _FAILURES as error:
            raise RenderError(f"the template fails: {error}") from error

    def _rendered(self, values: dict[str, Any]) -> Any:
        context = self._template.new_context(values)
        pieces = self._template.root_render_func(context)
        text = _join(pieces)
        return _plain(context.vars[_VALUE]) if self._native else text


_FAILURES = (
    TemplateError,
    FilterError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)


class Templates:
    """Compiles each text once.

    In texts from YAML a backslash inside `{{ }}` is one, as in Ansible: YAML has its own escapes.
    In files it is Jinja2's escape.
    """

    def __init__(self) -> None:
        self._environments = {True: Environment(YamlLexer), False: Environment(Lexer)}
        self._known: dict[tuple[str, bool], Template | RenderError] = {}

    def get(self, text: str, *, file: bool = False) -> Template:
        """Return the compiled text; RenderError for wrong syntax. `file`: it is one's content."""
        key = (text, file)
        if key not in self._known:
            self._known[key] = self._compile(text, self._environments[not file])
        found = self._known[key]
        if isinstance(found, RenderError):
            raise found
        return found

    def _compile(self, text: str, environment: Environment) -> Template | RenderError:
        try:
            return Template(environment, text)
        except TemplateSyntaxError as error:
            message = f"the template is wrong: {error.message}"
            return RenderError(message, hint=_syntax_hint(str(error.message)), line=error.lineno)
        except RecursionError:
            return RenderError("the template is nested too deeply")


def _make_native(tree: syntax.Template, text: str) -> bool:
    """Make a text that is one expression keep its value, and say whether it is one."""
    if not (text.startswith("{{") and text.endswith("}}") and len(tree.body) == 1):
        return False
    output = tree.body[0]
    if not isinstance(output, syntax.Output) or len(output.nodes) != 1:
        return False
    if isinstance(output.nodes[0], syntax.TemplateData):
        return False
    tree.body[0] = syntax.Assign(syntax.Name(_VALUE, "store"), output.nodes[0], lineno=1)
    return True


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


def _undefined(error: UndefinedError) -> RenderError:
    message = str(error)
    match = _UNDEFINED.search(message)
    if match:
        return RenderError(f"`{match[1]}` is undefined", name=match[1])
    entry = _NO_ENTRY.search(message)
    if entry:
        hint = "look at what stands before the dot"
        return RenderError(f"the template fails: a value has no attribute `{entry[1]}`", hint=hint)
    return RenderError(f"the template fails: {message}")


def _syntax_hint(message: str) -> str:
    if "No filter named" in message or "no filter named" in message:
        return "see docs/site.md for the filters; lookups are not possible"
    if "end of print statement" in message:
        return "close `{{` with `}}`"
    if "nexpected end of template" in message:
        return "close every `{% ... %}` block"
    return "mend the template"
