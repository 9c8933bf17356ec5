"""Jinja2 in a sandbox: no files, no lookups, no clock, no randomness, and named limits.

A text that is exactly one expression gives that expression's value, as in Ansible: `"{{ port }}"`
is a number if `port` is one. Undefined names are errors. A vaulted value passes through as it is,
but not into a longer text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
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

_SCOPE = "__cobweb_scope"
_STEP = "__cobweb_step"
_STEPS = "__cobweb_steps"
_TEXT = "__cobweb_text"
_VALUE = "__cobweb_value"
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
        self.names = tuple(sorted(meta.find_undeclared_variables(tree) - {_STEP, _TEXT}))
        self._native = _make_native(tree, text)
        tree.set_environment(environment)
        self._template = environment.from_string(tree)

    def render(self, lookup: Lookup) -> Any:
        """Return the value; RenderError if there is none."""
        try:
            return self._rendered({_SCOPE: lookup, _STEPS: [0]})
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
        self._environments = {True: Environment(_YamlLexer), False: Environment(Lexer)}
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


class _YamlLexer(Lexer):
    """Keeps the backslashes of texts in `{{ }}`, which Jinja2 would take for escapes."""

    def tokeniter(self, *args: Any, **options: Any) -> Iterator[tuple[int, str, str]]:
        inside = False
        for line, token, value in super().tokeniter(*args, **options):
            inside = token == TOKEN_VARIABLE_BEGIN or (inside and token != TOKEN_VARIABLE_END)
            keep = inside and token == TOKEN_STRING
            yield line, token, value.replace("\\", "\\\\") if keep else value


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox: names come from a scope, loops are counted, products are bounded."""

    intercepted_binops = frozenset(["*", "**", "%"])

    def __init__(self, lexer: type[Lexer]) -> None:
        super().__init__(
            undefined=StrictUndefined,
            trim_blocks=True,
            keep_trailing_newline=True,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
            finalize=_no_vault,
            cache_size=0,
        )
        self.context_class = _Context
        self._lexer = lexer(self)
        for name in ("cycler", "joiner", "lipsum"):
            self.globals.pop(name, None)
        self.globals["range"] = _range
        self.globals[_TEXT] = _no_vault
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


def _guard_texts(tree: syntax.Template) -> None:
    """Let `a ~ b` refuse vaulted values."""
    for joined in list(tree.find_all(syntax.Concat)):
        joined.nodes = [
            syntax.Call(syntax.Name(_TEXT, "load"), [part], [], None, None) for part in joined.nodes
        ]


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


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that refuses to work on a vaulted value."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if any(is_vault(value) for value in args[:2]):
            raise FilterError(f"the filter `{name}` cannot read a vaulted value")
        return function(*args, **options)

    return call


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
