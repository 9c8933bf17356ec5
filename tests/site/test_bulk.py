"""Values that are made many at once are those that their class makes; short cuts change nothing."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb._garbage import no_collections
from cobweb.errors import Place
from cobweb.model import CobId, LockNeed
from cobweb.site.objects._bulk import make_all
from cobweb.site.reading import _schemas
from cobweb.site.reading._nodes import VAULT_KEY, Leaf, told_apart
from cobweb.site.reading._schemas import SpecChecker
from cobweb.site.templates._meter import RenderError
from cobweb.site.templates._rendering import Template
from cobweb.site.templates._sandbox import Environment, YamlLexer

AT = Place(file="f")
names = st.sampled_from(["a", "b", "c", "range", "missing"])
texts = st.text("xyz\n }{%", max_size=4)
scalars = st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 2) | texts
values = scalars | st.lists(scalars, max_size=2) | st.just({VAULT_KEY: "sealed"})


@given(st.lists(st.tuples(st.sampled_from(["h1/a", "h2/b"]), st.sampled_from(["up", "down"]))))
def test_values_made_at_once_are_those_made_one_by_one(rows: list[tuple[str, str]]) -> None:
    one_by_one = [
        LockNeed(cob=CobId(cob), within=state, on=CobId("h/x"), state="up", place=AT)
        for cob, state in rows
    ]
    at_once = make_all(
        LockNeed,
        len(rows),
        cob=[cob for cob, _ in rows],
        within=[state for _, state in rows],
        on=["h/x"] * len(rows),
        state=["up"] * len(rows),
        place=[AT] * len(rows),
    )
    assert at_once == one_by_one
    assert [need.place for need in at_once] == [AT] * len(rows)


def test_columns_are_the_fields_and_long_enough() -> None:
    with pytest.raises(ValueError, match="has the fields"):
        make_all(Place, 1, file=["f"], column=[1], line=[1])
    with pytest.raises(ValueError, match="the column line is too short"):
        make_all(Place, 2, file=["f", "g"], line=[1], column=[1, 2])


def test_the_collector_is_as_before() -> None:
    with no_collections():
        assert not gc.isenabled()
        with no_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_process_that_goes_on_finds_its_garbage() -> None:
    """What reads one site after the other, as a service does, does not grow by each of them."""
    made: weakref.WeakSet[Circle] = weakref.WeakSet()
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own
    try:
        for _ in range(30):
            with no_collections():
                made.add(Circle())
            assert [[] for _ in range(10_000)]  # makes Python look at what is young
    finally:
        gc.set_threshold(*before)
    assert len(made) < 30


class Circle:
    """Refers to itself: only the collector finds it."""

    def __init__(self) -> None:
        self.me = self


@given(
    st.lists(st.one_of(texts.filter(lambda t: "{" not in t), names.map("{{{{ {} }}}}".format))),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=2),
)
def test_a_text_with_names_alone_is_what_jinja_makes_of_it(
    pieces: list[str], variables: dict[str, Any]
) -> None:
    quick = Template(Environment(YamlLexer), "".join(pieces))
    slow = Template(Environment(YamlLexer), "".join(pieces))
    slow._pieces = ()
    assert _outcome(quick, variables) == _outcome(slow, variables)


def test_the_short_cut_is_for_names_alone() -> None:
    def has_pieces(text: str) -> bool:
        return bool(Template(Environment(YamlLexer), text)._pieces)

    assert has_pieces("{{ a }}")
    assert has_pieces("x {{ a }} y {{ b }}")
    for text in (
        "{{ a.b }}",
        "{{ a | upper }}",
        "{% if a %}b{% endif %}",
        "{{ range }}",
        "{{ 1 }}",
    ):
        assert not has_pieces(text), text


def _outcome(template: Template, variables: dict[str, Any]) -> object:
    try:
        value = template.render(variables.__getitem__)
    except RenderError as error:
        return (error.message, error.hint, error.name)
    return (type(value), value)


SCHEMAS: list[dict[str, Any]] = [
    {},
    {"properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 1}}},
    {"properties": {"a": {"type": "string", "minLength": 2}}, "required": ["b"]},
    {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
    {"properties": {"a": {"type": "string"}}, "patternProperties": {"a": {"maxLength": 1}}},
    {
        "properties": {"a": {"type": "string"}},
        "if": {"properties": {"a": {"const": "x"}}},
        "then": {"required": ["b"]},
    },
    {
        "properties": {"a": {"type": "string"}, "b": {"type": "string", "enum": ["x", "y"]}},
        "anyOf": [{"required": ["b"]}, {"required": ["c"]}],
    },
    {"properties": {"a": {"type": "string"}}, "enum": [{"a": "x"}, {"a": "y"}]},
    {"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"const": "x"}}},
    {"properties": {"a": True, "b": {"type": ["string", "null"]}}, "maxProperties": 1},
]


@given(
    st.sampled_from(SCHEMAS),
    st.lists(st.dictionaries(st.sampled_from("abc"), values), min_size=1, max_size=12),
)
def test_what_is_known_to_fit_is_what_would_fit(
    schema: dict[str, Any], specs: list[dict[str, Any]]
) -> None:
    checker = SpecChecker(schema)
    node = Leaf(value=None, place=AT)
    for spec in specs:
        anew = list(SpecChecker(schema).problems(spec, node))
        assert list(checker.problems(spec, node)) == anew


def test_free_texts_are_not_checked_again() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string", "minLength": 2}}}
    checker = SpecChecker(schema)
    node = Leaf(value=None, place=AT)
    for number in range(5):
        assert list(checker.problems({"a": f"text {number}", "b": "bb"}, node)) == []
    assert len(checker._fitting) == 1
    assert _schemas._free_texts(schema) == {"a"}


def test_of_several_keys_one_is_asked_for() -> None:
    schema = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"type": "string"}]}
    checker = SpecChecker(schema)
    node = Leaf(value=None, place=AT)
    ((_, message, hint),) = checker.problems({"a": 1, "b": "secret"}, node)
    assert (message, hint) == ("`spec` has `a` and `b`", "keep one of them")
    number = SpecChecker({"properties": {"n": {"oneOf": [{"minimum": 1}, {"minimum": 2}]}}})
    ((_, message, _),) = number.problems({"n": 3}, node)
    assert message.startswith("`n` does not fit")


@given(values, values)
def test_values_are_told_apart_as_json_is(one: Any, other: Any) -> None:
    same = repr(one) == repr(other)
    assert (told_apart(one) == told_apart(other)) is same


def test_large_values_are_not_compared() -> None:
    assert told_apart(["x" * 2000]) is None
