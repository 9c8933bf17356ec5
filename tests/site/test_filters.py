"""Filters give what those of ansible-core give."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.site.templates._filters import FILTERS
from cobweb.site.templates._meter import RenderError
from cobweb.site.templates._rendering import Templates
from tests.support.loaded_ansible import loaded_ansible

VALUES: dict[str, Any] = {
    "words": ["b", "a", "b"],
    "numbers": [3, 1, 3],
    "nested": [1, [2, [3, [4]]], None],
    "tree": {"a": 1, "b": {"c": [1], "d": 2}},
    "other": {"b": {"c": [2], "e": 3}, "f": 4},
    "pairs": [{"key": "k", "value": "v"}],
    "text": "Hello, world 42",
    "path": "/etc/app/app.conf",
    "unicode": "grün\nzwei: 2",
}

EXPRESSIONS = [
    "tree | to_json",
    "tree | to_nice_json",
    "tree | to_nice_json(indent=2)",
    "tree | to_yaml",
    "tree | to_nice_yaml",
    "tree | to_nice_yaml(indent=2)",
    "unicode | to_json | from_json",
    "unicode | to_nice_yaml | from_yaml",
    "'[1, {\"a\": null}]' | from_json",
    "'a: [1, 2]' | from_yaml",
    "'yes' | bool",
    "'off' | bool",
    "'0' | bool",
    "1 | bool",
    "none | bool",
    "true | ternary('a', 'b')",
    "0 | ternary('a', 'b')",
    "none | ternary('a', 'b', 'c')",
    "tree | combine(other)",
    "tree | combine(other, recursive=true)",
    "tree | combine(other, recursive=true, list_merge='append')",
    "tree | combine(other, recursive=true, list_merge='prepend')",
    "tree | combine(other, recursive=true, list_merge='keep')",
    "[tree, other] | combine",
    "text | regex_replace('o', '0')",
    "text | regex_replace('(H)(e)', '\\2\\1')",
    "text | regex_replace('HELLO', 'x', ignorecase=true)",
    "text | regex_search('[0-9]+')",
    "text | regex_search('nothing')",
    "text | regex_search('(w)(.)', '\\1', '\\2')",
    "text | regex_search('(?P<first>w)', '\\g<first>')",
    "text | regex_findall('[a-z]+')",
    "text | regex_findall('(l)(.)')",
    "text | regex_escape",
    "text | b64encode",
    "text | b64encode | b64decode",
    "text | hash('sha256')",
    "text | hash",
    "text | checksum",
    "path | basename",
    "path | dirname",
    "path | splitext",
    "words | unique",
    "nested | unique",
    "words | union(numbers) | map('string') | sort",
    "words | difference(['a'])",
    "words | intersect(['b'])",
    "words | symmetric_difference(['a', 'x']) | sort",
    "nested | flatten",
    "nested | flatten(levels=1)",
    "tree | dict2items",
    "tree | dict2items(key_name='k', value_name='v')",
    "pairs | items2dict",
    "words | zip(numbers) | list",
    "words | zip_longest([1], fillvalue=0) | list",
    "1 | extract(words)",
    "'b' | extract(tree, 'd')",
    "text | quote",
    "'' | quote",
    "text | mandatory",
    "text | split(',')",
    "text | comment",
    "text | upper",
    "numbers | sort",
    "numbers | max",
    "words | join('-')",
    "'%03d' | format(7)",
    "5 | string",
    "'5' | int",
    "text is match('Hello')",
    "text is search('world')",
    "text is regex('w.r')",
    "'1.10.2' is version('1.9', '>')",
    "'2.0' is version('2.0', 'eq')",
]


def mine(expression: str) -> Any:
    return Templates().get("{{ " + expression + " }}").render(VALUES.__getitem__)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_results_equal_those_of_ansible(expression: str) -> None:
    with loaded_ansible():
        from ansible.parsing.dataloader import DataLoader
        from ansible.template import Templar, trust_as_template

        templar = Templar(loader=DataLoader(), variables=VALUES)
        expected = templar.template(trust_as_template("{{ " + expression + " }}"))
    assert mine(expression) == expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("'maybe' | bool", "neither true nor false"),
        ("words | combine(tree)", "takes mappings"),
        ("tree | combine(other, list_merge='x')", "knows list_merge"),
        ("text | hash('none')", "knows no algorithm"),
        ("'***' | b64decode", "b64decode"),
        ("text | union(words)", "takes a list"),
        ("words | dict2items", "takes a mapping"),
        ("words | items2dict", "takes mappings with"),
        ("text | regex_search('x', 'y')", "names groups as"),
        ("text | comment('cowsay')", "knows the styles"),
        ("missing | mandatory", "`missing` is undefined"),
        ("missing | mandatory('give it')", "give it"),
        ("'1' is version('1', 'near')", "knows no operator"),
        ("'a: [' | from_yaml", "from_yaml"),
    ],
)
def test_wrong_use_says_why(expression: str, reason: str) -> None:
    text = "{{ " + expression.replace("'x', 'y')", "'H', 'y')") + " }}"
    with pytest.raises(RenderError) as caught:
        Templates().get(text).render(VALUES.__getitem__)
    assert reason in caught.value.message


def test_each_filter_has_its_full_name_too() -> None:
    short = [name for name in FILTERS if "." not in name]
    assert all(FILTERS[f"ansible.builtin.{name}"] is FILTERS[name] for name in short)
    assert mine("words | ansible.builtin.unique") == ["b", "a"]
