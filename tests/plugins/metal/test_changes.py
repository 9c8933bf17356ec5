"""What is decided: nodes that come, go and are replaced; leases; decisions as they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import Decision
from cobweb.plugin import data_dir
from cobweb_plugins.metal._network import network_of
from cobweb_plugins.metal.vclusters._changes import (
    Ground,
    Writes,
    counted,
    fitted,
    let_go,
    replaced,
)
from cobweb_plugins.metal.vclusters._choice import Machine, Stock, UnmetError
from cobweb_plugins.metal.vclusters._grants import (
    LEAVING,
    Grants,
    Lease,
    Member,
    Part,
    Request,
    freed_body,
    grants_of,
    member_body,
    request_body,
)
from cobweb_plugins.metal.vclusters._round import cold, due, late, mended

NOW = 1000.0
IMAGES = {"web": "a" * 64, "db": "b" * 64}
SHOP = Request(
    name="shop",
    parts=(Part(template="web", count=0, min=0), Part(template="db", count=0, min=0)),
    created=1.0,
    subnet="10.0.1.0/24",
    priority=1,
)
SCHEMA = data_dir("schemas") / "sections" / "metal.decision.schema.json"
BODY = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


class Site:
    """Machines, the network, and what is decided of them: writes are carried out at once."""

    def __init__(self, machines: int, *, pinned: tuple[str, ...] = (), **network: Any) -> None:
        self.bodies: dict[str, Any] = {}
        self.failed: dict[str, str] = {}
        self.now = NOW
        self._names = [f"m{number:02}" for number in range(1, machines + 1)]
        self._pinned = pinned
        found, problems = network_of({"address": "10.0.0.1/16", **network})
        assert found is not None
        assert not problems
        self._network = found

    @property
    def grants(self) -> Grants:
        return grants_of(decisions(self.bodies))

    @property
    def ground(self) -> Ground:
        machines = [
            Machine(name=it, properties={"cores": number}, unfit=self.failed.get(it, ""))
            for number, it in enumerate(self._names)
        ]
        stock = Stock(
            machines=machines,
            grants=self.grants,
            accepts=lambda text, properties: text == properties.get("kind"),
            now=self.now,
            immunity_s=0.0,
        )
        return Ground(
            stock=stock, network=self._network, pinned=self._pinned, names=(), images=IMAGES
        )

    def write(self, writes: Writes) -> Writes:
        """Decide, as the store does; each body is one that the section takes."""
        for key, body in writes.items():
            if body is None:
                del self.bodies[key]
            else:
                BODY.validate(body)
                self.bodies[key] = json.loads(json.dumps(body))
        return writes

    def fit(self, *counts: int, request: Request = SHOP, grace_s: float = 60.0) -> Writes:
        """Have a virtual cluster of so many nodes."""
        for part, count in enumerate(counts):
            request = counted(request, part, count)
        return self.write(fitted(request, self.ground, grace_s))

    def nodes(self, name: str = "shop") -> dict[str, tuple[str, str]]:
        """Return machine and address of each node."""
        return {it.host: (it.machine, it.address) for it in self.grants.of(name)}


def decisions(bodies: Mapping[str, Any]) -> dict[str, Decision]:
    words: dict[str, Any] = {
        "section": "metal",
        "revision": 1,
        "author": "ann",
        "reason": "x",
        "time": 1.0,
    }
    return {key: Decision(key=key, body=body, **words) for key, body in bodies.items()}


# Nodes come and go.


def test_the_lowest_free_numbers_come_and_the_highest_go() -> None:
    site = Site(9)
    site.fit(3, 1)
    assert sorted(site.nodes()) == ["shop-1", "shop-2", "shop-3", "shop-4"]
    assert [it.part for it in site.grants.of("shop")] == [0, 0, 0, 1]
    site.fit(1, 1)
    assert sorted(site.nodes()) == ["shop-1", "shop-4"]
    site.fit(3, 2)
    assert sorted(site.nodes()) == ["shop-1", "shop-2", "shop-3", "shop-4", "shop-5"]
    assert [it.part for it in site.grants.of("shop")] == [0, 0, 0, 1, 1]
    site.fit(3, 0)
    assert sorted(site.nodes()) == ["shop-1", "shop-2", "shop-3"]


def test_nodes_of_a_kind_that_is_gone_go() -> None:
    site = Site(3)
    site.fit(2, 1)
    request = site.grants.requests["shop"]
    site.write(fitted(replace(request, parts=request.parts[:1]), site.ground, 60.0))
    assert sorted(site.nodes()) == ["shop-1", "shop-2"]
    assert site.grants.left["m03"] == ("shop-3",)


def test_a_node_has_the_image_of_its_template_and_its_time() -> None:
    site = Site(2)
    site.fit(1, 1)
    found = [(it.image, it.since) for it in site.grants.of("shop")]
    assert found == [(IMAGES["web"], NOW), (IMAGES["db"], NOW)]


def test_machines_that_go_know_what_they_were_and_are_given_their_time() -> None:
    site = Site(2)
    site.fit(1)
    site.bodies["machine/m01"] |= {"left": ["old-7"], "until": 3.0}
    writes = site.fit(0)
    free = {"vcluster": None, "phase": "free", "since": NOW}
    assert writes["machine/m01"] == {**free, "left": ["old-7", "shop-1"], "until": NOW + 60}
    other = site.fit(1, request=replace(SHOP, name="other", subnet=""))
    assert other["machine/m01"]["left"] == ["old-7", "shop-1"]


def test_who_loses_a_machine_to_another_is_left_on_it() -> None:
    site = Site(2)
    site.fit(2, request=replace(SHOP, name="low", subnet="", priority=0))
    low = site.grants.requests["low"]
    site.write(fitted(replace(low, parts=(replace(low.parts[0], min=1),)), site.ground, 0.0))
    site.fit(1)
    assert len(site.nodes("low")) == 1
    (machine, _) = site.nodes()["shop-1"]
    assert site.grants.left[machine] in {("low-1",), ("low-2",)}
    assert site.grants.cut[machine] == NOW + 60
    with pytest.raises(UnmetError, match="low, which has no more than it must have"):
        site.fit(2)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["shop", "web", "low"]), st.integers(0, 4), st.integers(0, 3)),
    max_size=6,
)


@given(CHANGES)
def test_what_is_as_asked_is_changed_no_more_and_nothing_is_given_twice(
    changes: list[tuple[str, int, int]],
) -> None:
    never = {"10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.6", "10.0.1.2"}
    lent = {"interface": "br0", "range": ["10.0.0.3", "10.0.0.4"], "router": "10.0.0.6"}
    site = Site(8, pinned=("10.0.1.2",), **lent)
    for name, *counts in changes:
        subnet, priority = {"shop": ("10.0.1.0/24", 1), "web": ("10.0.2.0/30", 0)}.get(
            name, ("", 0)
        )
        request = replace(SHOP, name=name, subnet=subnet, priority=priority)
        before = dict(site.bodies)
        try:
            site.fit(*counts, request=request)
        except UnmetError:
            assert site.bodies == before
            continue
        members = site.grants.of(name)
        assert [sum(it.part == part for it in members) for part in (0, 1)] == counts
        asked = site.grants.requests[name]
        assert fitted(asked, site.ground, 60.0) == {asked.key: site.bodies[asked.key]}
        every = list(site.grants.members.values())
        for key in ("host", "address"):
            values = [getattr(it, key) for it in every]
            assert len(set(values)) == len(values)
        for it in members:
            assert IPv4Address(it.address) in IPv4Network(subnet or "10.0.0.0/16")
            assert it.address not in never


def test_who_asks_for_fewer_nodes_must_have_no_more_of_them() -> None:
    request = replace(SHOP, parts=(Part(template="web", count=5, min=3), SHOP.parts[1]))
    found = [counted(request, 0, count).parts[0] for count in (1, 9)]
    assert [(it.count, it.min) for it in found] == [(1, 1), (9, 3)]


# Addresses.

PLACES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "number is place": ({}, "10.0.1.0/24", ["10.0.1.1", "10.0.1.2"]),
    "in all of the network": ({}, "", ["10.0.0.2", "10.0.0.3"]),
    "pinned": ({"pinned": ("10.0.1.1",)}, "10.0.1.0/24", ["10.0.1.2", "10.0.1.3"]),
    "router": (
        {"interface": "br0", "router": "10.0.1.1"},
        "10.0.1.0/24",
        ["10.0.1.2", "10.0.1.3"],
    ),
    "range": (
        {"interface": "br0", "range": ["10.0.1.1", "10.0.1.9"]},
        "10.0.1.0/24",
        ["10.0.1.10", "10.0.1.11"],
    ),
    "nobody boots by that range": (
        {"range": ["10.0.1.1", "10.0.1.9"]},
        "10.0.1.0/24",
        ["10.0.1.1", "10.0.1.2"],
    ),
    "two of two": ({}, "10.0.1.4/30", ["10.0.1.5", "10.0.1.6"]),
}


@pytest.mark.parametrize("case", sorted(PLACES))
def test_the_address_is_at_the_place_of_the_number_where_that_is_free(case: str) -> None:
    network, subnet, expected = PLACES[case]
    site = Site(2, **network)
    site.fit(2, request=replace(SHOP, subnet=subnet))
    assert [it[1] for it in site.nodes().values()] == expected


def test_a_number_comes_back_to_its_place() -> None:
    site = Site(3)
    for count in (3, 1, 3):
        site.fit(count)
    assert [it[1] for it in site.nodes().values()] == ["10.0.1.1", "10.0.1.2", "10.0.1.3"]


def test_a_small_subnet_is_too_small() -> None:
    site = Site(9)
    with pytest.raises(UnmetError, match=r"10\.0\.1\.4/30 has no address left for node 4") as error:
        site.fit(4, request=replace(SHOP, subnet="10.0.1.4/30"))
    assert "larger `subnet`" in error.value.hint
    assert not site.bodies


@pytest.mark.parametrize("subnet", ["10.0.1.0/24", "10.0.1.64/26", "10.0.0.0/23"])
def test_two_virtual_clusters_share_no_subnet(subnet: str) -> None:
    site = Site(4)
    site.fit(1)
    message = rf"the subnet {subnet} overlaps that of shop, 10\.0\.1\.0/24"
    with pytest.raises(UnmetError, match=message):
        site.fit(1, request=replace(SHOP, name="other", subnet=subnet))
    site.fit(1, request=replace(SHOP, name="other", subnet="10.0.2.0/24"))
    site.fit(2)


# Replaced.


def test_another_machine_gets_the_number_and_the_address() -> None:
    site = Site(3)
    site.fit(2)
    site.bodies["machine/m01"] |= {"left": ["old-7"], "until": 3.0}
    site.failed["m01"] = "has failed: x"
    site.now = 2000.0
    member = site.grants.of("shop")[0]
    request = site.grants.requests["shop"]
    site.write(replaced(request, member, site.ground, 5.0))
    assert site.nodes()["shop-1"] == ("m03", member.address)
    assert site.grants.of("shop")[0] == replace(member, machine="m03", since=2000.0)
    assert site.grants.failed == {"m01": IMAGES["web"]}
    assert site.grants.freed == {}
    assert site.grants.left["m01"] == ("old-7",), "what is on that one is not gone"
    site.failed["m02"] = "has failed: x"
    with pytest.raises(
        UnmetError, match=r"m01: was put aside.*; m02: has failed: x; m03: is shop-1"
    ):
        replaced(request, site.grants.of("shop")[1], site.ground, 5.0)


def test_no_node_is_called_as_a_machine_or_what_is_pinned() -> None:
    site = Site(2)
    ground = replace(site.ground, names=["m01", "shop-12", "shop-1x"])
    with pytest.raises(UnmetError, match="would be called as the machine shop-12"):
        fitted(counted(SHOP, 0, 1), ground, 0.0)


def test_without_a_subnet_there_are_no_addresses_of_the_subnets_of_others() -> None:
    site = Site(3)
    site.fit(1, request=replace(SHOP, subnet="10.0.0.0/24"))
    site.fit(2, request=replace(SHOP, name="other", subnet=""))
    assert [it for _, it in site.nodes("other").values()] == ["10.0.1.0", "10.0.1.1"]


def test_one_that_may_still_run_keeps_its_name_and_address_from_all_others() -> None:
    site = Site(3)
    site.fit(2)
    request, member = site.grants.requests["shop"], site.grants.of("shop")[0]
    machines = [replace(it, may_run=it.name == "m01") for it in site.ground.stock.machines]
    ground = replace(site.ground, stock=replace(site.ground.stock, machines=machines))
    site.write(replaced(request, member, ground, 5.0))
    assert sorted(site.nodes()) == ["shop-2", "shop-3"]
    assert site.nodes()["shop-3"] == ("m03", "10.0.1.3")
    assert site.grants.failed == {"m01": IMAGES["web"]}
    assert site.grants.left["m01"] == ("shop-1",)


# Rounds.

LEASE = Lease(until=2000.0, notice_s=100.0, grace_s=50.0)
LEASES: dict[str, tuple[float, float, str]] = {
    "long before": (1800.0, 0.0, ""),
    "just before the notice": (1899.9, 0.0, ""),
    "the notice": (1900.0, 0.0, "told"),
    "told already": (1950.0, 1900.0, ""),
    "just before the end": (1999.9, 1900.0, ""),
    "the end": (2000.0, 1900.0, "ends"),
    "ended unseen": (9000.0, 0.0, "told"),
    "its notice anew": (9099.0, 9000.0, ""),
    "and then its end": (9100.0, 9000.0, "ends"),
    "told late": (2000.0, 1950.0, ""),
    "told late, at its end": (2050.0, 1950.0, "ends"),
}


@pytest.mark.parametrize("case", sorted(LEASES))
def test_leases_are_told_first_and_end_then(case: str) -> None:
    now, told, expected = LEASES[case]
    site = Site(2)
    phase = LEAVING if told else "granted"
    site.fit(2, request=replace(SHOP, lease=LEASE, told=told, phase=phase))
    site.fit(0, request=replace(SHOP, name="endless", subnet=""))
    site.now = now
    writes, said = due("shop", site.ground)
    assert due("endless", site.ground) == due("gone", site.ground) == ({}, [])
    if not expected:
        assert (writes, said) == ({}, [])
        return
    site.write(writes)
    if expected == "told":
        assert said == ["shop: its lease ends, its nodes are to be left"]
        assert list(writes) == ["request/shop"]
        request = site.grants.requests["shop"]
        assert (request.phase, request.told) == (LEAVING, now)
        assert due("shop", site.ground) == ({}, [])
        assert request.ends >= now + LEASE.notice_s
    else:
        assert said == ["shop: its lease has ended, its nodes go"]
        assert sorted(writes) == ["machine/m01", "machine/m02", "request/shop"]
        assert site.grants.requests.keys() == {"endless"}
        assert site.grants.left == {"m01": ("shop-1",), "m02": ("shop-2",)}
        assert late(site.grants, now + 49.9) == {}
        left = {machine: list(hosts) for machine, hosts in site.grants.left.items()}
        assert late(site.grants, now + 50) == left
        site.fit(1, request=replace(SHOP, name="shop", subnet=""))
        assert late(site.grants, now + 50) == {"m02": ["shop-2"]}, "shop-1 is there anew"


def test_idle_machines_go_off_once_nothing_is_left_on_them() -> None:
    site = Site(3)
    site.fit(1)
    site.bodies["machine/m02"] = freed_body(NOW, (), NOW)
    site.bodies["machine/m03"] = freed_body(NOW, ["old-1"], NOW)
    assert cold(site.grants, NOW + 59.9, 60.0) == {}
    assert cold(site.grants, NOW + 60, 60.0) == {"machine/m02": None}


class Case:
    """Which machines fail of shop, with web-1, web-2 and db-3; what is told, who gets which."""

    def __init__(self, failed: str, said: str, nodes: str, machines: int = 5) -> None:
        self.failed, self.said, self.nodes, self.machines = failed, said, nodes, machines


MENDED = {
    "all is well": Case("", "", "m01 m02 m03"),
    "one fails": Case("m02", "shop-2: m02 has failed; it gets another machine", "m01 m04 m03"),
    "two of one image": Case(
        "m01 m02",
        "shop-1: has failed; its image has failed elsewhere, too: not replaced\n"
        "shop-2: has failed; its image has failed elsewhere, too: not replaced",
        "m01 m02 m03",
    ),
    "two of two images": Case(
        "m01 m03", "shop-1: m01 has failed; it gets another machine", "m04 m02 m03"
    ),
    "two of one and one of another": Case(
        "m01 m02 m03",
        "shop-1: has failed; its image has failed elsewhere, too: not replaced\n"
        "shop-2: has failed; its image has failed elsewhere, too: not replaced\n"
        "shop-3: m03 has failed; it gets another machine",
        "m01 m02 m04",
    ),
    "none is left": Case(
        "m02",
        "shop-2: has failed; shop cannot have 1 more node (1 of web): "
        "none can be had; m01: is shop-1; m02: has failed; m03: is shop-3",
        "m01 m02 m03",
        3,
    ),
}


@pytest.mark.parametrize("case", sorted(MENDED))
def test_what_has_failed_is_replaced_unless_its_image_is_to_blame(case: str) -> None:
    it = MENDED[case]
    site = Site(it.machines)
    site.fit(2, 1)
    site.failed = dict.fromkeys(it.failed.split(), "has failed")
    writes, said = mended(site.grants.requests["shop"], site.ground, 5.0)
    assert "\n".join(said) == it.said
    site.write(writes)
    assert [machine for machine, _ in site.nodes().values()] == it.nodes.split()


def test_a_virtual_cluster_that_is_short_gets_a_node_at_a_time() -> None:
    site = Site(3)
    site.fit(1, 1)
    request = counted(site.grants.requests["shop"], 0, 3)
    site.bodies[request.key] = request_body(request)
    writes, said = mended(request, site.ground, 5.0)
    assert said == ["shop: it is short of nodes, and gets one"]
    assert list(writes) == ["machine/m03"]
    site.write(writes)
    assert [it.number for it in site.grants.of("shop")] == [1, 2, 3]
    writes, said = mended(request, site.ground, 5.0)
    assert writes == {}
    assert said == [
        (
            "shop cannot have 1 more node (1 of web): none can be had; "
            "m01: is shop-1; m02: is shop-2; m03: is shop-3"
        )
    ]
    assert mended(replace(request, phase=LEAVING), site.ground, 5.0) == ({}, [])


def test_a_kind_that_cannot_be_had_keeps_no_other_waiting() -> None:
    site = Site(1)
    never = replace(SHOP.parts[0], count=1, where="none")
    request = replace(SHOP, parts=(never, replace(SHOP.parts[1], count=1)))
    writes, said = mended(request, site.ground, 5.0)
    assert list(writes) == ["machine/m01"]
    assert writes["machine/m01"]["part"] == 1
    assert said == [
        "shop cannot have 1 more node (1 of web, where none): none can be had; m01: not none",
        "shop: it is short of nodes, and gets one",
    ]


# As they are written.

NAMES = st.sampled_from(["shop", "web-2"])
TIMES = st.floats(0, 4e9)
PARTS = st.builds(
    Part,
    template=NAMES,
    count=st.integers(0, 9),
    min=st.integers(0, 9),
    max=st.none() | st.integers(0, 9),
    where=st.sampled_from(["", "cores >= 4"]),
)
REQUESTS = st.builds(
    Request,
    name=NAMES,
    parts=st.lists(PARTS, min_size=1, max_size=3).map(tuple),
    created=TIMES,
    group=st.sampled_from(["", "ops"]),
    subnet=st.sampled_from(["", "10.0.1.0/24"]),
    domain=st.sampled_from(["", "cod.test"]),
    priority=st.integers(-1000, 1000),
    lease=st.none() | st.builds(Lease, until=TIMES, notice_s=TIMES, grace_s=TIMES),
    phase=st.sampled_from(["granted", LEAVING]),
    told=TIMES,
)
MEMBERS = st.builds(
    Member,
    machine=st.sampled_from(["m01", "m02"]),
    vcluster=NAMES,
    number=st.integers(1, 9),
    part=st.integers(0, 9),
    image=st.sampled_from(sorted(IMAGES.values())),
    address=st.ip_addresses(v=4).map(str),
    since=TIMES,
)
LEFT = st.lists(st.sampled_from(["shop-1", "shop-2", "web-2-1"]), max_size=4)


@given(REQUESTS, MEMBERS, LEFT, TIMES)
def test_what_is_written_is_read_as_it_was(
    request: Request, member: Member, left: list[str], cut: float
) -> None:
    bodies = {
        request.key: request_body(request),
        f"machine/{member.machine}": member_body(member, left, cut),
        "machine/m03": freed_body(cut, left, cut),
    }
    for body in bodies.values():
        BODY.validate(body)
    found = grants_of(decisions(json.loads(json.dumps(bodies))))
    assert found.requests == {request.name: request}
    assert found.members == {member.machine: member}
    assert found.freed == {"m03": cut}
    for machine in (member.machine, "m03"):
        assert found.left[machine] == tuple(sorted(set(left)))
        assert found.cut[machine] == (cut if left else 0.0)


def test_what_is_let_go_is_the_machines_alone() -> None:
    site = Site(3)
    site.fit(3)
    members = site.grants.of("shop")
    writes = let_go(members[1:], site.ground, 5.0)
    assert writes == {
        f"machine/{it.machine}": freed_body(NOW, [it.host], NOW + 5.0) for it in members[1:]
    }
