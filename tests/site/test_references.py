"""A reference that is a template sees the host of the dependent; what is wrong names the host."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.model import CobId

Maker = Any

SITE = """
inventory:
  all: {{vars: {{shared: db01, db_only: db}}}}
  app:
    hosts:
      app01: {{mine: db01, kind: x}}
      app02: {{mine: db02, kind: y}}
      app03: {{mine: db02}}
  db: {{hosts: {{db01: , db02: }}}}
cobs:
  a: {{type: simple, on: "{on}", {needs}}}
  x: {{type: simple, on: all}}
  y: {{type: simple, on: all}}
  db: {{type: simple, on: db}}
"""


def needs(
    maker: Maker, written: str, *, on: str = "app01,app02", limit: str | None = None
) -> set[str]:
    """Return the needs of a site whose COB `a` has these references, as text."""
    graph = maker.site(SITE.format(needs=written, on=on)).graph(limit)
    return {str(need) for need in graph.needs}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            "after: ['x@{{ mine }}']",
            {
                "(app01/a, * -> up) <- (db01/x, up)",
                "(app02/a, * -> up) <- (db02/x, up)",
            },
        ),
        (
            "after: ['{{ kind }}@{{ mine }}']",
            {
                "(app01/a, * -> up) <- (db01/x, up)",
                "(app02/a, * -> up) <- (db02/y, up)",
            },
        ),
        (
            "after: ['{{ kind }}']",
            {
                "(app01/a, * -> up) <- (app01/x, up)",
                "(app02/a, * -> up) <- (app02/y, up)",
            },
        ),
        (
            "requires: ['x@{{ mine }}']",
            {
                "(app01/a, * -> up) <- (db01/x, up)",
                "(db01/x, * -> down) <- (app01/a, down)",
                "(app02/a, * -> up) <- (db02/x, up)",
                "(db02/x, * -> down) <- (app02/a, down)",
            },
        ),
        (
            "stops: ['{{ kind }}@{{ mine }}']",
            {
                "(app01/a, outdated -> *) <- (db01/x, down)",
                "(db01/x, * -> up) <- (app01/a, up)",
                "(app02/a, outdated -> *) <- (db02/y, down)",
                "(db02/y, * -> up) <- (app02/a, up)",
            },
        ),
        (
            "needs: [{when: down -> up, cob: x, on: '{{ mine }}', state: down}]",
            {
                "(app01/a, down -> up) <- (db01/x, down)",
                "(app02/a, down -> up) <- (db02/x, down)",
            },
        ),
        (
            "after: ['a@all:!{{ inventory_hostname }}']",
            {
                "(app01/a, * -> up) <- (app02/a, up)",
                "(app02/a, * -> up) <- (app01/a, up)",
            },
        ),
    ],
)
def test_each_host_has_its_own(maker: Maker, written: str, expected: set[str]) -> None:
    assert needs(maker, written) == expected


def test_a_part_of_the_site_holds_what_refers_back(maker: Maker) -> None:
    """The objects of db02 have a need on those that refer to them, and on no others."""
    found = needs(maker, "requires: ['{{ kind }}@{{ mine }}']", limit="db02")
    assert found == {
        "(app02/a, * -> up) <- (db02/y, up)",
        "(db02/y, * -> down) <- (app02/a, down)",
    }


def test_a_part_of_the_site_is_resolved_alone(maker: Maker) -> None:
    """A mistake on another host is none of its business."""
    found = needs(maker, "after: ['{{ kind }}@{{ mine }}']", on="app", limit="app02")
    assert found == {"(app02/a, * -> up) <- (db02/y, up)"}


HERE = "site.yml:12:40"


@pytest.mark.parametrize(
    ("written", "finding"),
    [
        (
            "after: ['{{ kind }}@db01']",
            (
                f"{HERE}: `kind` is undefined [on app03] "
                "(it is neither a variable of the host nor one of Ansible's own)"
            ),
        ),
        (
            "after: ['x@{{ mine }}x']",
            (
                f"{HERE}: `x@db02x`: no host or group is called `db02x` [on app02, app03] "
                "(did you mean `db02`?)"
            ),
        ),
        (
            "after: ['a@{{ mine }}']",
            (
                f"{HERE}: `a@db02` matches no instance [on app02, app03] "
                "(`a` is on app01, app02, app03)"
            ),
        ),
        (
            "after: ['{{ mine }}']",
            f"{HERE}: no COB is called `db02` [on app02, app03] (did you mean `db`?)",
        ),
        (
            "after: ['x@db:!{{ mine }}:!db01']",
            (
                f"{HERE}: `x@db:!db02:!db01` matches no host: `db:!db02:!db01` "
                "[on app02, app03] (the groups are empty, or exclude each other)"
            ),
        ),
        (
            "after: ['{{ 1 }}']",
            f"{HERE}: the template must give text or a list of names [on app01, app02, app03]",
        ),
        (
            "needs: [{when: up, cob: x, on: '{{ mine }}', state: gone}]",
            (
                "site.yml:12:84: type `simple` has no state `gone` [on app01, app02, app03] "
                "(its states are `outdated`, `down` or `up`)"
            ),
        ),
        (
            "after: ['{{ db_only }}']",
            (
                f"{HERE}: `a` needs `db`, which is not on the same host [on app01, app02, app03] "
                "(write `db@pattern` for other hosts, or mend `on`)"
            ),
        ),
    ],
)
def test_a_mistake_names_its_place_and_the_hosts(maker: Maker, written: str, finding: str) -> None:
    assert finding in maker.findings(SITE.format(needs=written, on="app"))


def test_on_sees_the_variables_of_all_only(maker: Maker) -> None:
    on_db = SITE.format(needs="", on="{{ shared }}")
    assert CobId("db01/a") in maker.site(on_db).graph().cobs
    finding = (
        "site.yml:12:25: `mine` is undefined "
        "(`on` belongs to no host and sees the variables of the group `all` only)"
    )
    assert maker.findings(SITE.format(needs="", on="{{ mine }}")) == [finding]


def test_hosts_with_the_same_text_share_one_link(maker: Maker) -> None:
    site = maker.site(SITE.format(needs="after: ['x@{{ mine }}', y]", on="app"))
    site.graph()
    (varying,) = site._parts.references.varying
    assert sorted(varying._links) == ["x@db01", "x@db02"]
    assert varying.link("app02") is varying.link("app03")
