"""Templates: native values, scopes, vaulted values, and the limits of the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cobweb.errors import SiteError
from cobweb.site.templates._meter import MAX_TEXT, RenderError
from cobweb.site.templates._rendering import Templates

VALUES: dict[str, Any] = {
    "port": 80,
    "name": "web",
    "flag": False,
    "items": [1, 2, 3],
    "tree": {"a": {"b": [5, 6]}},
    "secret": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n31\n"},
    "nothing": None,
}
VALUES["hold"] = {"deep": [VALUES["secret"]]}


DOUBLING = (
    "{{% set n = namespace(x='x') %}}{{% for i in range(99) %}}"
    "{{% set n.x = n.x {} n.x %}}{{% endfor %}}{{{{ n.x | length }}}}"
)


VAULTED = "stands inside a longer text"
UNREADABLE = "cannot read a vaulted value"
CLOSED = "a vaulted value has no parts"
MARKS: dict[str, str] = {
    "{{ [secret] | string }}": VAULTED,
    "{{ {'a': [secret]} | string }}": VAULTED,
    "{{ [secret] }} ": VAULTED,
    "{{ (secret, 1) }} ": VAULTED,
    "{{ hold }} ": VAULTED,
    "{{ [secret] ~ '' }}": VAULTED,
    "{{ hold ~ '' }}": VAULTED,
    "{{ [secret] | join }}": VAULTED,
    "{{ [secret, 'a'] | join(',') }}": VAULTED,
    "{{ [secret, 'a'] | select('defined') | join(',') }}": VAULTED,
    "{{ [secret, 'a'] | reverse | join(',') }}": VAULTED,
    "{{ ['a', 'b'] | join(secret) }}": VAULTED,
    "{{ ['a', 'b'] | join(d=[secret]) }}": VAULTED,
    "{{ [secret] | map('string') | list }}": UNREADABLE,
    "{{ [[secret]] | map('string') | list }}": VAULTED,
    "{{ [secret] | upper }}": VAULTED,
    "{{ [secret] | replace('a', 'b') }}": VAULTED,
    "{{ [secret] | e }}": VAULTED,
    "{{ [secret] | tojson }}": VAULTED,
    "{{ [secret] | to_yaml }}": UNREADABLE,
    "{{ (secret, 1) | to_json }}": UNREADABLE,
    "{{ [secret] | hash }}": UNREADABLE,
    "{{ [secret] | b64encode }}": UNREADABLE,
    "{{ '%s' | format(secret) }}": UNREADABLE,
    "{{ '%s' | format([secret]) }}": VAULTED,
    "{{ '{}'.format(secret) }}": VAULTED,
    "{{ '{a}'.format(a=[secret]) }}": VAULTED,
    "{{ '{0.__ansible_vault}'.format(secret) }}": VAULTED,
    "{{ ('x' | safe).join([secret]) }}": VAULTED,
    "{{ ('x' | safe).join([secret] | select) }}": VAULTED,
    "{{ ('x' | safe).replace('x', [secret]) }}": VAULTED,
    "{{ secret.__ansible_vault }}": CLOSED,
    "{{ secret['__ansible_vault'] }}": CLOSED,
    "{{ secret.values() | first }}": CLOSED,
    "{{ dict(secret, a=1).__ansible_vault }}": CLOSED,
    "{{ [secret] | map(attribute='__ansible_vault') | first }}": CLOSED,
    "{{ [secret] | groupby('__ansible_vault') }}": CLOSED,
    "{{ '__ansible_vault' | extract(secret) }}": UNREADABLE,
    "{{ 'a' | extract({'a': secret}, '__ansible_vault') }}": UNREADABLE,
    "{{ [secret] | subelements('__ansible_vault') }}": UNREADABLE,
    "{{ [secret] | items2dict('__ansible_vault', '__ansible_vault') }}": UNREADABLE,
    "{% set n = namespace(a=secret) %}{{ n }}": VAULTED,
    "{{ namespace(a=secret) | upper }}": VAULTED,
    "{% for key, value in {'a': secret}.items() %}{{ value }}{% endfor %}": VAULTED,
    "{% macro m(x) %}{{ [x] }}{% endmacro %}{{ m(secret) }}": VAULTED,
    "{% filter upper %}{{ [secret] }}{% endfilter %}": VAULTED,
}
"""Templates that would write the mark of a vaulted value into a text, and why they do not."""


def render(text: str) -> Any:
    return Templates().get(text).render(VALUES.__getitem__)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ port }}", 80),
        ("{{ port + 1 }}", 81),
        ("{{- port -}}", 80),
        (" {{ port }}", " 80"),
        ("{{ port }}{{ port }}", "8080"),
        ("{{ port }} ", "80 "),
        ("{{ flag }}", False),
        ("{{ nothing }}", None),
        ("{{ items }}", [1, 2, 3]),
        ("{{ tree.a.b[1] }}", 6),
        ("{{ tree['a'] }}", {"b": [5, 6]}),
        ("{{ items | map('string') }}", ["1", "2", "3"]),
        ("{{ items | select('odd') | list }}", [1, 3]),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ name ~ '-' ~ port }}", "web-80"),
        ("{{ '80' }}", "80"),
        ("{{ '{{' }}", "{{"),
        ("{{ '%03d' | format(7) }}{{ '{:>4}'.format('a') }}{{ name.ljust(5) }}", "007   aweb  "),
        ("{% if flag %}a{% else %}b{% endif %}", "b"),
        ("{% for i in items %}{{ i }},{% endfor %}", "1,2,3,"),
        ("{% for i in items %}\n{{ i }}\n{% endfor %}\n", "1\n2\n3\n"),
        ("{% set x = 3 %}{{ x }}", "3"),
        ("a\n", "a\n"),
        ("x={{ port }}\n", "x=80\n"),
        ("{# words #}", ""),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{{ missing | default('d') }}", "d"),
        ("{{ missing is defined }}", False),
        ("{{ tree.c | default(4) }}", 4),
        ("{{ secret }}", VALUES["secret"]),
        ("{{ secret | default('x') }}", VALUES["secret"]),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}", "<1>"),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = render(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("text", "reason"), MARKS.items())
def test_no_mark_of_a_vaulted_value_gets_into_a_text(text: str, reason: str) -> None:
    with pytest.raises(RenderError) as caught:
        render(text)
    assert reason in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "{{ [secret] }}",
        "{{ [secret] | list }}",
        "{{ [secret, secret] | unique }}",
        "{{ [[secret]] | flatten }}",
        "{{ [secret] | select('mapping') }}",
        "{{ {'a': secret} | dict2items | map(attribute='value') }}",
        "{{ {'a': secret}.values() }}",
        "{{ ['a'] | map('extract', {'a': secret}) }}",
    ],
)
def test_a_vaulted_value_stays_one_in_lists(text: str) -> None:
    assert render(text) == [VALUES["secret"]]


@pytest.mark.gate("a table of bad input; one takes what a template may take")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ missing }}", "`missing` is undefined"),
        ("a {{ missing }}", "`missing` is undefined"),
        ("{{ missing | to_json }}", "`missing` is undefined"),
        ("{{ [missing] }}", "`missing` is undefined"),
        ("{{ tree.c.d }}", "has no attribute"),
        ("{{ port.x }}", "has no attribute"),
        ("{{ items[7] }}", "no element"),
        ("{{ port + name }}", "unsupported operand"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ name() }}", "not callable"),
        ("x {{ secret }}", "vaulted value stands inside"),
        ("{{ secret ~ 'x' }}", "vaulted"),
        ("{{ secret | upper }}", "vaulted"),
        ("{{ [secret] | to_json }}", "cannot read a vaulted value"),
        ("{{ ''.__class__ }}", "unsafe"),
        ("{{ tree.__init__.__globals__ }}", "unsafe"),
        ("{{ items.append(1) }}", "unsafe"),
        ("{{ 'x' * 99999999999 }}", f"more than {MAX_TEXT}"),
        ("{{ [1] * 99999999999 }}", f"more than {MAX_TEXT}"),
        ("{{ 9 ** 99999999 }}", "power above"),
        ("{{ '%999999999s' % name }}", "formats with"),
        ("{{ '%999999999s' | format(name) }}", f"more than {MAX_TEXT}"),
        ("{{ '{:999999999}'.format(name) }}", f"more than {MAX_TEXT}"),
        ("{{ name.ljust(999999999) }}", f"more than {MAX_TEXT}"),
        ("{{ name | center(999999999) }}", f"more than {MAX_TEXT}"),
        ("{{ name | replace('e', 'x' * 8000000) | replace('x', 'yy') }}", f"more than {MAX_TEXT}"),
        (DOUBLING.format("~"), f"more than {MAX_TEXT}"),
        (DOUBLING.format("+"), f"more than {MAX_TEXT}"),
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps"),
        ("{{ range(99999999) }}", "steps"),
        ("{% for a in range(99999) %}" + "x" * 100 + "{% endfor %}", f"more than {MAX_TEXT}"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "for ever"),
        ("{% include 'x' %}", "no loader"),
        ("{{ items | random }}", "No filter named"),
        ("{{ lookup('env', 'HOME') }}", "`lookup` is undefined"),
        ("{{ name", "the template is wrong"),
        ("{% if x %}", "the template is wrong"),
        ("{{ name | regex_replace('(', '') }}", "no regular expression"),
        ("{{ 'x' | from_json }}", "the template fails"),
        ("{{ {}.items }}", "no plain value"),
        ("{{ " + "(" * 500 + "1" + ")" * 500 + " }}", "nested too deeply"),
    ],
)
def test_failures_say_why(text: str, reason: str) -> None:
    with pytest.raises(RenderError, match=r".+") as caught:
        render(text)
    assert reason in caught.value.message


def test_a_text_is_compiled_once() -> None:
    templates = Templates()
    assert templates.get("{{ port }}") is templates.get("{{ port }}")
    assert templates.get("{{ port }}x{{ name }}").names == ("name", "port")


def test_variables_refer_to_variables_of_the_host(spec: Callable[..., Any]) -> None:
    found = spec(
        "{a: '{{ url }}', b: '{{ ports }}', c: '{{ nested.deep[0] }}'}",
        inventory_text(
            "url: 'http://{{ address }}:{{ port }}/', address: '{{ inventory_hostname }}.example', "
            "port: 80, ports: ['{{ port }}', '{{ port + 1 }}'], nested: {deep: ['{{ port }}']}"
        ),
    )
    assert found == {"a": "http://app01.example:80/", "b": [80, 81], "c": 80}


def inventory_text(variables: str) -> str:
    return (
        f"inventory: {{all: {{vars: {{{variables}}}}}, app: {{hosts: {{app01: {{rack: a}}, "
        "app02.example.com: {rack: b}}}, db: {hosts: {db01: }}}"
    )


def test_the_names_of_ansible_are_there(spec: Callable[..., Any]) -> None:
    found = spec(
        "{h: '{{ inventory_hostname }}', s: '{{ inventory_hostname_short }}', "
        "g: '{{ group_names }}', all: '{{ groups.app }}', size: \"{{ groups['all'] | length }}\", "
        "other: \"{{ hostvars['app02.example.com'].rack }}\", "
        "short: \"{{ hostvars['app02.example.com'].inventory_hostname_short }}\", "
        "racks: \"{{ groups.app | map('extract', hostvars, 'rack') | list }}\", "
        "has: \"{{ 'web' in groups }}\"}",
        inventory_text("x: 1"),
    )
    assert found == {
        "h": "app01",
        "s": "app01",
        "g": ["app"],
        "all": ["app01", "app02.example.com"],
        "size": 3,
        "other": "b",
        "short": "app02",
        "racks": ["a", "b"],
        "has": False,
    }


def test_whole_groups_and_hosts_can_be_written(spec: Callable[..., Any]) -> None:
    found = spec(
        "{g: '{{ groups | to_json }}', t: 'all {{ groups }}', n: '{{ groups }}', "
        "h: '{{ hostvars.app01 | to_json(sort_keys=true) }}', all: '{{ hostvars }}'}",
        "inventory: {app: {hosts: {app01: {x: '{{ 1 + 1 }}'}}}}",
    )
    groups = {"all": ["app01"], "ungrouped": [], "app": ["app01"]}
    mine = {"group_names": ["app"], "x": 2}
    mine |= dict.fromkeys(("inventory_hostname", "inventory_hostname_short"), "app01")
    assert found == {
        "g": json.dumps(groups),
        "t": f"all {groups}",
        "n": groups,
        "h": json.dumps(mine, sort_keys=True),
        "all": {"app01": mine},
    }


def test_a_variable_that_is_not_used_may_be_wrong(spec: Callable[..., Any]) -> None:
    assert spec("{a: '{{ good }}'}", inventory_text("good: 1, bad: '{{ no }}'")) == {"a": 1}


def test_a_chain_of_variables_ends(spec: Callable[..., Any]) -> None:
    chain = ", ".join(f"v{n}: '{{{{ v{n + 1} }}}}'" for n in range(80))
    with pytest.raises(SiteError, match="variables refer to each other"):
        spec("{a: '{{ v0 }}'}", inventory_text(f"{chain}, v80: 1"))
    short = ", ".join(f"v{n}: '{{{{ v{n + 1} }}}}'" for n in range(40))
    assert spec("{a: '{{ v0 }}'}", inventory_text(f"{short}, v40: 1")) == {"a": 1}


def test_hosts_that_refer_to_each_other_in_a_circle_are_found(spec: Callable[..., Any]) -> None:
    with pytest.raises(SiteError, match="for ever"):
        spec("{a: '{{ v }}'}", inventory_text('v: "{{ hostvars[groups.app[0]].v }}"'))


def test_a_vaulted_value_passes_through_variables(spec: Callable[..., Any]) -> None:
    further = inventory_text("a: '{{ b }}', b: !vault abc")
    assert spec("{p: '{{ a }}', q: ['{{ b }}'], r: !vault x}", further) == {
        "p": {"__ansible_vault": "abc"},
        "q": [{"__ansible_vault": "abc"}],
        "r": {"__ansible_vault": "x"},
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{type: simple, on: app01, spec: {p: '{{ [key] | string }}'}}", "site.yml:3:"),
        ("{type: simple, on: app01, spec: {p: '{{ key.__ansible_vault }}'}}", "site.yml:3:"),
        ("{type: simple, on: app01, want: '{{ [key] }}'}", "site.yml:3:"),
        ("{type: simple, on: app01, want: '{{ key }}'}", "site.yml:3:"),
        ("{type: page, on: app01, spec: {template: page.j2}}", "page.j2:"),
        ("{type: simple, on: '{{ [key] | string }}'}", "site.yml:3:"),
    ],
)
def test_a_mark_in_a_text_is_a_finding_with_its_place(maker: Any, text: str, place: str) -> None:
    page = """
  page:
    states: [up, down]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: }
    spec: {properties: {template: {x-cobweb: template}, content: {}}}
"""
    variables = "{app: {hosts: {app01: }}, all: {vars: {key: !vault abc}}}"
    site = f"cobweb: 1\ninventory: {variables}\ncobs: {{c: {text}}}\n{maker.types}{page}"
    found = maker.findings({"site.yml": site, "page.j2": "{{ [key] }}", "check.yml": "- debug:"})
    assert [it for it in found if it.startswith(place) and "vaulted value" in it], found
    assert "abc" not in "".join(found)


def test_a_group_of_a_limit_is_not_named_by_a_mark(maker: Any) -> None:
    site = """cobweb: 1
inventory: {all: {vars: {rack: !vault abc}}, app: {hosts: {app01: }}}
cobs: {c: {type: simple, on: app}}
limits: {l: {on: app, cob: c, max: 1, per: rack}}
"""
    found = maker.findings({"site.yml": site, "check.yml": "- debug:"})
    assert [it for it in found if it.startswith("site.yml:4:") and "vaulted value" in it], found
