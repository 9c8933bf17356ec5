"""Virtual clusters in a site: what follows from what is decided, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from tests.plugins.metal.test_section import edit

WEB, BIG = "a" * 64, "b" * 64
SITE = f"""\
cobweb: 1
name: pool
metal:
  network: {{address: 127.72.5.1/16}}
  images:
    web: {{file: images/web.img, sha256: {WEB}}}
    big: {{file: images/big.img, sha256: {BIG}}}
  templates:
    shop: {{image: web, login: {{user: adm, key: keys/id}}}}
    data: {{image: big, ready: {{tcp: 5432}}}}
  machines:
    m01: {{mac: "52:54:00:00:00:01", power: {{kind: command, command: [x]}},
          properties: {{rack: a}}}}
    m02: {{mac: "52:54:00:00:00:02", power: {{kind: command, command: [x]}}}}
    m03: {{mac: "52:54:00:00:00:03", power: {{kind: command, command: [x]}}}}
    m04: {{mac: "52:54:00:00:00:04", power: {{kind: command, command: [x]}}}}
  vclusters:
    shop: {{template: shop, nodes: [{{count: 2, where: "cores >= 2"}}], subnet: 127.72.9.0/24,
           lease: {{until: 2026-12-01T08:00Z, notice: 1h}}}}
    my-data: {{nodes: [{{template: data, count: 1}}]}}
cobs:
  motd: {{type: file, on: vcluster_shop, requires: [node],
         spec: {{path: /etc/motd, content: "{{{{ vcluster.name }}}} {{{{ vcluster.number }}}}"}}}}
"""

Call = Callable[..., Any]


def request(template: str = "shop", **more: Any) -> dict[str, Any]:
    """Return a request for two nodes."""
    nodes = [{"template": template, "count": 2, "min": 1}]
    return {"nodes": nodes, "created": 4.5, "phase": "granted", "group": "ops", **more}


def member(vcluster: str, number: int, image: str = WEB, **more: Any) -> dict[str, Any]:
    """Return a decision about a machine that is a node."""
    body = {"vcluster": vcluster, "number": number, "part": 0, "image": image, "phase": "in"}
    return {**body, "address": f"127.72.9.{number}", "since": 5.0, **more}


def free(**more: Any) -> dict[str, Any]:
    """Return a decision about a machine that was let go."""
    return {"vcluster": None, "phase": "free", "since": 6.0, **more}


SHOP = {
    "request/shop": request(),
    "machine/m01": member("shop", 1),
    "machine/m03": member("shop", 2),
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Write a site with four machines; nothing is decided."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(SITE, encoding="utf-8")
    return folder


@pytest.fixture
def ask(run: Call, site: Path) -> Call:
    """Return what runs `cobweb` on the site."""
    return lambda *words: run("-C", site, *words)


@pytest.fixture
def decide(site: Path) -> Call:
    """Return what decides all at once, as commands do."""

    def call(writes: dict[str, Any]) -> None:
        with Site(site) as opened:
            revision = opened.decisions("metal").revision
            opened.decide("metal", revision, writes, "ann", "we sell")

    return call


@pytest.fixture
def hosts(ask: Call) -> Call:
    """Return what shows the hosts that some words choose, by name."""

    def call(*words: str) -> dict[str, Any]:
        ran = ask("show", *words, "-o", "json")
        assert ran.code == 0, ran.err
        return {it["name"]: it for it in json.loads(ran.out)["hosts"]}

    return call


def specs_of(host: dict[str, Any]) -> dict[str, Any]:
    return {it["name"]: it["spec"] for it in host["cobs"]}


def preferred(ask: Call) -> dict[str, str]:
    """Return which state each object is wanted in."""
    ran = ask("graph", "-o", "json")
    assert ran.code == 0, ran.err
    return {it["id"]: it["preferred"] for it in json.loads(ran.out)["cobs"]}


def planned(ask: Call, *words: str) -> list[list[str]]:
    """Return the steps of a plan, stage by stage."""
    ran = ask("plan", *words, "-o", "json")
    assert ran.code == 0, ran.err
    stages = json.loads(ran.out)["stages"]
    return [sorted(f"{it['cob']} {it['to']}" for it in stage) for stage in stages]


# What follows.


def test_a_node_is_a_host_with_its_objects(decide: Call, hosts: Call) -> None:
    decide(SHOP)
    found = hosts()
    assert found.keys() == {"boot-server", "m01", "m02", "m03", "m04", "shop-1", "shop-2"}
    shop = found["shop-1"]
    assert shop["groups"] == ["vcluster_shop", "vclusters"]
    tenant = "shop/4.500"
    place = {"machine": "m01", "name": "shop-1", "address": "127.72.9.1", "vcluster": tenant}
    assert specs_of(shop) == {
        "motd": {"path": "/etc/motd", "content": "shop 1"},
        "node": {
            "provider": {"name": "metal", "type": "metal"},
            "owner": tenant,
            "cluster": "shop",
            "number": 1,
            "image": {**place, "port": 22, "user": "adm", "key": "keys/id"},
        },
    }
    wanted = {"image": WEB, "name": "shop-1", "address": "127.72.9.1", "vcluster": tenant}
    assert specs_of(found["m01"]) == {"machine": {"wanted": wanted}}
    assert specs_of(found["m02"]) == {"machine": {"wanted": {}}}


def test_what_follows_says_which_decision_it_comes_from(decide: Call, ask: Call) -> None:
    decide(SHOP)
    for value, said in (
        ("m01.metal", '"name": "shop-1"'),
        ("shop-1.vcluster", '"rack": "a"'),
        ("shop-1.vcluster", '"group": "ops"'),
        ("shop-1.ansible_host", "127.72.9.1"),
        ("shop-1.ansible_user", "adm"),
        ("m01.ansible_host", "127.72.9.1"),
    ):
        ran = ask("explain", value)
        assert ran.code == 0, ran.err
        assert said in ran.out
        assert "from decision metal/machine/m01, revision 1, by ann: we sell" in ran.out


def test_a_node_needs_its_machine_which_stays_until_the_node_is_gone(
    decide: Call, ask: Call
) -> None:
    decide(SHOP)
    found = json.loads(ask("graph", "-o", "json").out)["needs"]
    of_node = {
        (it.get("in") or f"{it['from']} -> {it['to']}", it["on"], it["state"])
        for it in found
        if it["cob"] == "shop-1/node" and it["on"] != "shop-1/motd"
    }
    ways = ("absent -> created", "created -> confirmed", "confirmed -> bootstrapped")
    assert of_node == {(it, "m01/machine", "active") for it in (*ways, "bootstrapped")}
    gone = {
        (it["cob"], f"{it['from']} -> {it['to']}")
        for it in found
        if it["on"].endswith("/node") and it["state"] == "absent"
    }
    leaves = ("active -> off", "outdated -> off", "primed -> off", "trampoline -> off")
    machines = ("m01/machine", "m03/machine")
    assert gone == {(it, way) for it in machines for way in (*leaves, "outdated -> trampoline")}
    assert planned(ask)[-4:] == [
        [f"shop-{number}/{it}" for number in (1, 2)]
        for it in ("node created", "node confirmed", "node bootstrapped", "motd up")
    ]


def test_a_node_without_login_is_only_awaited(decide: Call, ask: Call, hosts: Call) -> None:
    decide({"request/my-data": request("data"), "machine/m02": member("my-data", 9, BIG)})
    wanted = preferred(ask)
    assert (wanted["my-data-9/node"], wanted["m02/machine"]) == ("confirmed", "active")
    found = hosts("my-data-9")["my-data-9"]
    assert found["groups"] == ["vcluster_my_data", "vclusters"]
    assert specs_of(found)["node"]["image"]["port"] == 5432
    decide(SHOP)
    assert preferred(ask)["shop-1/node"] == "bootstrapped"


def test_a_node_keeps_the_image_that_was_chosen(decide: Call, site: Path, hosts: Call) -> None:
    decide(SHOP)
    edit(site, "shop: {image: web", "shop: {image: big")
    assert specs_of(hosts("m01")["m01"])["machine"]["wanted"]["image"] == WEB


def test_a_domain_is_told_to_the_boot_server(decide: Call, site: Path, ask: Call) -> None:
    edit(site, "127.72.5.1/16", "127.72.5.1/16, interface: br0")
    decide({**SHOP, "request/shop": request(domain="shop.test")})
    ran = ask("show", "m01", "-o", "json")
    (host,) = json.loads(ran.out)["hosts"]
    assert specs_of(host)["machine"]["wanted"]["domain"] == "shop.test"
    known = f"{site}/.cobweb/metal/known_hosts"
    assert known in ask("explain", "shop-1.ansible_ssh_common_args").out


def test_the_groups_of_virtual_clusters_are_there_without_a_node(ask: Call, site: Path) -> None:
    assert ask("validate").code == 0
    for group in ("vclusters", "vclusters_leaving", "vcluster_my_data"):
        edit(
            site, "cobs:\n", f"cobs:\n  {group}: {{type: file, on: {group}, spec: {{path: /x}}}}\n"
        )
    assert ask("validate").code == 0
    edit(site, "on: vcluster_shop", "on: vcluster_ship")
    ran = ask("validate")
    assert ran.code == 3
    assert "no host or group is called `vcluster_ship` (did you mean `vcluster_shop`?)" in ran.err


def test_what_is_on_nodes_goes_when_they_are_to_be_left(
    decide: Call, ask: Call, hosts: Call
) -> None:
    decide(SHOP)
    assert ask("apply", "--executor", "simulate", "--yes").code == 0
    decide({"request/shop": request(phase="leaving", told=5.0)})
    assert hosts("shop-1")["shop-1"]["groups"] == ["vclusters", "vclusters_leaving"]
    assert planned(ask, "--max-removals", "0") == [["shop-1/motd down", "shop-2/motd down"]]


@pytest.mark.parametrize("left", [["shop-2"], []])
def test_what_a_decision_lets_go_is_no_mistake(decide: Call, ask: Call, left: list[str]) -> None:
    decide(SHOP)
    assert ask("apply", "--executor", "simulate", "--yes").code == 0
    decide({"machine/m03": free(left=left, until=9.0) if left else free()})
    ran = ask("plan", "--max-removals", "0")
    refused = "an apply of this is refused: 2 removals, of 11 known objects, are more than 0"
    assert (ran.code, refused in ran.out + ran.err) == ((0, False) if left else (1, True))
    stages = [["shop-2/motd down"], ["shop-2/node absent"], ["m03/machine off"]]
    assert planned(ask) == stages


RESERVES: dict[str, tuple[str, dict[str, Any], str]] = {
    "none": ("", {}, ""),
    "none, and one let go": ("", {"machine/m02": free()}, ""),
    "one is warm": ("{warm: 1}", {}, "m01"),
    "more than there are": ("{warm: 9}", {}, "m01 m02 m03 m04"),
    "those that are nodes are none": ("{warm: 1}", SHOP, "m02"),
    "one let go counts": ("{warm: 1}", {"machine/m03": free()}, "m03"),
    "two let go": ("{warm: 1}", {"machine/m03": free(), "machine/m04": free()}, "m03 m04"),
    "one let go and another": ("{warm: 2}", {"machine/m03": free()}, "m01 m03"),
    "only those let go": ("{cold_after: 5m}", {"machine/m03": free()}, "m03"),
}


@pytest.mark.parametrize("case", sorted(RESERVES))
def test_the_reserve_waits_on_the_trampoline(
    site: Path, ask: Call, decide: Call, case: str
) -> None:
    reserve, writes, warm = RESERVES[case]
    if reserve:
        edit(site, "  images:\n", f"  reserve: {reserve}\n  images:\n")
    decide(writes)
    wanted = {name.partition("/")[0]: it for name, it in preferred(ask).items() if "/mach" in name}
    assert " ".join(sorted(name for name, it in wanted.items() if it == "trampoline")) == warm
    active = {key.partition("/")[2] for key, it in writes.items() if it.get("vcluster")}
    assert {name for name, it in wanted.items() if it == "active"} == active


# What is wrong.

PINNED = "template: data, name: db1, address: 127.72.5.12, "
NOBODY = "is of `shop`, which nobody asks for"
NO_KEY = "is no key of what is decided there"
BAD: dict[str, tuple[tuple[str, str] | None, dict[str, Any], str, str]] = {
    "machine gone": (
        ("    m03:", "    m33:"),
        {},
        "machine/m03",
        "12:5: the machine `m03`, which is shop-2, is not there",
    ),
    "machine pinned": (
        ("m03: {", f"m03: {{{PINNED}"),
        {},
        "machine/m03",
        "15:21: `m03` has a template, and was chosen to be shop-2",
    ),
    "template gone": (
        None,
        {"request/shop": request("old")},
        "request/shop",
        "9:5: `shop` is of the template `old`",
    ),
    "request gone": (
        None,
        {"request/shop": None, "machine/m03": free()},
        "machine/m01",
        f"18:5: `m01` {NOBODY}",
    ),
    "part gone": (
        None,
        {"machine/m03": member("shop", 2, part=1)},
        "machine/m03",
        f"18:5: `m03` {NOBODY}",
    ),
    "no such key": (None, {"node/m02": free()}, "node/m02", f"18:5: `node/m02` {NO_KEY}"),
    "no name": (None, {"machine/": free()}, "machine/", f"18:5: `machine/` {NO_KEY}"),
    "request as a machine": (
        None,
        {"machine/m02": request()},
        "machine/m02",
        f"18:5: `machine/m02` {NO_KEY}",
    ),
    "machine as a request": (
        None,
        {"request/m02": free()},
        "request/m02",
        f"18:5: `request/m02` {NO_KEY}",
    ),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_decisions_that_cannot_hold_are_told_with_what_helps(
    site: Path, ask: Call, decide: Call, case: str
) -> None:
    change, writes, key, said = BAD[case]
    decide(SHOP)
    if change:
        edit(site, *change)
    if writes:
        decide(writes)
    ran = ask("plan")
    assert ran.code == 3
    why = f"decision metal/{key}, revision {2 if key in writes else 1}, by ann: we sell"
    hint = f"write it back, or: cobweb decide metal {key} null"
    if key == "request/shop":
        hint = "write it back, or: cobweb vcluster release shop"
    assert (ran.out + ran.err).splitlines() == [f"site.yml:{said} ({why}) ({hint})", "1 finding"]


def test_a_decision_of_a_wrong_shape_is_not_taken(ask: Call, decide: Call) -> None:
    decide(SHOP)
    for body, said in (
        ({"vcluster": "shop", "phase": "in", "since": 5}, "lacks `number`, `part`, `image`, `addr"),
        (member("shop", 3, "a"), "`image` cannot be `a`"),
        (member("shop", 0), "`number` must be at least 1"),
        (free(color="red"), "color"),
    ):
        ran = ask("decide", "metal", "machine/m02", json.dumps(body), "--reason", "x")
        assert ran.code == 64
        assert said in ran.err


NODES = 'nodes: [{count: 2, where: "cores >= 2"}]'
WRONG: dict[str, tuple[str, str, str]] = {
    "template": (
        "{template: shop, ",
        "{template: ship, ",
        "there is no template `ship` (known are",
    ),
    "template of a part": ("template: data, count", "template: date, count", "no template `date`"),
    "where": ("cores >= 2", "cores >> 2", "the filter `cores >> 2` has no condition at column 1"),
    "min": ("{count: 2,", "{count: 2, min: 3,", "2 nodes are not within min 3"),
    "max": ("{count: 2,", "{count: 2, max: 1,", "2 nodes are not within min 2, max 1"),
    "max of none": ("{count: 2,", "{count: 2, min: 0, max: 0,", "not within min 0, max 0"),
    "no nodes": (NODES, "nodes: []", "nodes"),
    "subnet elsewhere": ("127.72.9.0/24", "127.73.9.0/24", "is not within 127.72.0.0/16, the boot"),
    "subnet too large": ("127.72.9.0/24", "127.0.0.0/8", "is not within 127.72.0.0/16"),
    "address as a subnet": ("127.72.9.0/24", "127.72.9.1/24", "`127.72.9.1/24` is no network"),
    "until": ("2026-12-01T08:00Z", "tomorrow", "`tomorrow` is no time as in `2026-12-01T08:00Z`"),
    "notice": ("notice: 1h", "notice: soon", "`soon` is no duration"),
    "no until": ("until: 2026-12-01T08:00Z, ", "", "until"),
    "domain": ("{template: shop,", "{domain: a.test, template: shop,", "give `network` an `interf"),
    "name": ("my-data:", "My_data:", "`vclusters` cannot be `My_data`"),
    "reserve": ("  images:\n", "  reserve: {warm: -1}\n  images:\n", "warm"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_what_is_wrong_with_what_is_written_is_told_where_it_stands(
    site: Path, ask: Call, case: str
) -> None:
    old, new, said = WRONG[case]
    edit(site, old, new)
    ran = ask("validate")
    assert ran.code == 3
    told = " ".join((ran.out + ran.err).split())
    assert said in told
    assert told.startswith("site.yml:")
    assert told.endswith("1 finding")
