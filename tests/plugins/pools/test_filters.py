"""Filters of resources: what they accept, what is no filter, and that none of them runs code."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb_plugins.pools.decision import Filter, Value

N1: Mapping[str, Value] = {
    "id": "n1",
    "type": "host",
    "cores": 8,
    "arch": "amd64",
    "gpu": True,
    "ssd": False,
    "load": 0.5,
    "offset": -3,
}

FITS = [
    "cores >= 4",
    "cores == 8",
    "cores == 8.0",
    "cores != 9",
    "cores < 9 and cores <= 8 and cores > 7",
    "load == 0.5",
    "offset == -3",
    "offset < -2.5",
    "arch == amd64",
    "arch == 'amd64'",
    'arch == "amd64"',
    "arch < b",
    "type == host and id == n1",
    "id in [n1, n2]",
    "id in (n1, n2)",
    "id not in [n2, n3]",
    "id not in []",
    "cores in [4, 8]",
    "gpu",
    "not ssd",
    "gpu == true",
    "gpu == True",
    "ssd == false",
    "gpu != false",
    "not (cores < 4 or arch == arm64)",
    "cores < 4 or arch == amd64",
    "ssd and gpu or cores == 8",
    "not missing",
    "not missing == 1",
    "  cores >= 4\n",
    "(cores >= 4\n and gpu)",
    "cores == 0x8",
    "(" * 90 + "gpu or ssd" + ")" * 90,  # brackets alone are no depth
]

FITS_NOT = [
    "cores >= 9",
    "arch == arm64",
    "id in [n2]",
    "id in []",
    "id not in [n1]",
    "ssd",
    "cores",  # a number is no truth value
    "arch",
    "missing",
    "missing == 1",
    "missing != 1",
    "missing in [1]",
    "missing not in [1]",
    "cores == '8'",
    "cores != '8'",
    "arch > 1",
    "arch != 1",
    "gpu == 1",  # a truth value is no number
    "gpu != 0",
    "cores == true",
    "cores in ['8', true]",
    "ssd and gpu and cores == 8",
    "cores == 1e999",
]

REFUSED = {
    "nothing": "",
    "blanks": "  \n ",
    "a value": "4",
    "a text": "'cores'",
    "an assignment": "cores = 4",
    "two statements": "cores == 4; gpu",
    "two lines": "cores == 4\ngpu",
    "an open bracket": "(cores == 4",
    "the value first": "4 <= cores",
    "chained": "4 <= cores <= 8",
    "chained behind a name": "a == b == c",
    "identity": "gpu is True",
    "no identity": "gpu is not True",
    "in a text": "arch in 'amd64'",
    "in a name": "arch in archs",
    "in a set": "arch in {amd64}",
    "in one in brackets": "id in (n1)",
    "in lists": "id in [[n1]]",
    "in a starred": "id in [*ids]",
    "nothing as a value": "cores == None",
    "an ellipsis": "cores == ...",
    "a complex number": "cores == 1j",
    "bytes": "arch == b'amd64'",
    "a hyphen": "arch == x86-64",
    "a sum": "cores == 4 + 4",
    "a sum on the left": "cores + 4 == 8",
    "plus": "cores == +4",
    "minus twice": "cores == --4",
    "minus a truth value": "cores == -True",
    "minus a word": "cores == -four",
    "minus alone": "-cores",
    "inverted": "~cores",
    "a call": "exit()",
    "a call as a value": "cores == exit()",
    "a call on the left": "exit() == 1",
    "a call among values": "cores in [exit()]",
    "an import": "__import__('os').system('true')",
    "an attribute": "cores.real == 8",
    "an attribute as a value": "cores == cores.real",
    "an item": "cores[0] == 8",
    "a list comprehension": "cores in [x for x in y]",
    "a generator": "(x for x in y)",
    "a generator as a value": "cores == (x for x in y)",
    "a backslash": "arch == 'a\\d'",
    "a walrus": "(cores := 4)",
    "a walrus as a value": "cores == (x := 4)",
    "a lambda": "lambda: 1",
    "a lambda as a value": "cores == (lambda: 1)",
    "a conditional": "a if b else c",
    "a conditional as a value": "cores == (a if b else c)",
    "an f-string": "f'{exit()}'",
    "an f-string as a value": "arch == f'{exit()}'",
    "an f-string in a list": "arch in [f'{exit()}']",
    "an f-string that is none": "arch == f'{'",
    "yield": "(yield)",
    "await": "await cores",
    "a keyword": "class == 1",
    "a tuple": "cores == 4, gpu",
    "a dict": "{cores: 1}",
    "NUL": "cores == 4\0",
    "NUL in a text": "arch == 'a\0'",
    "a lone surrogate": "arch == '\ud800'",
    "a sign of the web": "cores ≥ 4",
    "a quote of typography": "arch == “amd64”",
    "too long": "a or " * 250 + "a",
    "too many signs": "-" * 1000,
    "a deep not": "not " * 40 + "gpu",
    "a deeper not": "not " * 249 + "gpu",
    "brackets too deep for Python": "(" * 499 + ")" * 499,
    "deep signs": "a == " + "-" * 900 + "1",
    "deep lists": "a in " + "[" * 80 + "]" * 80,
    "deep joints": "(a and (b or " * 20 + "c" + "))" * 20,
    "a deep f-string": "a == " + "f'{" * 100,
}


@pytest.mark.parametrize("text", FITS)
def test_a_filter_accepts(text: str) -> None:
    assert Filter(text).accepts(N1)


@pytest.mark.parametrize("text", FITS_NOT)
def test_a_filter_does_not_accept(text: str) -> None:
    assert not Filter(text).accepts(N1)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_no_filter_is_a_value_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text ends the sentence `the filter ...`; nothing of what it says is executed."""
    with monkeypatch.context() as patched:
        for name in ("exit", "eval", "exec"):
            patched.setattr(builtins, name, _never)
        try:
            Filter(text)
        except ValueError as error:
            said = str(error)
        else:
            said = "accepted"
    assert said.startswith(("is ", "has ", "needs ", "cannot "))


def test_the_column_of_a_mistake_is_told() -> None:
    with pytest.raises(ValueError, match="column 7"):
        Filter("cores = 4")
    with pytest.raises(ValueError, match="column 18"):
        Filter("gpu and cores == 4 + 4")


def test_the_longest_filter_is_read_and_one_character_more_is_not() -> None:
    longest = "gpu".ljust(997, " ") + "# ."
    assert Filter(longest).accepts(N1)
    with pytest.raises(ValueError, match="is longer than 1000 characters"):
        Filter(longest + ".")


def test_a_condition_may_be_nested_thirty_deep() -> None:
    assert Filter("not " * 30 + "gpu").accepts(N1)
    with pytest.raises(ValueError, match="is nested deeper than 30"):
        Filter("not " * 31 + "gpu")


def test_the_properties_that_a_filter_looks_at_are_named() -> None:
    found = Filter("cores >= 4 and (arch == amd64 or not gpu) and id in [n1, n2]").names
    assert found == {"cores", "arch", "gpu", "id"}


def test_filters_of_one_text_are_equal() -> None:
    assert Filter("cores >= 4") == Filter("cores >= 4")
    assert Filter("cores >= 4") != Filter("cores  >= 4")
    assert len({Filter("gpu"), Filter("gpu"), Filter("ssd")}) == 2
    assert repr(Filter("gpu")) == "Filter(text='gpu', names=frozenset({'gpu'}))"


@given(text=st.text(max_size=80))
def test_any_text_is_a_filter_or_a_value_error(text: str) -> None:
    _read_or_refuse(text)


_PARTS = st.sampled_from(
    [
        *("cores", "gpu", "4", "-1", "1e9", "'x'", "f'{", "True", "None", "(", ")", "[", "]", "}"),
        *("==", "!=", "<", "in", "not", "and", "or", "is", "if", "else", "for", "lambda", "await"),
        *(",", ".", ":", ":=", "*", "~", "#", "\\", "\n", "\t", "\0"),
    ]
)


@given(parts=st.lists(_PARTS, max_size=12))
def test_any_row_of_python_s_signs_is_a_filter_or_a_value_error(parts: list[str]) -> None:
    _read_or_refuse(" ".join(parts))


@dataclass(frozen=True)
class Condition:
    """A condition with a text and, beside it, its meaning as a function of some properties."""

    text: str
    holds: Callable[[Mapping[str, Value]], bool]


_NAMES = st.sampled_from(["cores", "arch", "gpu", "load"])
_VALUES: st.SearchStrategy[Value] = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([-0.5, 0.0, 1.0, 2.5]),
    st.sampled_from(["amd64", "true", "1", "", "a b", "ü", "it's"]),
)
_WORDS = st.sampled_from(["amd64", "arm64", "cores"])


def _comparable(one: Value, other: Value) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool)
    return isinstance(one, str) == isinstance(other, str)


def _meaning(operator: str, found: Value | None, value: Value) -> bool:
    """Return what `found operator value` means, spelled out case by case."""
    if found is None or not _comparable(found, value):
        return False
    below = found < value  # type: ignore[operator]  # two of one kind
    same = found == value
    return {
        "==": same,
        "!=": not same,
        "<": below,
        "<=": below or same,
        ">": not below and not same,
        ">=": not below,
    }[operator]


@st.composite
def _comparisons(draw: st.DrawFn) -> Condition:
    name, operator = draw(_NAMES), draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
    value = draw(_VALUES)
    text = f"{name} {operator} {value!r}"
    if draw(st.booleans()):
        value = draw(_WORDS)
        text = f"{name} {operator} {value}"
    return Condition(text, lambda properties: _meaning(operator, properties.get(name), value))


@st.composite
def _memberships(draw: st.DrawFn) -> Condition:
    name, values, wanted = draw(_NAMES), draw(st.lists(_VALUES, max_size=3)), draw(st.booleans())

    def holds(properties: Mapping[str, Value]) -> bool:
        if name not in properties:
            return False
        return any(_meaning("==", properties[name], value) for value in values) == wanted

    return Condition(f"{name} {'in' if wanted else 'not in'} {values!r}", holds)


@st.composite
def _bare(draw: st.DrawFn) -> Condition:
    name = draw(_NAMES)
    return Condition(name, lambda properties: name in properties and properties[name] is True)


def _joined(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    def negated(part: Condition) -> Condition:
        return Condition(f"not ({part.text})", lambda it: not part.holds(it))

    def all_of(one: Condition, other: Condition) -> Condition:
        text = f"({one.text}) and ({other.text})"
        return Condition(text, lambda it: one.holds(it) and other.holds(it))

    def one_of(one: Condition, other: Condition) -> Condition:
        text = f"({one.text}) or ({other.text})"
        return Condition(text, lambda it: one.holds(it) or other.holds(it))

    return st.one_of(
        st.builds(negated, parts), st.builds(all_of, parts, parts), st.builds(one_of, parts, parts)
    )


_CONDITIONS = st.recursive(
    st.one_of(_comparisons(), _memberships(), _bare()), _joined, max_leaves=6
)


@given(condition=_CONDITIONS, properties=st.dictionaries(_NAMES, _VALUES))
def test_a_filter_means_what_a_second_implementation_says(
    condition: Condition, properties: dict[str, Value]
) -> None:
    assert Filter(condition.text).accepts(properties) is condition.holds(properties)


def _read_or_refuse(text: str) -> None:
    try:
        read = Filter(text)
    except ValueError:
        return
    assert read.accepts(N1) in (True, False)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a filter was executed")
