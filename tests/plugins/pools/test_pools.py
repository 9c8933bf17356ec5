"""The section `pools`: what it stands for, and what of it cannot be so."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import ModelError
from cobweb_plugins.pools.decision import (
    AdapterFacts,
    Budget,
    Filter,
    Pools,
    Resource,
    Service,
    Slo,
    SloKind,
    Window,
    expanded,
    pools_of,
)

HOST, LICENCE = frozenset({"host"}), frozenset({"licence"})
ADAPTERS = {
    "gridengine": AdapterFacts(holds=HOST),
    "counter": AdapterFacts(holds=LICENCE),
    "spare": AdapterFacts(holds=HOST | LICENCE, direct=True),
}
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

SECTION: dict[str, Any] = {
    "resources": {
        "n[09:11]": {"type": "host", "properties": {"cores": 8, "arch": "amd64"}},
        "n11": {"static": True, "properties": {"cores": 16}},
        "m1": None,
        "matlab[1:2]": {"type": "licence", "properties": {"product": "matlab"}},
    },
    "services": {
        "batch": {
            "adapter": "gridengine",
            "priority": 2,
            "share": 40,
            "min": 1,
            "max": 3,
            "slos": [
                {
                    "name": "queue",
                    "kind": "pending",
                    "kpi": "waiting",
                    "above": 10,
                    "per": "arch",
                    "for": "90s",
                    "need": {
                        "filter": "cores >= 8",
                        "quantity": 2,
                        "urgency": 50,
                        "atomic": True,
                    },
                    "windows": [
                        {
                            "days": ["mon", "fri"],
                            "from": "22:00",
                            "to": "06:30",
                            "zone": "Europe/Berlin",
                        }
                    ],
                },
                {"kind": "minimum", "quantity": 2, "urgency": 40, "filter": "arch == amd64"},
                {"kind": "utilisation", "band": [0.3, 0.8], "urgency": 5, "windows": [{}]},
            ],
        },
        "tokens": {"adapter": "counter", "registered": False},
        "spare": {"adapter": "spare", "slos": [{"kind": "permanent", "urgency": 1}]},
    },
    "policy": "share",
    "gain": 3,
    "immunity": "20m",
    "grow_after": 0,
    "shrink_after": "1h30m",
    "order_after": "5m",
    "leave_within": "2h",
    "stale_after": 90,
    "circle": "1d",
    "budget": {"moves": 4, "per": "10m"},
}


def host(name: str, /, *, static: bool = False, **properties: str | int) -> Resource:
    return Resource(
        id=name, type="host", properties={**properties, "id": name, "type": "host"}, static=static
    )


def licence(name: str) -> Resource:
    properties = {"product": "matlab", "id": name, "type": "licence"}
    return Resource(id=name, type="licence", properties=properties)


def test_a_section_stands_for_pools() -> None:
    resources = [
        *(host("n09", cores=8, arch="amd64"), host("n10", cores=8, arch="amd64")),
        *(host("n11", cores=16, arch="amd64", static=True), host("m1")),
        *(licence("matlab1"), licence("matlab2")),
    ]
    night = Window(days=frozenset({"mon", "fri"}), from_s=79_200, to_s=23_400, zone="Europe/Berlin")
    always = Window(days=frozenset(DAYS), from_s=0, to_s=86_400, zone="UTC")
    queue = Slo(
        name="queue",
        kind=SloKind.PENDING,
        urgency=50,
        quantity=2,
        filter=Filter("cores >= 8"),
        kpi="waiting",
        above=10,
        per="arch",
        for_s=90,
        atomic=True,
        windows=(night,),
    )
    minimum = Slo(
        name="minimum-2",
        kind=SloKind.MINIMUM,
        urgency=40,
        quantity=2,
        filter=Filter("arch == amd64"),
    )
    band = Slo(
        name="utilisation-3",
        kind=SloKind.UTILISATION,
        urgency=5,
        kpi="utilisation",
        band=(0.3, 0.8),
        windows=(always,),
    )
    batch = Service(
        name="batch",
        adapter="gridengine",
        holds=HOST,
        priority=2,
        share=40,
        min=1,
        max=3,
        slos=(queue, minimum, band),
    )
    spare = Service(
        name="spare",
        adapter="spare",
        holds=HOST | LICENCE,
        direct=True,
        slos=(Slo(name="permanent-1", kind=SloKind.PERMANENT, urgency=1),),
    )
    tokens = Service(name="tokens", adapter="counter", holds=LICENCE, registered=False)
    assert pools_of(SECTION, ADAPTERS) == Pools(
        resources={it.id: it for it in resources},
        services={"batch": batch, "tokens": tokens, "spare": spare},
        policy="share",
        immunity_s=1200,
        grow_after_s=0,
        shrink_after_s=5400,
        gain=3,
        budget=Budget(moves=4, per_s=600),
        order_after_s=300,
        leave_within_s=7200,
        stale_after_s=90,
        circle_s=86_400,
    )


def test_a_section_is_not_changed_when_it_is_read() -> None:
    before = deepcopy(SECTION)
    pools_of(SECTION, ADAPTERS)
    assert before == SECTION


def test_what_a_section_leaves_out_has_its_defaults() -> None:
    assert pools_of({}, {}) == Pools()
    assert pools_of({"resources": None, "services": None}, {}) == Pools()
    bare = pools_of({"services": {"s": {"adapter": "counter"}}}, ADAPTERS)
    assert bare.services == {"s": Service(name="s", adapter="counter", holds=LICENCE)}


def test_a_line_of_its_own_adds_to_its_range_wherever_it_stands() -> None:
    lines: dict[str, Any] = {
        "n1": {"properties": {"cores": 16}},
        "n[1:2]": {"properties": {"cores": 8, "arch": "amd64"}},
    }
    for resources in (lines, dict(reversed(lines.items()))):
        assert pools_of({"resources": resources}, {}).resources == {
            "n1": host("n1", cores=16, arch="amd64"),
            "n2": host("n2", cores=8, arch="amd64"),
        }


def section(
    resources: Mapping[str, Any] | None = None, /, **services: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a section with two hosts, if it has no other resources, and these services."""
    return {"resources": resources or {"n[1:2]": {}}, "services": services}


def service(*slos: Mapping[str, Any], adapter: str = "gridengine", **words: Any) -> dict[str, Any]:
    full = [{"kind": "minimum", "urgency": 1, **slo} for slo in slos]
    return {"adapter": adapter, "slos": full, **words}


SLO = ("services", "s", "slos", 0)
FORM = "write `PROPERTY == VALUE`, joined by `and`, `or`, `not`"
BAD: dict[str, tuple[dict[str, Any], list[tuple[tuple[str | int, ...], str]]]] = {
    "an unknown adapter, and nothing more about it": (
        section(s=service({"filter": "cores > 4"}, adapter="sge")),
        [(("services", "s", "adapter"), "there is no service adapter `sge`")],
    ),
    "no adapter": (
        section(s={}),
        [(("services", "s", "adapter"), "there is no service adapter ``")],
    ),
    "a filter that is none": (
        section(s=service({"filter": "cores = 4"})),
        [((*SLO, "filter"), "the filter `cores = 4` cannot be read at column 7")],
    ),
    "a filter of a need that is none": (
        section(s=service({"need": {"filter": "exit()"}})),
        [
            (
                (*SLO, "need", "filter"),
                "the filter `exit()` has no condition at column 1; " + FORM,
            )
        ],
    ),
    "a filter that nothing fits": (
        section(s=service({"filter": "cores >= 4"})),
        [(SLO, "no resource that `s` can use fits `cores >= 4`")],
    ),
    "a filter that nothing fits which the service can use": (
        section(
            {"l": {"type": "licence", "properties": {"x": 1}}}, s=service({"filter": "x == 1"})
        ),
        [(SLO, "no resource that `s` can use fits `x == 1`")],
    ),
    "minimums above what there is": (
        section(s=service(min=1), t=service(min=2)),
        [(("services",), "the minimums of the services are 3, and there are 2 hosts")],
    ),
    "a minimum of a type that there is none of": (
        section(s=service(min=1, adapter="counter")),
        [(("services",), "the minimums of the services are 1, and there are 0 licences")],
    ),
    "a minimum above the maximum": (
        section(s=service(min=2, max=1)),
        [(("services", "s", "min"), "`min` of service `s` is 2, more than its `max`, 1")],
    ),
    "a resource in two ranges": (
        section({"n[1:2]": {}, "n[2:3]": {}}),
        [(("resources", "n[2:3]"), "resource n2 is in `n[1:2]` and in `n[2:3]`")],
    ),
    "a resource in two ranges with a line of its own between them": (
        section({"n[1:2]": {}, "n2": {}, "n[2:3]": {}}),
        [(("resources", "n[2:3]"), "resource n2 is in `n[1:2]` and in `n[2:3]`")],
    ),
    "a bad range": (
        section({"n[2:1]": {}, "m": {}}),
        [(("resources", "n[2:1]"), "resource `n[2:1]` is no range; write `n[01:12]`")],
    ),
    "more resources than there may be": (
        section({"n[1:60000]": {}, "m[1:60000]": {}}),
        [(("resources", "m[1:60000]"), "the resources are more than 100,000")],
    ),
    "an empty band": (
        section(s=service({"kind": "utilisation", "band": [0.5, 0.5]})),
        [((*SLO, "band"), "the band [0.5, 0.5] is empty")],
    ),
    "an empty window": (
        section(s=service({"windows": [{"from": "08:00", "to": "08:00"}]})),
        [((*SLO, "windows", 0), "the window is empty")],
    ),
    "a key in two places": (
        section(s=service({"need": {"urgency": 1, "filter": "rack =="}})),
        [
            ((*SLO, "need", "urgency"), "`urgency` stands in the objective and in its `need`"),
            ((*SLO, "need", "filter"), "the filter `rack ==` cannot be read at column 1"),
        ],
    ),
    "no time to count moves in": (
        {**section(), "budget": {"moves": 1, "per": "0s"}},
        [(("budget", "per"), "`0s` is not between 0 and 366 days")],
    ),
    "an unknown zone": (
        section(s=service({"windows": [{}, {"zone": "Mars/Base"}]})),
        [((*SLO, "windows", 1, "zone"), "there is no time zone `Mars/Base`")],
    ),
    "a zone that is a folder": (
        section(s=service({"windows": [{"zone": "Europe"}]})),
        [((*SLO, "windows", 0, "zone"), "there is no time zone `Europe`")],
    ),
    "a zone that leads elsewhere": (
        section(s=service({"windows": [{"zone": "../x"}]})),
        [((*SLO, "windows", 0, "zone"), "there is no time zone `../x`")],
    ),
    "an atomic need beyond the budget": (
        {
            **section(s=service({"quantity": 3, "atomic": True})),
            "budget": {"moves": 2, "per": "1h"},
        },
        [(SLO, "an atomic need of 3 is more than the budget of moves")],
    ),
    "an atomic need beyond the maximum": (
        section(s={**service({"quantity": 3, "atomic": True}), "max": 2}),
        [(SLO, "an atomic need of 3 is more than `max` of `s`")],
    ),
    "the name of the least that a service has": (
        section(s=service({"name": "min"})),
        [((*SLO, "name"), "an objective cannot be called `min`")],
    ),
    "a name that would be one of a value": (
        section(s=service({"name": "a/b"})),
        [((*SLO, "name"), "an objective cannot be called `a/b`")],
    ),
    "a service without a name": (
        {**section(), "services": {"": service({})}},
        [(("services", ""), "a service has no name")],
    ),
    "two SLOs of one name": (
        section(s=service({"name": "a"}, {"name": "b"}, {"name": "a"})),
        [(("services", "s", "slos", 2, "name"), "service `s` has two SLOs `a`")],
    ),
    "a name that another has by default": (
        section(s=service({}, {"name": "minimum-1"})),
        [(("services", "s", "slos", 1, "name"), "service `s` has two SLOs `minimum-1`")],
    ),
    "shares above all": (
        section(s=service(share=60), t=service(share=41)),
        [(("services",), "the shares of the services sum up to 101%")],
    ),
    "bad durations": (
        {
            **section(s=service({"for": "soon"})),
            "immunity": "-1s",
            "circle": "400d",
            "budget": {"moves": 1, "per": "often"},
        },
        [
            ((*SLO, "for"), "`soon` is no duration; write 90, 90s, 10m, 1h30m or 2d"),
            (("budget", "per"), "`often` is no duration; write 90, 90s, 10m, 1h30m or 2d"),
            (("immunity",), "`-1s` is no duration; write 90, 90s, 10m, 1h30m or 2d"),
            (("circle",), "`400d` is not between 0 and 366 days"),
        ],
    ),
}


@pytest.mark.parametrize(("bad", "problems"), BAD.values(), ids=BAD)
def test_what_cannot_be_so_is_told_with_the_keys_that_lead_to_it(
    bad: dict[str, Any], problems: list[tuple[tuple[str | int, ...], str]]
) -> None:
    with pytest.raises(ModelError) as caught:
        pools_of(bad, ADAPTERS)
    assert [(keys, message) for keys, message, _ in caught.value.problems] == problems


def test_all_that_is_wrong_is_told_at_once() -> None:
    bad = section(
        {"n[1:2]": {}, "n[2:3]": {}, "m[": {}},
        s=service({"filter": "x"}, {"filter": "("}, min=3, max=2),
        t=service({"name": "a", "for": "x"}, {"name": "a", "band": [1, 0]}, share=101, min=1),
        u=service({"windows": [{"zone": "x"}]}, adapter="x"),
    )
    with pytest.raises(ModelError) as caught:
        pools_of({**bad, "immunity": "x"}, ADAPTERS)
    assert [keys for keys, _, _ in caught.value.problems] == [
        ("resources", "n[2:3]"),
        ("resources", "m["),
        ("services", "s", "min"),
        ("services", "s", "slos", 1, "filter"),
        ("services", "t", "slos", 0, "for"),
        ("services", "t", "slos", 1, "band"),
        ("services", "u", "adapter"),
        ("services", "u", "slos", 0, "windows", 0, "zone"),
        ("immunity",),
        ("services", "s", "slos", 0),
        ("services", "t", "slos", 1, "name"),
        ("services",),
        ("services",),
    ]


def test_the_hints_name_what_there_is() -> None:
    with pytest.raises(ModelError) as caught:
        pools_of(section(s=service({"filter": "x"}), t=service(adapter="x")), ADAPTERS)
    assert [hint for _, _, hint in caught.value.problems] == [
        "known are counter, gridengine, spare",
        "their properties are id, type",
    ]
    with pytest.raises(ModelError) as caught:
        pools_of(section(s=service({"filter": "x"}, adapter="counter"), t={}), ADAPTERS)
    assert caught.value.problems[1][2] == "their properties are none"
    with pytest.raises(ModelError) as caught:
        pools_of(section(s={}), {})
    assert caught.value.problems[0][2] == "known are none"


def test_what_only_seems_wrong_is_accepted() -> None:
    good = section(
        {"n[1:2]": {"properties": {"x": 1}}, "n2": {"static": True}, "l": {"type": "licence"}},
        s=service({"filter": "x == 1 and id == n2"}, min=2, max=2, share=100),
        t=service(adapter="counter", min=1, share=100),
        u=service(adapter="spare", min=9, share=90),  # of both types, so it counts with neither
    )
    assert pools_of(good, ADAPTERS).services["u"].min == 9
    nothing = {"services": {"s": service({"filter": "x"}, min=2)}}
    assert not pools_of(nothing, ADAPTERS).resources


RANGES = {
    "n1": ["n1"],
    "": [""],
    "n[8:10]": ["n8", "n9", "n10"],
    "n[08:10]": ["n08", "n09", "n10"],
    "n[1:1]": ["n1"],
    "[0:1]": ["0", "1"],
    "n[1:2].site": ["n1.site", "n2.site"],
    "n[098:101]x": ["n098x", "n099x", "n100x", "n101x"],
}


@pytest.mark.parametrize(("name", "names"), RANGES.items())
def test_a_range_stands_for_names(name: str, names: list[str]) -> None:
    assert list(expanded(name)) == names


@pytest.mark.parametrize(
    "name",
    [
        *("n[2:1]", "n[1]", "n[:]", "n[1:]", "n[:1]", "n[a:b]", "n[1:2", "n1:2]", "n]1:2[", "n[]"),
        *("n[1:2][1:2]", "n[[1:2]]", "n[-1:2]", "n[1:2:3]", "n[1 : 2]", "n[\u0660:\u0663]"),
        *("n[0:1000000000]", f"n[{'0' * 5000}:1]", f"n[0:{'9' * 5000}]"),
    ],
    ids=lambda name: name[:20],
)
def test_what_is_no_range_is_a_value_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"^is no range"):
        list(expanded(name))


def test_a_range_stands_for_no_more_than_a_hundred_thousand_names() -> None:
    assert len(list(expanded("n[1:100000]"))) == 100_000
    with pytest.raises(ValueError, match="stands for more than 100,000 names"):
        next(expanded("n[0:100000]"))


BERLIN = "Europe/Berlin"
NIGHT = {"days": ("sat",), "from_s": 22 * 3600, "to_s": 6 * 3600}
MOMENTS = [
    # 2026-03-28 is a Saturday; the clocks of Berlin go from 2:00 to 3:00 in the night after it.
    (NIGHT, "2026-03-28T20:59:59", False),
    (NIGHT, "2026-03-28T21:00:00", True),
    (NIGHT, "2026-03-29T00:59:59", True),
    (NIGHT, "2026-03-29T03:59:59", True),  # 5:59:59: the window is seven hours long
    (NIGHT, "2026-03-29T04:00:00", False),
    (NIGHT, "2026-03-29T20:30:00", False),  # Sunday, 22:30
    # 2026-10-24 is a Saturday, too; 2:00 to 3:00 is twice in the night after it.
    (NIGHT, "2026-10-24T19:59:59", False),
    (NIGHT, "2026-10-24T20:00:00", True),
    (NIGHT, "2026-10-25T00:30:00", True),
    (NIGHT, "2026-10-25T01:30:00", True),
    (NIGHT, "2026-10-25T04:59:59", True),
    (NIGHT, "2026-10-25T05:00:00", False),
    ({**NIGHT, "days": ("sun",), "from_s": 7200, "to_s": 10_800}, "2026-03-29T00:59:59", False),
    ({**NIGHT, "days": ("sun",), "from_s": 7200, "to_s": 10_800}, "2026-03-29T01:00:00", False),
    ({**NIGHT, "days": ("sun",), "from_s": 7200, "to_s": 10_800}, "2026-10-25T00:00:00", True),
    ({**NIGHT, "days": ("sun",), "from_s": 7200, "to_s": 10_800}, "2026-10-25T01:59:59", True),
    ({**NIGHT, "days": ("sun",), "from_s": 7200, "to_s": 10_800}, "2026-10-25T02:00:00", False),
    ({"days": ("mon",), "from_s": 3600, "to_s": 3600}, "2026-03-30T23:00:00", False),
    ({"days": (), "from_s": 0, "to_s": 86_400}, "2026-03-30T12:00:00", False),
]


@pytest.mark.parametrize(("window", "utc", "inside"), MOMENTS)
def test_a_moment_is_within_a_window(window: Mapping[str, Any], utc: str, *, inside: bool) -> None:
    moment = datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp()
    days = frozenset(window["days"])
    assert Window(**{**window, "days": days}, zone=BERLIN).has(moment) is inside


_MINUTES = st.integers(0, 24 * 60).map(lambda minutes: minutes * 60.0)
_CHANGES = [1774746000, 1792890000]  # 2026-03-29 and 2026-10-25, 1:00 UTC
_AT = st.one_of(
    st.integers(1_700_000_000, 1_900_000_000),
    *(st.integers(change - 90_000, change + 90_000) for change in _CHANGES),
)


@given(
    days=st.frozensets(st.sampled_from(DAYS)),
    from_s=_MINUTES,
    to_s=_MINUTES,
    zone=st.sampled_from([BERLIN, "UTC", "America/New_York", "Asia/Kathmandu"]),
    at=_AT,
)
def test_a_window_is_what_its_evenings_say(
    days: frozenset[str], from_s: float, to_s: float, zone: str, at: int
) -> None:
    """Beside it: each day's hours as two readings of a wall clock, one of them the next day's."""
    clock = datetime.fromtimestamp(at, ZoneInfo(zone)).replace(tzinfo=None)
    inside = False
    for back in range(3):
        day = datetime.combine(clock.date() - timedelta(days=back), datetime.min.time())
        start, end = day + timedelta(seconds=from_s), day + timedelta(seconds=to_s)
        if end < start:
            end += timedelta(days=1)
        inside |= day.strftime("%a").lower() in days and start <= clock < end
    assert Window(days=days, from_s=from_s, to_s=to_s, zone=zone).has(at) is inside
