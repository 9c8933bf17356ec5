"""Two owners of one site, each a process with a database, as the page on transports says."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cobweb.api import Site
from cobweb.errors import UsageError
from cobweb.operations import Caller, Orders
from tests.support.shared_site import Shared, end, line_of

MARKED = """\
cobweb: 1
name: marked
inventory:
  all:
    hosts: {{{host}: }}
    vars:
      ansible_connection: local
      ansible_python_interpreter: {python}
      cobweb_shared: false
cobs:
  it: {{type: file, on: {host}, spec: {{path: "{root}/file", content: "{version}"}}}}
"""


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


@pytest.mark.full(
    "two programs with a transport, one killed; several kernels in one process are in the gate"
)
def test_one_waits_for_the_other_also_when_that_was_killed(shared: Shared) -> None:
    with shared.part("west") as west:
        with shared.part("east") as east:
            assert line_of(east) == "settled"
            assert line_of(west) == "settled"
            assert (shared.read("db.conf"), shared.read("page")) == ("one", "one")
            east.kill()
            east.wait()
        assert end(west) == 0
    assert shared.states("west") == {"web1/page": "up"}
    assert shared.states("east") == {"db1/conf": "up"}

    (shared.folder / "page").unlink()
    (shared.folder / "west" / ".cobweb").rename(shared.folder / "lost")
    with shared.part("west") as west:
        assert end(west) == 0
    assert shared.read("page") is None  # nobody has lent it what it needs
    with shared.part("west") as west, shared.part("east") as east:
        assert line_of(east) == "settled"
        assert line_of(west) == "settled"
        assert shared.read("page") == "one"
        assert (end(west), end(east)) == (0, 0)


@pytest.mark.full("two programs over sockets; two over a server are in the gate")
def test_owners_of_unequal_history_hear_each_other(shared: Shared) -> None:
    """The goal is what the site is, not which number a database gives it."""
    for version in ("a", "b"):
        shared.write(version)
        with Site(shared.folder / "east") as site:
            assert site.apply().exit_code == 0
    shared.write("one")
    with shared.part("west") as west, shared.part("east") as east:
        assert line_of(east) == "settled"
        assert line_of(west) == "settled"
        assert (end(west), end(east)) == (0, 0)
    assert (shared.read("db.conf"), shared.read("page")) == ("one", "one")


class Silent:
    """A transport over which nothing is heard."""

    name: ClassVar[str] = "silent"

    def connect(self, _address: str, _owner: str, _wake: Callable[[], None]) -> Silent:
        return self

    def send(self, _owner: str, _message: bytes) -> None:
        pass

    def receive(self) -> list[tuple[str, bytes]]:
        return []

    def close(self) -> None:
        pass


@dataclass
class Post:
    """A transport within this process."""

    name: ClassVar[str] = "post"
    boxes: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)

    def connect(self, _address: str, owner: str, _wake: Callable[[], None]) -> PostLink:
        return PostLink(self.boxes, owner)


@dataclass
class PostLink:
    """The end of one owner."""

    boxes: dict[str, list[tuple[str, bytes]]]
    owner: str

    def send(self, owner: str, message: bytes) -> None:
        self.boxes.setdefault(owner, []).append((self.owner, message))

    def receive(self) -> list[tuple[str, bytes]]:
        return self.boxes.pop(self.owner, [])

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("versions", "generations", "goals"),
    [
        (("one", "one"), (0, 0), None),
        (("one", "one"), (7, 7), None),
        (("one", "two"), (7, 7), "site [0-9a-f]{16} as generation 7"),
        (("one", "two"), (0, 0), "site [0-9a-f]{16}"),
        (("one", "one"), (7, 8), "site [0-9a-f]{16} as generation [78]"),
        (("one", "one"), (7, 0), "site [0-9a-f]{16}( as generation 7)?"),
    ],
)
def test_owners_of_another_goal_are_told_of_each_other(
    shared: Shared, versions: tuple[str, str], generations: tuple[int, int], goals: str | None
) -> None:
    """Neither believes what the other says of its objects."""
    post, said = Post(), dict[str, list[str]](east=[], west=[])
    with ExitStack() as stack:
        kernels = []
        for owner, version, number in zip(("east", "west"), versions, generations, strict=True):
            shared.write(version)
            site = stack.enter_context(Site(shared.folder / owner))
            vars(site)["plugins"] = replace(site.plugins, transports={"post": post})
            opened = site.open(
                owner,
                lender="east",
                owners={"db1": "east", "web1": "west"},
                transport="post",
                generation=number,
                orders=Orders(executor="simulate"),
                caller=Caller(say=said[owner].append),
            )
            kernels.append(stack.enter_context(opened))
        for _ in range(30):
            for kernel in kernels:
                kernel.poll(1.0)  # of simulated time
        assert [it.is_settled() for it in kernels] == [True, goals is None]
    for notes in said.values():
        told = [it for it in notes if "brings about" in it]
        assert len(told) == (goals is not None)
        assert all(re.search(rf"brings about {goals}, this owner {goals};", it) for it in told)


LIMITED = """\
cobweb: 1
name: limited
inventory: {{all: {{hosts: {{db1: , web1: , web2: }}}}}}
cobs:
  it: {{type: process, on: all, spec: {{command: work, env: {{V: "{version}"}}}}}}
limits: {{one: {{on: all, cob: it, max: 1}}}}
"""


def test_parts_bring_about_a_change_under_one_limit(tmp_path: Path) -> None:
    """All hosts have gone over when it begins; who has room renews what is on it."""
    owners, events = {"db1": "east", "web1": "west", "web2": "north"}, list[Any]()
    for version in ("one", "two"):
        post = Post()
        events.clear()
        with ExitStack() as stack:
            kernels = []
            for owner in ("east", "west", "north"):
                (tmp_path / owner).mkdir(exist_ok=True)
                text = LIMITED.format(version=version)
                (tmp_path / owner / "site.yml").write_text(text, encoding="utf-8")
                site = stack.enter_context(Site(tmp_path / owner))
                opened = site.open(
                    owner,
                    lender="east",
                    owners=owners,
                    transport=post,
                    goal=f"version {version}",
                    orders=Orders(executor="simulate"),
                    caller=Caller(sinks=[events.append]),
                )
                kernels.append(stack.enter_context(opened))
            while not all(it.is_settled() for it in kernels):
                for kernel in kernels:
                    kernel.poll(1.0)  # of simulated time
    slots = [(it["type"], it["unit"]) for it in events if it["type"].startswith("slot.")]
    assert sorted(unit for kind, unit in slots if kind == "slot.take") == sorted(owners)
    for (taken, unit), (given, other) in zip(slots[::2], slots[1::2], strict=True):
        assert (taken, given, unit) == ("slot.take", "slot.return", other)
    moved = [it["cob"] for it in events if it["type"] == "transition.end"]
    assert sorted(moved) == [f"{host}/it" for host in sorted(owners)]


def test_an_owner_whose_part_stands_alone_asks_the_lender_all_the_same(tmp_path: Path) -> None:
    """Nobody else's object is in its graph, and yet it does not count by itself."""
    for version in ("one", "two"):
        text = LIMITED.format(version=version).replace("db1: , web1: , web2: ", "web1: ")
        (tmp_path / "site.yml").write_text(text, encoding="utf-8")
        with (
            Site(tmp_path) as site,
            site.open(
                "west",
                lender="east",
                owners={"web1": "west"},
                transport=Silent(),
                orders=Orders(executor="simulate"),
            ) as kernel,
        ):
            for _ in range(20):
                kernel.poll(1.0)
            assert kernel.is_settled() is (version == "one")
            assert kernel.is_idle()
            assert [it["cob"] for it in kernel.waits()] == ["web1/it"] * (version == "two")


def test_a_part_removes_nothing(tmp_path: Path) -> None:
    text = LIMITED.format(version="one")
    (tmp_path / "site.yml").write_text(text, encoding="utf-8")
    with Site(tmp_path) as site:
        assert site.apply(orders=Orders(executor="simulate")).exit_code == 0
    (tmp_path / "site.yml").write_text(text.replace("on: all, spec", "on: db1, spec"), "utf-8")
    with (
        Site(tmp_path) as site,
        pytest.raises(UsageError, match="web1/it is to be removed"),
        site.open(
            "east",
            lender="east",
            owners={},
            transport=Silent(),
            orders=Orders(executor="simulate"),
        ),
    ):
        pass


@pytest.mark.gate("two runs and two parts on a host that has a mark: nothing else opens one for it")
def test_an_owner_works_under_the_mark_that_it_is_told(tmp_path: Path) -> None:
    """What `cobweb apply` has marked is another site's to an owner with a database of its own."""
    one, other, owner = tmp_path / "one", tmp_path / "other", f"marked-{os.getpid()}"

    def open_part(mark: str) -> tuple[bool, list[str]]:
        with Site(other) as site:
            vars(site)["plugins"] = replace(site.plugins, transports={"silent": Silent()})
            where: dict[str, Any] = {
                "lender": owner,
                "owners": {owner: owner},
                "transport": "silent",
            }
            with site.open(owner, **where, mark=mark, generation=7) as kernel:
                kernel.poll(1.0)
                while kernel.engine.busy():
                    kernel.poll(1.0)
                events = site.watch()
                assert {it["generation"] for it in events if it["type"] == "run.start"} == {7}
                said = [str(it.get("message", "")) for it in site.watch()]
                return kernel.is_settled(), said

    for folder, version in ((one, "one"), (other, "two")):
        folder.mkdir()
        text = MARKED.format(host=owner, python=sys.executable, root=tmp_path, version=version)
        (folder / "site.yml").write_text(text, encoding="utf-8")
    with Site(one) as site:
        assert site.apply().exit_code == 0
        mark = site.store().site_id()
    try:
        settled, said = open_part("")
        assert not settled
        assert any("marked" in it and "site" in it for it in said), said
        assert (tmp_path / "file").read_text() == "one"
        settled, _ = open_part(mark)
        assert settled
        assert (tmp_path / "file").read_text() == "two"
    finally:
        text = (one / "site.yml").read_text().partition("cobs:")[0]
        (one / "site.yml").write_text(text, encoding="utf-8")
        with Site(one) as site:
            assert site.apply().exit_code == 0  # takes its mark away


@pytest.mark.parametrize(
    ("generation", "mark"),
    [(-1, ""), (0, "x"), (0, "0" * 31), (0, "../" + "0" * 29)],
)
def test_numbers_and_marks_that_cannot_be_are_refused(
    shared: Shared, generation: int, mark: str
) -> None:
    with (
        Site(shared.folder / "east") as site,
        pytest.raises(UsageError, match="there is no generation"),
        site.open(
            "east", lender="east", owners={}, transport="nats", generation=generation, mark=mark
        ),
    ):
        pass


def test_a_part_is_that_of_an_owner_over_a_transport(shared: Shared) -> None:
    with (
        Site(shared.folder / "east") as site,
        pytest.raises(UsageError, match="no transport post"),
        site.open("east", lender="east", owners={}, transport="post"),
    ):
        pass
