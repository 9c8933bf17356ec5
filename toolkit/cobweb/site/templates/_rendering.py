"""Jinja2 in a sandbox: no files, no lookups, no clock, no randomness, and named limits.

A text that is exactly one expression gives that expression's value, as in Ansible: `"{{ port }}"`
is a number if `port` is one. Undefined names are errors. A vaulted value passes through as it is,
but not into a longer text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, Undefined, UndefinedError, meta
from jinja2 import nodes as syntax
from jinja2.lexer import Lexer
from jinja2.utils import missing

from cobweb.site.templates._meter import (
    MAX_VALUE,
    VALUE_COST,
    Meter,
    RenderError,
    check_bits,
    joined,
    too_large,
)
from cobweb.site.templates._sandbox import INTERNAL, METER, SCOPE, Environment, YamlLexer, checked

MAX_RESULTS = 1000
"""So many results are kept per template, for hosts where its variables have the same values."""

_RESULT = "__cobweb_value"
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
        self.results: dict[tuple[Any, ...], Any] = {}
        """What came out before, by the values of `names`; see `keep`."""
        self._pieces = _pieces(tree, environment)
        self._native = _make_native(tree, text)
        tree.set_environment(environment)
        self._template = environment.from_string(tree)
        self._globals = dict(self._template.globals)

    def keep(self, values: tuple[Any, ...], result: Any) -> Any:
        """Note and return what came out for these values of `names`."""
        if len(self.results) < MAX_RESULTS:
            self.results[values] = result
        return result

    def render(self, lookup: Lookup) -> Any:
        """Return the value; RenderError if there is none."""
        try:
            return self._filled(lookup) if self._pieces else self._rendered(lookup)
        except RenderError:
            raise
        except UndefinedError as error:
            raise _undefined(error) from error
        except RecursionError as error:
            message = "the template is nested too deeply, or calls itself for ever"
            raise RenderError(message) from error
        except MemoryError as error:
            raise RenderError("the memory does not suffice for the template") from error
        except _FAILURES as error:
            raise RenderError(f"the template fails: {error}") from error

    def _filled(self, lookup: Lookup) -> Any:
        """Do what Jinja2 does for texts with nothing but names in them, without its machinery."""
        values: dict[str, Any] = {}
        for piece in self._pieces:
            if isinstance(piece, _Name) and piece.name not in values:
                values[piece.name] = _found(lookup, piece.name)
        if self._native:
            return _plain(_defined(values, self.names[0]))
        return joined(
            checked(_defined(values, piece.name)) if isinstance(piece, _Name) else piece
            for piece in self._pieces
        )

    def _rendered(self, lookup: Lookup) -> Any:
        values = {**self._globals, SCOPE: lookup, METER: Meter()}
        context = self._template.new_context(values, shared=True)
        text = joined(self._template.root_render_func(context))
        return _plain(context.vars[_RESULT]) if self._native else text


_FAILURES = (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class _Name:
    """A place in a text where the value of a variable is written."""

    name: str


def _pieces(tree: syntax.Template, environment: Environment) -> tuple[str | _Name, ...]:
    """Return texts and names if the template is nothing but these; else nothing."""
    found: list[str | _Name] = []
    for output in tree.body:
        for node in output.nodes if isinstance(output, syntax.Output) else [output]:
            if isinstance(node, syntax.TemplateData):
                found.append(node.data)
            elif isinstance(node, syntax.Name) and node.name not in (*environment.globals, *_OWN):
                found.append(_Name(node.name))
            else:
                return ()
    return tuple(found)


_OWN = (SCOPE, METER)


def _found(lookup: Lookup, name: str) -> Any:
    try:
        return lookup(name)
    except KeyError:
        return missing


def _defined(values: Mapping[str, Any], name: str) -> Any:
    if values[name] is missing:
        raise RenderError(f"`{name}` is undefined", name=name)
    return values[name]


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
        except RenderError as error:
            return error
        except (RecursionError, MemoryError, SyntaxError):  # of Jinja2, and of Python below it
            return RenderError("the template is nested too deeply")
        except (ValueError, OverflowError) as error:
            return RenderError(f"the template is wrong: {error}")


def _make_native(tree: syntax.Template, text: str) -> bool:
    """Make a text that is one expression keep its value, and say whether it is one."""
    if not (text.startswith("{{") and text.endswith("}}") and len(tree.body) == 1):
        return False
    output = tree.body[0]
    if not isinstance(output, syntax.Output) or len(output.nodes) != 1:
        return False
    if isinstance(output.nodes[0], syntax.TemplateData):
        return False
    tree.body[0] = syntax.Assign(syntax.Name(_RESULT, "store"), output.nodes[0], lineno=1)
    return True


def _plain(value: Any) -> Any:
    """Return a value as plain data, of bounded size; iterators and tuples become lists."""
    kind = type(value)
    if kind is str or value is None or kind is bool or kind is float:
        return value
    return _Copy().of(value)


class _Copy:
    """Makes plain data and counts what it makes, what is there twice too."""

    def __init__(self) -> None:
        self._left = MAX_VALUE // VALUE_COST

    def of(self, value: Any) -> Any:
        """Return a value as plain data; RenderError for what is none, and for too much of it."""
        self._left -= 1
        if self._left < 0:
            raise too_large()
        if isinstance(value, Undefined):
            value._fail_with_undefined_error()  # noqa: SLF001  the one way to its message
        if value is None or isinstance(value, bool | float | str):
            return str(value) if isinstance(value, str) else value
        if isinstance(value, int):
            check_bits(value.bit_length())
            return value
        return self._inner(value)

    def _inner(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): self.of(item) for key, item in value.items()}
        if isinstance(value, set | frozenset):
            return sorted(self.of(item) for item in value)
        if hasattr(value, "__iter__") and not isinstance(value, type):
            return [self.of(item) for item in value]
        raise RenderError(f"the template gives no plain value but {type(value).__name__}")


def _undefined(error: UndefinedError) -> RenderError:
    message = str(error)
    if match := _UNDEFINED.search(message):
        return RenderError(f"`{match[1]}` is undefined", name=match[1])
    if entry := _NO_ENTRY.search(message):
        message = f"the template fails: a value has no attribute `{entry[1]}`"
        return RenderError(message, hint="look at what stands before the dot", name=entry[1])
    return RenderError(f"the template fails: {message}")


def _syntax_hint(message: str) -> str:
    if "no loader" in message:
        return "a template is one file: `include`, `import` and `extends` are not possible"
    if "No filter named" in message or "no filter named" in message:
        return "see docs/site.md for the filters; lookups are not possible"
    if "end of print statement" in message:
        return "close `{{` with `}}`"
    if "nexpected end of template" in message:
        return "close every `{% ... %}` block"
    return "mend the template"
