"""`Site.state`, `memory`, `remember`, `lead`: what a program needs that keeps a site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cobweb.api import Site
from cobweb.errors import ConflictError, LockedError, SiteError
from cobweb.model import Decisions
from cobweb.operations import Orders
from tests.cli.conftest import SITE

SIMULATED = Orders(executor="simulate")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the site of figure 1 of the COB paper."""
    folder = tmp_path / "site"
    (folder / "simple").mkdir(parents=True)
    for name in ("check", "start", "stop"):
        (folder / "simple" / f"{name}.yml").write_text("- set_fact: {cob_state: up}\n")
    (folder / "site.yml").write_text(SITE)
    return folder


@pytest.fixture
def site(folder: Path) -> Iterator[Site]:
    with Site(folder) as site:
        yield site


def stated(folder: Path, line: str) -> Site:
    """Return the site with another line for its state database, and objects that are nonsense."""
    (folder / "site.yml").write_text(f"cobweb: 1\nname: x\n{line}\ncobs: {{a: {{type: no}}}}\n")
    return Site(folder)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", "sqlite:///.cobweb/state.db"),
        ("state: sqlite:///here.db", "sqlite:///here.db"),
        ("state: sqlite:////there/state.db", "sqlite:////there/state.db"),
        (
            "state: postgresql+psycopg://ann@db.example.org/cobweb",
            "postgresql+psycopg://ann@db.example.org/cobweb",
        ),
    ],
)
def test_the_state_database_is_as_the_site_says_whatever_is_wrong_with_the_rest(
    folder: Path, line: str, found: str
) -> None:
    with stated(folder, line) as site:
        assert site.state == found
    assert not (folder / ".cobweb").exists()


def test_a_wrong_state_is_a_finding(folder: Path) -> None:
    with stated(folder, "state: 7") as site, pytest.raises(SiteError):
        site.state  # noqa: B018 - it is asked for, and raises


def test_nothing_is_remembered_at_first_and_no_database_is_made(site: Site, folder: Path) -> None:
    assert site.memory("serve") == Decisions()
    assert not (folder / ".cobweb" / "state.db").exists()


def test_what_one_remembers_another_reads(site: Site, folder: Path) -> None:
    assert site.remember("serve", 0, {"memory": {"n": 1}}, "ann", "a round") == 1
    with Site(folder) as other:
        found = other.memory("serve")
        assert (found.revision, found.by_key["memory"].body) == (1, {"n": 1})
        assert other.remember("serve", 1, {"memory": {"n": 2}}, "bob", "another") == 2
    with pytest.raises(ConflictError) as caught:
        site.remember("serve", 1, {"memory": {"n": 3}}, "ann", "a round")
    assert caught.value.revision == 2
    made = site.memory("serve").by_key["memory"]
    assert (made.body, made.author, made.reason) == ({"n": 2}, "bob", "another")


def test_what_is_remembered_is_no_part_of_the_site(site: Site, folder: Path) -> None:
    assert site.apply(orders=SIMULATED).exit_code == 0
    site.remember("serve", 0, {"memory": {"n": 1}}, "ann", "a round")
    assert site.decisions("serve") == Decisions()
    assert not site.refresh()
    with Site(folder) as other:
        assert other.plan().is_empty


def test_one_leads_at_a_time(site: Site, folder: Path) -> None:
    with Site(folder) as other:
        with site.lead("to test") as held:
            assert (held.owner.reason, held.notices) == ("to test", ())
            with pytest.raises(LockedError) as caught:
                other.lead("as well")
            assert held.owner.run in caught.value.owner
            assert site.remember("serve", 0, {"memory": 1}, "ann", "x") == 1
        with other.lead("as well"):
            assert other.remember("serve", 1, {"memory": 2}, "bob", "x") == 2


def test_a_run_goes_on_beside_who_leads(site: Site, folder: Path) -> None:
    with site.lead("to test"):
        with Site(folder) as other:
            assert other.apply(orders=SIMULATED).exit_code == 0
        assert site.remember("serve", 0, {"memory": 1}, "ann", "x") == 1


def test_who_leads_no_more_remembers_nothing(site: Site, folder: Path) -> None:
    with Site(folder) as other:
        held = site.lead("to test")
        lock = other.history(create=True).site_lock(clock=lambda: 0.0, leads=True)
        lock.break_lock(held.owner.run)
        with pytest.raises(LockedError):
            site.remember("serve", 0, {"memory": 1}, "ann", "x")
        with other.lead("as well") as leading:
            with pytest.raises(LockedError, match=leading.owner.run):
                site.remember("serve", 0, {"memory": 1}, "ann", "x")
            assert other.memory("serve") == Decisions()
            held.release()
            assert lock.show() is not None, "who leads now still does"
