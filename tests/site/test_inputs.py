"""Variables that a role reads are content of the objects whose type runs it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import SiteError
from cobweb.generation import content_of
from cobweb.model import Cob, CobId, CobType, Graph, Nothing, Role, Transition
from cobweb.site import Site, unfit_specs

Maker = Any
APP01, APP02 = CobId("app01/page"), CobId("app02/page")
TYPE = """
types:
  web:
    states: [outdated, down, up]
    preferred: up
    remove: down
    spec: {type: object, additionalProperties: false, properties: {port: {type: integer}}}
    check: {tasks: check.yml}
    transitions:
      down -> up: {role: ROLE}
      up -> down:
      outdated -> up: {role: ROLE}
      outdated -> down:
cobs: {page: {type: web, on: app, spec: SPEC}}
"""


def text(role: str = "nginx", spec: str = "{port: 80}", inputs: str = "") -> str:
    said = f"    inputs: {inputs}\n    check:" if inputs else "    check:"
    return TYPE.replace("ROLE", role).replace("SPEC", spec).replace("    check:", said)


def specs(site: Site) -> list[Any]:
    return [site.graph().cobs[cob].spec for cob in (APP01, APP02)]


def inputs(maker: Maker, variables: str, **options: str) -> Any:
    """Return the inputs of both hosts, of which the group has these variables."""
    site = maker.site({"site.yml": text(**options), "group_vars/app.yml": variables})
    return [spec.get("inputs") for spec in specs(site)]


@pytest.mark.parametrize(
    ("role", "variable"),
    [
        ("nginx", "nginx_port"),
        ("author.nginx", "nginx_port"),
        ("community.web.nginx", "nginx_port"),
        ("my-nginx", "my_nginx_port"),
    ],
)
def test_variables_with_the_name_of_a_role_count(maker: Maker, role: str, variable: str) -> None:
    variables = f"{variable}: 80\nnginx: 1\nnginxx_port: 2\nother_port: 3\n"
    assert inputs(maker, variables, role=role) == [{variable: 80}] * 2
    maker.write({f"roles/{role}/tasks/main.yml": "[]\n"})  # which makes a path of the name
    site = maker.site((maker.root / "site.yml").read_text(encoding="utf-8"))
    assert site.types["web"].transitions[0].action == Role(name=str(maker.root / "roles" / role))
    assert [spec["inputs"] for spec in specs(site)] == [{variable: 80}] * 2


def test_a_type_says_which_variables_count(maker: Maker) -> None:
    variables = "nginx_port: 80\nsite_user: www\nsite_group: web\n"
    assert (
        inputs(maker, variables, inputs="[site_*, '*_port']")
        == [{"nginx_port": 80, "site_group": "web", "site_user": "www"}] * 2
    )
    assert inputs(maker, variables, inputs="[]") == [None, None]
    assert inputs(maker, "other: 1\n") == [None, None]


def test_a_type_in_python_has_them_too(maker: Maker) -> None:
    both = {
        name: CobType(
            name=name,
            states=("down", "up"),
            preferred="up",
            remove="down",
            check=Nothing(),
            transitions=(Transition(source="down", dest="up", action=Role(name="nginx")),),
            inputs=globs,
        )
        for name, globs in (("usual", None), ("own", ("site_*",)))
    }
    cobs = "cobs: {a: {type: usual, on: db}, b: {type: own, on: db}}"
    files = {"site.yml": cobs, "group_vars/all.yml": "nginx_port: 80\nsite_user: www\n"}
    graph = maker.site(files, types=both).graph()
    assert [cob.spec for cob in graph.cobs.values()] == [
        {"inputs": {"nginx_port": 80}},
        {"inputs": {"site_user": "www"}},
    ]


def test_values_are_evaluated_and_what_only_ansible_can_evaluate_is_as_written(
    maker: Maker,
) -> None:
    variables = r"""
nginx_host: "{{ inventory_hostname }}.{{ domain }}"
domain: example.org
nginx_cores: "{{ ansible_processor_vcpus }}"
nginx_key: "{{ lookup('file', 'key') }}"
nginx_filtered: "{{ domain | community.general.dict }}"
nginx_broken: "{{ domain"
nginx_loop: "{{ nginx_loop }}"
nginx_of_other: "{{ nginx_cores }}"
nginx_hosts: [{name: "{{ domain }}", cores: "{{ ansible_processor_vcpus }}", "8": 8}]
nginx_plain: !unsafe "{{ domain }}"
nginx_token: !vault |
  $ANSIBLE_VAULT;1.1;AES256
  3632
nginx_url: "https://{{ nginx_token }}@{{ domain }}"
nginx_nothing: null
"""
    first, second = inputs(maker, variables)
    assert first.pop("nginx_token").keys() == {"__cobweb_secret"}
    assert first == {
        "nginx_broken": "{{ domain",
        "nginx_cores": "{{ ansible_processor_vcpus }}",
        "nginx_filtered": "{{ domain | community.general.dict }}",
        "nginx_host": "app01.example.org",
        "nginx_hosts": [{"name": "example.org", "cores": "{{ ansible_processor_vcpus }}", "8": 8}],
        "nginx_key": "{{ lookup('file', 'key') }}",
        "nginx_loop": "{{ nginx_loop }}",
        "nginx_nothing": None,
        "nginx_of_other": "{{ nginx_cores }}",
        "nginx_plain": "{{ domain }}",
        "nginx_url": "https://{{ nginx_token }}@{{ domain }}",
    }
    assert second["nginx_host"] == "app02.example.org"


def test_specs_that_are_the_same_on_several_hosts_are_one_value(maker: Maker) -> None:
    large = json.dumps({"words": ["word"] * 1000})
    files = {"site.yml": text(), "group_vars/app.yml": f"nginx_port: 80\nnginx_hosts: {large}\n"}
    one, other = specs(maker.site(files))
    assert one is other
    files["host_vars/app02.yml"] = "nginx_port: 81\n"
    one, other = specs(maker.site(files))
    assert (one["inputs"]["nginx_port"], other["inputs"]["nginx_port"]) == (80, 81)
    assert one["inputs"]["nginx_hosts"] is other["inputs"]["nginx_hosts"]


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-99, 99), st.text("ab1", max_size=2), st.just([1, "1"])
)
VARIABLES = st.dictionaries(st.sampled_from(["nginx_a", "nginx_b", "nginx_c"]), VALUES)


@pytest.fixture(scope="module")
def makers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.site.conftest import Maker as Made

    return lambda: Made(tmp_path_factory.mktemp("inputs"))


@given(st.data(), VARIABLES, VARIABLES)
def test_an_object_is_another_one_exactly_if_a_variable_is(
    makers: Any, data: st.DataObject, old: dict[str, Any], new: dict[str, Any]
) -> None:
    """Neither where a variable is written counts nor in which order, and `80` is not `"80"`."""

    def content(variables: dict[str, Any]) -> str:
        names = data.draw(st.permutations(sorted(variables)))
        places = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
        written: dict[str, dict[str, Any]] = {"group_vars/app.yml": {}, "host_vars/app01.yml": {}}
        for name, is_own in zip(names, places, strict=True):
            file = "host_vars/app01.yml" if is_own else "group_vars/app.yml"
            written[file][name] = variables[name]
        files = {file: json.dumps(values) for file, values in written.items()}
        site = makers().site({"site.yml": text(), **files})
        return content_of(site.graph().cobs[APP01])

    is_same = json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
    assert (content(old) == content(new)) is is_same


REFUSED = "COB `page`: `inputs` of a spec is what Cobweb makes of variables"
HINT = "(use another word, or write `inputs: []` in type `web`)"


def test_what_a_site_calls_inputs_is_never_overwritten(maker: Maker) -> None:
    open_type = text(spec="{inputs: [1]}").replace("additionalProperties: false, ", "")
    assert maker.findings(open_type) == [f"site.yml:15:50: {REFUSED} {HINT}"]
    named = text().replace("properties: {", "properties: {inputs: {default: 1}, ")
    assert maker.findings(named) == [f"site.yml:15:8: {REFUSED} {HINT}"]
    own = text(spec="{inputs: [1]}", inputs="[]").replace("additionalProperties: false, ", "")
    site = maker.site({"site.yml": own, "group_vars/app.yml": "nginx_port: 80\n"})
    assert specs(site) == [{"inputs": [1]}] * 2


def test_a_spec_that_does_not_fit_is_told_once(maker: Maker) -> None:
    files = {"site.yml": text(spec="{port: x}"), "group_vars/app.yml": "nginx_port: 80\n"}
    (message,) = maker.findings(files)
    assert "COB `page`: `port` must be a whole number, not text" in message
    assert "app01" not in message


def test_explain_says_where_a_variable_comes_from(maker: Maker) -> None:
    variables = 'nginx_name: "{{ name }}"\nname: web\n'
    for spec in ("{port: 80}", "null"):
        site = maker.site({"site.yml": text(spec=spec), "group_vars/app.yml": variables})
        found = site.explain("app01/page.spec.inputs.nginx_name")
        assert (found.value, found.template) == ("web", "{{ name }}")
        assert str(found.place) == "group_vars/app.yml:1:13"
        assert [it.name for it in found.variables] == ["name"]
        assert site.explain("app01/page.spec").value["inputs"] == {"nginx_name": "web"}


def test_what_cannot_be_evaluated_is_a_finding_of_explain(maker: Maker) -> None:
    site = maker.site({"site.yml": text(), "group_vars/app.yml": 'port: "{{ nobody }}"\n'})
    with pytest.raises(SiteError) as caught:
        site.explain("app01.port")
    (finding,) = caught.value.findings
    assert str(finding.place) == "group_vars/app.yml:1:7"
    assert "nobody" in finding.message


def test_old_specs_fit_whatever_variables_they_had(maker: Maker) -> None:
    files = {"site.yml": text(), "group_vars/app.yml": "nginx_port: 80\n"}
    cob = maker.site(files).graph().cobs[APP01]
    assert cob.spec["inputs"] == {"nginx_port": 80}
    assert list(unfit_specs([cob])) == []
    other = Cob(id=APP01, type=cob.type, spec={**cob.spec, "tropic": 1})
    assert len(list(unfit_specs(Graph(cobs={APP01: other}).cobs.values()))) == 1
