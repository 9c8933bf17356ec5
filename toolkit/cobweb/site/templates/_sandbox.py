"""The sandbox that templates run in: names from a scope, counted loops, bounded texts.

Jinja2's own sandbox keeps templates away from Python's insides; what is added here keeps them from
running for ever and from filling the memory, and vaulted values out of longer texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, pass_context
from jinja2 import nodes as syntax
from jinja2.lexer import TOKEN_STRING, TOKEN_VARIABLE_BEGIN, TOKEN_VARIABLE_END, Lexer
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, _PassArg, missing
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from cobweb.site.reading._nodes import VAULT_KEY, holds_vault, is_vault
from cobweb.site.templates._filters import FILTERS, TESTS, FilterError
from cobweb.site.templates._growth import (
    EscapeFormatter,
    Formatter,
    check_method,
    check_product,
    filter_check,
    run_check,
)
from cobweb.site.templates._meter import (
    MAX_STEPS,
    Meter,
    RenderError,
    check_bits,
    check_text,
    too_many_steps,
)

SCOPE = "__cobweb_scope"
"""The name under which a render gets its lookup function."""

METER = "__cobweb_meter"
"""The name under which a render gets its meter."""

_STEP = "__cobweb_step"
_PART = "__cobweb_part"
_MADE = "__cobweb_made"
INTERNAL = frozenset({_STEP, _PART, _MADE})
"""Names that stand in compiled templates but not in their texts."""

_PASS_VAULTS = {
    *("default", "d", "mandatory", "ternary", "combine", "extract", "list", "first", "last"),
}
_LAZY = {"default", "d", "map", "select", "reject", "selectattr", "rejectattr", "first", "list"}
"""Filters that take an iterator as it is; the others get a list, whose size is known."""

_QUICK_TESTS = {
    *("defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number"),
    *("string", "mapping", "sequence", "iterable", "callable", "sameas", "odd", "even"),
}


class YamlLexer(Lexer):
    """Keeps the backslashes of texts in `{{ }}`, which Jinja2 would take for escapes."""

    def tokeniter(self, *args: Any, **options: Any) -> Iterator[tuple[int, str, str]]:
        inside = False
        for line, token, value in super().tokeniter(*args, **options):
            inside = token == TOKEN_VARIABLE_BEGIN or (inside and token != TOKEN_VARIABLE_END)
            keep = inside and token == TOKEN_STRING
            yield line, token, value.replace("\\", "\\\\") if keep else value


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox: names come from a scope, steps are counted, what is made is bounded."""

    intercepted_binops = frozenset(["+", "-", "*", "**", "%"])

    def __init__(self, lexer: type[Lexer]) -> None:
        super().__init__(
            undefined=StrictUndefined,
            trim_blocks=True,
            keep_trailing_newline=True,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
            finalize=_written,
            optimized=False,  # nothing is worked out while the meter does not run
            cache_size=0,
        )
        self.context_class = _Context
        self._lexer = lexer(self)
        for name in ("cycler", "joiner", "lipsum"):
            self.globals.pop(name, None)
        self.globals.update({"range": _range, _STEP: _step, _PART: _part, _MADE: _made})
        for name in ("random", "pprint", "xmlattr", "urlize"):
            self.filters.pop(name, None)
        self.filters.update(FILTERS)
        for name in self.filters:
            self.filters[name] = _metered(name, self.filters[name], vaults=name in _PASS_VAULTS)
        self.tests.update(TESTS)
        tests: dict[str, Any] = self.tests
        for name in set(tests) - _QUICK_TESTS:
            tests[name] = _metered(name, tests[name], vaults=True)

    @property
    def lexer(self) -> Lexer:
        """Split a template into tokens."""
        return self._lexer

    def parse(
        self, source: str, name: str | None = None, filename: str | None = None
    ) -> syntax.Template:
        """Return the tree of a template, with its loops counted and what it makes looked at."""
        if len(source) > MAX_TEMPLATE:
            message = f"the template has more than {MAX_TEMPLATE} characters"
            raise RenderError(message, hint="take what is fixed with `source`, or split it")
        tree = _Metering().visit(super().parse(source, name, filename))
        assert isinstance(tree, syntax.Template)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse products and powers that would fill the memory."""
        if operator == "*":
            check_product(left, right)
        elif operator == "+" and isinstance(left, str | bytes):
            check_text(len(left) + len(right) if isinstance(right, str | bytes) else 0)
        elif operator == "**":
            _check_power(left, right)
        elif operator == "%" and isinstance(left, str | bytes):
            raise RenderError("the template formats with `%`", hint="join texts with `~`")
        meter: Meter = context.parent[METER]
        return meter.took(super().call_binop(context, operator, left, right))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Refuse to look into vaulted values."""
        return super().getattr(_closed(obj), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Refuse to look into vaulted values."""
        return super().getitem(_closed(obj), argument)

    def call(self, context: Context, function: Any, *args: Any, **options: Any) -> Any:
        """Refuse methods of texts that would fill the memory or take vaults; count the call."""
        if function in _INTERNALS:
            return function(context, *args)  # options are the locals of Jinja2's loops
        meter: Meter = context.parent[METER]
        meter.step()
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str):
            taken = _taken(args)
            _refuse_vaults((*taken, *options.values()))
        if owner is not None:
            check_method(owner, getattr(function, "__name__", ""), args, options)
        return meter.took(super().call(context, function, *args, **options))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return `format` of a text, with bounds and without vaulted values."""
        if super().wrap_str_format(value) is None:
            return None
        text = value.__self__
        is_map = value.__name__ == "format_map"

        @wraps(value)
        def fill(*args: Any, **options: Any) -> str:
            _refuse_vaults((*args, *options.values()))
            is_markup = isinstance(text, Markup)
            made = EscapeFormatter(self, escape=text.escape) if is_markup else Formatter(self)
            if is_map:
                args, options = (), dict(*args, **options)
            filled: str = type(text)(made.vformat(text, args, options))
            return filled

        return fill


MAX_TEMPLATE = 2**20
"""A longer template is an error (characters)."""

_MAX_POWER = 1000


def checked(value: Any) -> str:
    """Return a value as it stands in a text; RenderError for a huge one, or where it shows a vault.

    Whatever holds the mark of a vaulted value shows the mark's key.
    """
    text = str(value)
    if not isinstance(value, str) and VAULT_KEY in text:
        raise _vaulted()
    check_text(len(text))
    return text


class _Context(Context):
    """Looks names up in the scope when they are used, not before."""

    def resolve_or_missing(self, key: str) -> Any:
        found = super().resolve_or_missing(key)
        if found is not missing:
            return found
        try:
            return self.parent[SCOPE](key)
        except KeyError:
            return missing


@pass_context
def _step(context: Context, characters: int) -> str:
    """Count a step of a loop, and the plain text that it writes."""
    meter: Meter = context.parent[METER]
    meter.step()
    meter.write(characters)
    return ""


@pass_context
def _part(_context: Context, value: Any) -> Any:
    """Look at a part of `a ~ b`."""
    return checked(value)


@pass_context
def _made(context: Context, value: Any) -> Any:
    """Look at what was made without a call: a list, a slice, a joined text, a comparison."""
    meter: Meter = context.parent[METER]
    meter.look()
    return meter.took(value)


@pass_context
def _written(context: Context, value: Any) -> Any:
    """Look at what is written into a text."""
    meter: Meter = context.parent[METER]
    meter.look()
    text = checked(value)
    meter.write(len(text))
    return text


_INTERNALS = frozenset({_step, _part, _made})


def _range(*bounds: int) -> range:
    made = range(*bounds)
    if len(made) > MAX_STEPS:
        raise too_many_steps()
    return made


def _check_power(left: Any, right: Any) -> None:
    if isinstance(right, int | float) and abs(right) > _MAX_POWER:
        raise RenderError(f"the template raises to a power above {_MAX_POWER}")
    if isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() * right)


class _Metering(NodeTransformer):
    """Puts calls of the meter into a template."""

    def visit_For(self, node: syntax.For) -> syntax.Node:  # noqa: N802  Jinja2's name
        """Count the steps of a loop."""
        self.generic_visit(node)
        written = sum(len(data.data) for data in node.find_all(syntax.TemplateData))
        call = _call(_STEP, syntax.Const(written, lineno=node.lineno))
        node.body.insert(0, syntax.ExprStmt(call, lineno=node.lineno))
        return node

    def visit_Include(self, node: syntax.Include) -> syntax.Node:  # noqa: N802  Jinja2's name
        """Refuse what takes other templates."""
        word = type(node).__name__.lower().removeprefix("from")
        message = f"`{word}` is not possible: there is no loader of templates"
        raise TemplateSyntaxError(message, node.lineno)

    visit_Import = visit_FromImport = visit_Extends = visit_Include  # noqa: N815  Jinja2's names

    def visit_Concat(self, node: syntax.Concat) -> syntax.Node:  # noqa: N802  Jinja2's name
        """Let `a ~ b` refuse vaulted values, and look at what it makes."""
        self.generic_visit(node)
        node.nodes = [_call(_PART, part) for part in node.nodes]
        return _call(_MADE, node)

    def visit_List(self, node: syntax.List) -> syntax.Node:  # noqa: N802  Jinja2's name
        """Look at a list, if anything in it is not written there."""
        self.generic_visit(node)
        return node if _is_fixed(node) else _call(_MADE, node)

    visit_Dict = visit_List  # noqa: N815  Jinja2's name

    def visit_Tuple(self, node: syntax.Tuple) -> syntax.Node:  # noqa: N802  Jinja2's name
        """Look at a tuple that is no target of an assignment."""
        self.generic_visit(node)
        return node if node.ctx != "load" or _is_fixed(node) else _call(_MADE, node)

    def visit_Getitem(self, node: syntax.Getitem) -> syntax.Node:  # noqa: N802  Jinja2's name
        """Look at slices."""
        self.generic_visit(node)
        return _call(_MADE, node) if isinstance(node.arg, syntax.Slice) else node

    def visit_Compare(self, node: syntax.Compare) -> syntax.Node:  # noqa: N802  Jinja2's name
        """Look at the clock after a comparison of large things."""
        self.generic_visit(node)
        compared = (node.expr, *(operand.expr for operand in node.ops))
        quick = any(isinstance(each, syntax.Const) for each in compared)
        return node if quick else _call(_MADE, node)


def _is_fixed(node: syntax.Node) -> bool:
    """Say whether all of a list or mapping is written in the template."""
    if isinstance(node, syntax.List | syntax.Tuple | syntax.Dict):
        return all(map(_is_fixed, node.items))
    if isinstance(node, syntax.Pair):
        return _is_fixed(node.value)
    return isinstance(node, syntax.Const | syntax.TemplateData)


def _call(name: str, argument: syntax.Expr) -> syntax.Call:
    return syntax.Call(syntax.Name(name, "load"), [argument], [], None, None)


def _metered(name: str, function: Callable[..., Any], *, vaults: bool) -> Callable[..., Any]:
    """Return a filter or test that is bounded, and refuses vaulted values if not `vaults`."""
    passes = _PassArg.from_obj(function)
    takes_lists = name not in _LAZY
    read = 2 if passes is None else 1
    check = filter_check(name)

    @wraps(function)
    def call(context: Context, *args: Any, **options: Any) -> Any:
        meter: Meter = context.parent[METER]
        meter.step()
        if not vaults and any(map(is_vault, args[:read])):
            raise FilterError(f"the filter `{name}` cannot read a vaulted value")
        if takes_lists:
            args = _taken(args)
        if check is not None:
            run_check(check, meter, *args, **options)
        first = {
            _PassArg.context: context,
            _PassArg.eval_context: context.eval_ctx,
            _PassArg.environment: context.environment,
        }
        before = () if passes is None else (first[passes],)
        result = meter.took(function(*before, *args, **options))
        if isinstance(result, str) and not vaults:
            _refuse_vaults((*args, *options.values()))
        return result

    return pass_context(call)


def _taken(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with what gives its items once as lists, which can be looked into."""
    return tuple(
        list(each) if isinstance(each, Iterator) and not isinstance(each, LoopContext) else each
        for each in args
    )


def _refuse_vaults(values: Iterable[Any]) -> None:
    """Refuse to make a text of what holds a vaulted value."""
    for value in values:
        if holds_vault(value) or (isinstance(value, Namespace) and VAULT_KEY in repr(value)):
            raise _vaulted()


def _closed(value: Any) -> Any:
    if isinstance(value, dict) and VAULT_KEY in value:
        raise RenderError("a vaulted value has no parts", hint="vault the parts one by one")
    return value


def _vaulted() -> RenderError:
    return RenderError(
        "a vaulted value stands inside a longer text",
        hint='use it alone, as in `key: "{{ secret }}"`, or vault the whole text',
    )
