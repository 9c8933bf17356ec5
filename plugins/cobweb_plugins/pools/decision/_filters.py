"""Filters of resources: `cores >= 4 and arch == amd64`.

The syntax is that of Python's comparisons, read by Python's own parser and evaluated here: names
are properties (`id` and `type` among them), a bare word after an operator is a text. A property
that a resource does not have makes a comparison false, also `!=`; so does one of another kind.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Value = str | int | float | bool
_Test = Callable[[Mapping[str, Value]], bool]

LONGEST = 1_000
"""How many characters a filter has at most: Python's parser is recursive."""

_DEEPEST = 30
"""How deep its parts are nested at most."""

_COMPARE: Mapping[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the properties of a resource; ValueError, with the column, for a wrong one.

    `names` are the properties that it looks at. Filters of one text are equal.
    """

    text: str
    names: frozenset[str] = field(init=False, compare=False)
    _test: _Test = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            raise ValueError(f"is longer than {LONGEST} characters")
        if "\\" in self.text:
            raise ValueError("has a backslash, which means nothing here")
        try:
            tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            column = getattr(error, "offset", None) or 1
            raise ValueError(f"cannot be read at column {column}") from error
        names: set[str] = set()
        object.__setattr__(self, "_test", _test_of(tree, names, 0))
        object.__setattr__(self, "names", frozenset(names))

    def accepts(self, properties: Mapping[str, Value]) -> bool:
        """Return whether a resource with these properties, `id` and `type` among them, fits."""
        return self._test(properties)


def _test_of(node: ast.expr, names: set[str], depth: int) -> _Test:
    """Compile a condition; the properties that it looks at are added to `names`."""
    if depth > _DEEPEST:
        raise ValueError(f"is nested deeper than {_DEEPEST}")
    match node:
        case ast.BoolOp(op=op, values=values):
            tests = [_test_of(value, names, depth + 1) for value in values]
            joined = all if isinstance(op, ast.And) else any
            return lambda properties: joined(test(properties) for test in tests)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            negated = _test_of(operand, names, depth + 1)
            return lambda properties: not negated(properties)
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[right]):
            names.add(name)
            return _comparison(name, op, right)
        case ast.Name(id=name):
            names.add(name)
            return lambda properties: properties.get(name) is True
        case _:
            hint = "write `PROPERTY == VALUE`, joined by `and`, `or`, `not`"
            raise ValueError(f"has no condition at column {node.col_offset + 1}; {hint}")


def _comparison(name: str, op: ast.cmpop, right: ast.expr) -> _Test:
    """Compile a comparison of a property with a value, or its membership in a list of values."""
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, ast.List | ast.Tuple):
            raise ValueError(  # noqa: TRY004  # it is the filter that is wrong
                f"needs a list at column {right.col_offset + 1}, as in `[a, b]`"
            )
        values = [_with_kind(_value(item)) for item in right.elts]
        wanted = isinstance(op, ast.In)
        return lambda properties: (
            name in properties and (_with_kind(properties[name]) in values) is wanted
        )
    compare = _COMPARE.get(type(op))
    if compare is None:
        raise ValueError(f"has an unknown operator before column {right.col_offset + 1}")
    kind, value = _with_kind(_value(right))

    def holds(properties: Mapping[str, Value]) -> bool:
        found = properties.get(name)
        return found is not None and _with_kind(found)[0] is kind and compare(found, value)

    return holds


def _value(node: ast.expr) -> Value:
    """Return what a literal or a bare word means."""
    match node:
        case ast.Constant(value=str() | bool() | int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if (
            not isinstance(value, bool)
        ):
            return -value
        case ast.Name(id="true" | "false" as word):
            return word == "true"
        case ast.Name(id=word):
            return word
        case _:
            raise ValueError(f"has no value at column {node.col_offset + 1}; quote texts")


def _with_kind(value: Value) -> tuple[type, Value]:
    """Return a value after its kind: two texts, two truth values or two numbers are compared."""
    return next((kind for kind in (str, bool) if isinstance(value, kind)), float), value
