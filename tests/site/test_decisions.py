"""What was decided in a section: who sees it, what follows, where it stands, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb._cache import Cache
from cobweb.model import CobId, Decided, Decision, Decisions, Expansion, cob_id
from cobweb.site import Site, load_site

Maker = Any
SITE = """\
lamps: {hosts: [n1, n2]}
inventory: {all: {hosts: {n1: , n2: }}}
cobs: {motd: {type: simple, on: all}}
"""
SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


def decision(key: str, body: Any, revision: int = 1, section: str = "lamps") -> Decision:
    return Decision(
        section=section,
        key=key,
        body=body,
        revision=revision,
        author="ann",
        reason="it is\ndark",
        time=1.0,
    )


def decided(*each: Decision) -> dict[str, Decisions]:
    """Return what sections have of these."""
    found: dict[str, Decisions] = {}
    for it in each:
        before = found.get(it.section, Decisions())
        revision = max(it.revision, before.revision)
        found[it.section] = Decisions(revision=revision, by_key={**before.by_key, it.key: it})
    return found


class Lamps:
    """A section whose hosts get an object for each decision; tells what it saw."""

    source = Path(__file__)
    decision_schema: Mapping[str, Any] = SCHEMA

    def __init__(self, name: str = "lamps", expansion: Expansion | None = None) -> None:
        self.name = name
        self.saw: list[Mapping[str, Decision]] = []
        self._expansion = expansion

    def expand(self, _sections: Mapping[str, Any], context: Any) -> Expansion:
        self.saw.append(context.decisions)
        if self._expansion is not None:
            return self._expansion
        cobs = {
            f"lamp-{key}": {
                "type": "simple",
                "on": key,
                "spec": {"size": Decided(it.body["size"], it)},
            }
            for key, it in context.decisions.items()
        }
        lit = {key: Decided(None, it) for key, it in context.decisions.items()}
        return Expansion(
            cobs=cobs, inventory={"lit": {"hosts": lit}}, releases=["n2/lamp-n2", "n3/*"]
        )


class Plain(Lamps):
    """A section that takes no decisions."""

    decision_schema = None  # type: ignore[assignment]


def options(
    decisions: Mapping[str, Decisions] | Callable[[], Mapping[str, Decisions]], *more: Lamps
) -> dict[str, Any]:
    expanders = [Lamps(), *more]
    return {
        "sections": {it.name: {} for it in expanders},
        "expanders": expanders,
        "decisions": decisions if callable(decisions) else lambda: decisions,
    }


def test_a_section_sees_its_own_decisions_and_no_others(maker: Maker) -> None:
    other, plain = Lamps("pools", Expansion()), Plain("street", Expansion())
    mine, theirs = decision("n1", {"size": 3}), decision("n2", {"size": 4}, section="pools")
    given = options(
        decided(mine, theirs, decision("n1", {"size": 5}, section="street")), other, plain
    )
    maker.site(SITE + "pools: 1\nstreet: 1\n", **given).graph()
    assert given["expanders"][0].saw == [{"n1": mine}]
    assert (other.saw, plain.saw) == ([{"n2": theirs}], [{}])


def test_what_follows_is_explained_by_the_decision(maker: Maker) -> None:
    site = maker.site(SITE, **options(decided(decision("n1", {"size": 3}, 7))))
    found = site.explain("n1/lamp-n1.spec.size")
    assert found.value == 3
    assert str(found.place) == "decision lamps/n1, revision 7, by ann: it is dark"
    assert {name: it.revision for name, it in site.decisions.items()} == {"lamps": 7}


def test_hosts_of_the_inventory_get_into_groups_of_the_section(maker: Maker) -> None:
    site = maker.site(SITE, **options(decided(decision("n2", {"size": 3}))))
    assert list(site.groups["lit"]) == ["n2"]
    assert site.select("all") == ("n1", "n2")


@pytest.mark.parametrize(
    ("expansion", "message"),
    [
        ({"lit": {"hosts": {"n1": {"lamp": 1}}}}, "the site's inventory has a host `n1`, which"),
        ({"east": {"hosts": {"n1": None}}}, "the site's inventory has a group `east`, which"),
    ],
)
def test_what_the_inventory_says_of_hosts_and_groups_is_not_said_again(
    maker: Maker, expansion: dict[str, Any], message: str
) -> None:
    section = Lamps(expansion=Expansion(inventory=expansion))
    given = {"sections": {"lamps": {}}, "expanders": [section]}
    text = SITE.replace("{all: {hosts: {n1: , n2: }}}", "{east: {hosts: {n1: , n2: }}}")
    found = maker.findings(text, **given)
    assert any(message in it for it in found), found


def test_a_host_that_one_section_makes_is_put_into_a_group_by_another(maker: Maker) -> None:
    one = Lamps("one", Expansion(inventory={"east": {"hosts": {"m1": {"size": 1}}}}))
    two = Lamps("two", Expansion(inventory={"west": {"hosts": {"m1": None}}}))
    given = {"sections": {"one": {}, "two": {}}, "expanders": [one, two]}
    site = maker.site("one: 1\ntwo: 2\n" + SITE.partition("\n")[2], **given)
    assert list(site.groups["west"]) == ["m1"]
    assert site.hosts["m1"].variables["size"] == 1


def test_what_does_not_fit_the_schema_is_told_at_the_decision(maker: Maker) -> None:
    found = maker.findings(SITE, **options(decided(decision("n1", {"size": "big"}, 7))))
    assert len(found) == 1
    assert found[0].startswith("decision lamps/n1, revision 7, by ann: it is dark: ")
    assert found[0].endswith("(take it back with `cobweb decide lamps n1 null`)")


def test_a_mistake_that_follows_is_told_at_the_decision(maker: Maker) -> None:
    wrong = decision("n2", {"size": 1}, 2)
    cob = {"type": "simple", "on": Decided("n9", wrong)}
    section = Lamps(expansion=Expansion(cobs={"lamp": cob}))
    found = maker.findings(SITE, sections={"lamps": {}}, expanders=[section])
    assert len(found) == 1
    assert found[0].startswith("decision lamps/n2, revision 2, by ann: it is dark: ")
    assert "`n9`" in found[0]


def test_nobody_is_asked_what_was_decided_where_no_section_takes_that(maker: Maker) -> None:
    def never() -> Mapping[str, Decisions]:
        raise AssertionError

    given = {"sections": {"lamps": {}}, "expanders": [Plain(expansion=Expansion())]}
    site = maker.site(SITE, decisions=never, **given)
    site.graph()
    assert site.decisions == {}
    unused = {"sections": {"pools": {}}, "expanders": [Lamps("pools")]}
    maker.site(SITE.partition("\n")[2], decisions=never, **unused).graph()


def kept(root: Path, decisions: Mapping[str, Decisions]) -> Site:
    site = load_site(root / "site", cache=Cache(root / "cache"), **options(decisions))
    site.graph()
    return site


@pytest.mark.parametrize(
    "other",
    [
        decided(decision("n1", {"size": 3}, 2)),
        decided(decision("n1", {"size": 4})),
        decided(decision("n1", {"size": 3}), decision("n2", {"size": 3})),
        {},
    ],
    ids=["revision", "restored", "more", "none"],
)
def test_a_site_is_kept_as_long_as_nothing_else_is_decided(
    maker: Maker, tmp_path: Path, other: Mapping[str, Decisions]
) -> None:
    maker.root = tmp_path / "site"
    first = decided(decision("n1", {"size": 3}))
    maker.site({"site.yml": SITE, "tasks/check.yml": "- debug:"}, **options(first))
    assert not kept(tmp_path, first).is_kept
    again = kept(tmp_path, first)
    assert again.is_kept
    assert again.decisions == first
    assert again.releases(cob_id("n2", "lamp-n2"))
    changed = kept(tmp_path, other)
    assert not changed.is_kept
    assert changed.content_key() != again.content_key()


def test_a_site_knows_whether_files_and_decisions_are_as_they_were(maker: Maker) -> None:
    first = decided(decision("n1", {"size": 3}))
    site = maker.site(SITE, **options(first))
    site.graph()
    assert site.is_current(lambda: first)
    assert not site.is_current(lambda: decided(decision("n1", {"size": 3}, 2)))
    path = maker.root / "site.yml"
    path.write_text(path.read_text() + "# more\n")
    assert not site.is_current(lambda: first)


@pytest.mark.parametrize(
    ("cob", "is_let_go"),
    [("n2/lamp-n2", True), ("n2/motd", False), ("n3/any", True), ("n33/any", False)],
)
def test_what_decisions_let_go_is_known_by_object_or_by_host(
    maker: Maker, *, cob: str, is_let_go: bool
) -> None:
    assert maker.site(SITE, **options({})).releases(CobId(cob)) is is_let_go


def test_a_plugin_that_changes_what_it_is_given_changes_no_decision(maker: Maker) -> None:
    class Careless(Lamps):
        def expand(self, _sections: Mapping[str, Any], context: Any) -> Expansion:
            for it in context.decisions.values():
                it.body["size"] = 99
            return Expansion()

    given = decision("n1", {"size": 3})
    expanders = [Careless()]
    found = decided(given)
    site = maker.site(SITE, sections={"lamps": {}}, expanders=expanders, decisions=lambda: found)
    assert given.body == {"size": 3}
    assert site.decisions == decided(decision("n1", {"size": 3}))


def test_a_whole_object_or_limit_may_follow_from_a_decision(maker: Maker) -> None:
    it = decision("n1", {"size": 3})
    cob = Decided({"type": "simple", "on": "n1"}, it)
    limit = Decided({"on": "all", "cob": "lamp", "max": 1}, it)
    made: dict[str, Any] = {"cobs": {"lamp": cob}, "limits": {"dark": limit}}
    section = Lamps(expansion=Expansion(**made))
    site = maker.site(SITE, sections={"lamps": {}}, expanders=[section])
    assert str(site.explain("n1/lamp").place).startswith("decision lamps/n1, revision 1, by ann")
    assert site.graph().budgets[0].name == "dark"


class Bulb:
    """What another plugin adds for lamps."""

    point = "bulb"
    name = "led"
    source = Path(__file__)


class Screw:
    """What is for others."""

    point = "screw"
    name = "long"


def test_a_section_finds_what_plugins_add_at_its_point(maker: Maker) -> None:
    class Lit(Lamps):
        def expand(self, _sections: Mapping[str, Any], context: Any) -> Expansion:
            self.at_point = context.extensions_at("bulb")
            return Expansion()

    section = Lit()
    given = {"sections": {"lamps": {}}, "expanders": [section], "extensions": [Bulb, Screw]}
    maker.site(SITE, **given, decisions=lambda: decided(decision("n1", {"size": 3})))
    assert section.at_point == {"led": Bulb}
