"""Coopr's macros, in texts and as functions of templates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import CobwebError, ModelError
from cobweb.model import fill_in, late_result
from cobweb_plugins.cluster._macros import ClusterView, escaped, expand_macros, functions

VIEW = ClusterView(
    name="web1",
    owner="ann",
    nodes={1: "web1-1", 2: "web1-2", 4: "web1-4", 10: "web1-10"},
    services={"zookeeper-server": (10, 2, 4), "apache-httpd": (1,), "a.b": (1, 2)},
)


def _ip(number: int, kind: str = "address") -> str:
    return late_result(f"web1-{number}", kind)


CASES = {
    "hosts": ("%host.service.zookeeper-server%", "web1-2,web1-4,web1-10"),
    "one host": ("%host.service.zookeeper-server[2]%", "web1-10"),
    "dots in a name": ("%host.service.a.b%", "web1-1,web1-2"),
    "addresses": ("%ip.service.zookeeper-server%", f"{_ip(2)},{_ip(4)},{_ip(10)}"),
    "one address": ("%ip.service.zookeeper-server[0]%", _ip(2)),
    "addresses of a kind": ("%ip.bind_v4.service.apache-httpd%", _ip(1, "bind_v4")),
    "one of a kind": ("%ip.access_v4.service.zookeeper-server[1]%", _ip(4, "access_v4")),
    "number": ("%num.service.zookeeper-server%", "3"),
    "own host": ("%host.self%", "web1-4"),
    "own host by service": ("%host.self.service.zookeeper-server%", "web1-4"),
    "own address": ("%ip.self%", _ip(4)),
    "own address of a kind": ("%ip.bind_v4.self%", _ip(4, "bind_v4")),
    "instance": ("%instance.self.service.zookeeper-server%", "2"),
    "owner": ("%cluster.owner%", "ann"),
    "join": ("%join(host.service.zookeeper-server,' ')%", "web1-2 web1-4 web1-10"),
    "map": ("%map(host.service.a.b,'$:80')%", "web1-1:80,web1-2:80"),
    "join of map": (
        "%join(map(host.service.zookeeper-server,'$:2181'), ';')%/ns",
        "web1-2:2181;web1-4:2181;web1-10:2181/ns",
    ),
    "map of addresses": ('%map(ip.service.apache-httpd,"http://$/")%', f"http://{_ip(1)}/"),
    "dollar": ("%map(host.service.apache-httpd,'$$1=$')%", "$1=web1-1"),
    "percent in a literal": ("%join(host.service.a.b,'%%')%", "web1-1%web1-2"),
    "two in a text": ("%num.service.a.b% of %host.self%", "2 of web1-4"),
    "percent signs before": ("50% of %host.self%", "50% of web1-4"),
    "escaped": ("%%host.self%%", "%host.self%"),
    "escaped before": ("100%%%host.self%", "100%web1-4"),
    "unknown service": ("%host.service.hbase%", "%host.service.hbase%"),
    "unknown in a join": ("%join(host.service.hbase,' ')%", "%join(host.service.hbase,' ')%"),
    "not an instance": ("%instance.self.service.apache-httpd%",) * 2,
    "no macro": ("%h %l %u %{cobweb} 5%", "%h %l %u %{cobweb} 5%"),
    "not closed": ("%host.self", "%host.self"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_macro_stands_for(case: str) -> None:
    text, wanted = CASES[case]
    assert expand_macros(text, VIEW, 4) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "%host.domain.com%",
        "%num.service.a.b[0]%",
        "%instance.self%",
        "%join(host.service.a.b)%",
        "%join(join(host.service.a.b,','),',')%",
        "%map(map(host.service.a.b,'$'),'$')%",
        "%map(host.service.a.b,$)%",
        "%host.service.a.b[x]%",
        "%cluster.name%",
    ],
)
def test_what_looks_like_a_macro_and_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ModelError, match="is no macro") as caught:
        expand_macros({"config": [text]}, VIEW, 1)
    ((path, _, hint),) = caught.value.problems
    assert path == ("clusters", "web1")
    assert "`%%`" in hint


def test_a_node_too_many_is_an_error() -> None:
    with pytest.raises(ModelError, match="asks for a node that is not there"):
        expand_macros("%host.service.a.b[2]%", VIEW, 1)


def test_without_a_node_only_what_all_nodes_share_is_expanded() -> None:
    value = {"all": "%host.service.a.b%", "own": "%ip.self%"}
    assert expand_macros(value, VIEW) == {"all": "web1-1,web1-2", "own": "%ip.self%"}


def test_texts_are_expanded_wherever_they_are_and_keys_are_not() -> None:
    value = {"%host.self%": ["%host.self%", 5, None, True, {"deep": ("%num.service.a.b%",)}]}
    wanted = {"%host.self%": ["web1-4", 5, None, True, {"deep": ["2"]}]}
    assert expand_macros(value, VIEW, 4) == wanted


def test_an_address_comes_with_the_result_of_its_node() -> None:
    text = expand_macros("bind %join(map(ip.service.a.b,'$:80'),' ')%", VIEW, 1)
    results = {f"web1-{number}": {"address": f"10.0.0.{number}"} for number in (1, 2)}
    assert fill_in(text, results) == ("bind 10.0.0.1:80 10.0.0.2:80", ())
    assert fill_in(text, {})[1] == (("web1-1", "address"), ("web1-2", "address"))


texts = st.text(st.sampled_from("%$.,'()[]0ab") | st.characters(), max_size=40)
pieces = st.lists(
    st.sampled_from([*(text for text, _ in CASES.values()), "%", "%%", "host.self", "$"])
    | texts.filter(lambda text: "%" not in text),
    max_size=6,
).map("".join)


@given(pieces | texts)
def test_an_escaped_text_expands_to_itself(text: str) -> None:
    assert expand_macros(escaped(text), VIEW, 4) == text


@given(texts.filter(lambda text: "%" not in text))
def test_a_text_without_percent_signs_stays_as_it_is(text: str) -> None:
    assert expand_macros(text, VIEW, 4) == text


@given(texts.filter(lambda text: "'" not in text))
def test_a_delimiter_and_a_format_can_be_any_text_without_quotes(text: str) -> None:
    said = escaped(text)
    assert expand_macros(f"%join(host.service.a.b,'{said}')%", VIEW, 4) == f"web1-1{text}web1-2"
    form = said.replace("$", "$$")
    assert expand_macros(f"%map(host.service.apache-httpd,'{form}$')%", VIEW, 4) == f"{text}web1-1"


names = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)


@given(st.dictionaries(names, st.sets(st.integers(1, 40), min_size=1), min_size=1, max_size=4))
def test_macros_and_functions_say_the_same(services: dict[str, set[int]]) -> None:
    numbers = sorted({number for having in services.values() for number in having})
    view = ClusterView(
        name="c",
        nodes={number: f"c-{number}" for number in numbers},
        services={name: tuple(having) for name, having in services.items()},
    )
    made = functions({f"c-{number}": (view, number) for number in numbers})
    for name, having in services.items():
        for number in sorted(having):
            host = f"c-{number}"
            said = {
                f"%host.service.{name}%": ",".join(made["host_service"](host, name)),
                f"%ip.service.{name}%": ",".join(made["ip_service"](host, name)),
                f"%ip.x.service.{name}%": ",".join(made["ip_service"](host, name, "x")),
                f"%num.service.{name}%": str(made["num_service"](host, name)),
                f"%instance.self.service.{name}%": str(made["instance_self"](host, name)),
                "%host.self%": made["host_self"](host),
                "%ip.self%": made["ip_self"](host),
                "%cluster.owner%": made["cluster_owner"](host),
            }
            for macro, value in said.items():
                assert expand_macros(macro, view, number) == value
            place = made["instance_self"](host, name) - 1
            assert expand_macros(f"%host.service.{name}[{place}]%", view, number) == host


HOMES: dict[str, Any] = {"web1": (VIEW, None), "web1-1": (VIEW, 1)}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("host_self", ["elsewhere"], "elsewhere is none"),
        ("ip_self", ["web1"], "itself has no address"),
        ("instance_self", ["web1", "a.b"], "web1 is no instance of a.b"),
        ("instance_self", ["web1-1", "hbase"], "web1-1 is no instance of hbase"),
    ],
)
def test_a_function_without_an_answer_says_so(
    name: str, arguments: list[str], message: str
) -> None:
    with pytest.raises(CobwebError, match=message):
        functions(HOMES)[name](*arguments)


def test_functions_know_the_cluster_s_own_host() -> None:
    made = functions(HOMES)
    assert made["host_self"]("web1") == "web1"
    assert made["host_service"]("web1", "nothing") == []
    assert made["num_service"]("web1", "nothing") == 0
