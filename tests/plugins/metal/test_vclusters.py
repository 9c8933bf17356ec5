"""Virtual clusters from outside: commands, boot server and simulated machines as processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cobweb_plugins.metal.simulated import two_writers
from tests.cli.conftest import Run
from tests.plugins.metal.live import (
    SERVES,
    VICTIMS,
    LiveSite,
    ended,
    exit_code,
    kill,
    most_out,
    served,
    system,
    until,
)

pytestmark = pytest.mark.timeout(300)

NOTHING = "nothing to do, all is as it should be (0 transitions"
OF_SHOP = ("--template", "shop", "--count")


class Desk:
    """Calls the commands of a site in this process."""

    def __init__(self, live: LiveSite, run: Run) -> None:
        self.live = live
        self._run = run

    def act(self, *words: str, code: int = 0) -> str:
        """Change virtual clusters; return what was said."""
        return self.ran("vcluster", *words, "--yes", code=code)

    def ran(self, *words: str, code: int = 0) -> str:
        """Call a command of the site; return what was said."""
        ran = self._run("-C", self.live.folder, *words)
        said = " ".join((ran.out + ran.err).split())
        assert ran.code == code, said
        return said

    def data(self, *words: str) -> Any:
        """Return the data that a command writes."""
        ran = self._run("-C", self.live.folder, *words, "-o", "json")
        assert ran.code == 0, ran.out + ran.err
        return json.loads(ran.out)

    def list(self) -> dict[str, Any]:
        """Return what virtual clusters are like, by name."""
        return {it["name"]: it for it in self.data("vcluster", "list")["vclusters"]}

    def nodes(self) -> dict[str, str]:
        """Return the machines of all nodes, by node."""
        found = (node for it in self.list().values() for node in it["nodes"])
        return {it["host"]: it["machine"] for it in found}

    def check(self, content: bytes = b"", **counts: int) -> None:
        """Check that there are these virtual clusters, whole, and that other machines are off."""
        known = self.list()
        assert {name: (it["ready"], it["short"]) for name, it in known.items()} == {
            name: (count, 0) for name, count in counts.items()
        }
        nodes = [node for it in known.values() for node in it["nodes"]]
        numbers = [f"{name}-{it}" for name, count in counts.items() for it in range(1, count + 1)]
        assert sorted(it["host"] for it in nodes) == sorted(numbers)
        used = {it["machine"] for it in nodes}
        assert len(used) == len({it["address"] for it in nodes}) == len(nodes)
        for node in nodes:
            assert served(node["address"]).startswith(f"Hello from {node['host']}.")
            disk = self.live.disk(node["machine"]).read_bytes()
            assert disk == (content or system(SERVES)), node
        idle = set(self.live.names) - used
        assert {it: self.live.switch(it, "status") for it in idle} == dict.fromkeys(idle, "off")
        assert two_writers(self.live.ledger) == []


@pytest.fixture
def live(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveSite]:
    """Return a site with a boot server and four machines, of which nothing runs in the end."""
    made = LiveSite(tmp_path, machines=getattr(request, "param", 4))
    made.metal["immunity"] = "1s"
    made.free()
    try:
        assert exit_code(made.begin()) == 0, made.said()
        yield made
    finally:
        made.end()


@pytest.fixture
def desk(live: LiveSite, run: Run) -> Desk:
    """Return what calls the commands of the site."""
    return Desk(live, run)


@pytest.mark.gate("the way of a virtual cluster, from the first command to the last one")
def test_a_virtual_cluster_is_made_changed_and_given_back(live: LiveSite, desk: Desk) -> None:
    live.metal["vclusters"] = {"shop": {"template": "shop", "nodes": [{"count": 2}]}}
    live.write()
    desk.act("create", "shop")
    desk.check(shop=2)
    before = live.disks(), live.history(), desk.data("decisions", "metal")
    assert NOTHING in desk.act("create", "shop")
    assert (live.disks(), live.history(), desk.data("decisions", "metal")) == before
    (seen,) = desk.data("vcluster", "status", "shop")["vclusters"]
    assert seen == desk.list()["shop"]
    why = desk.data("vcluster", "why", "shop")
    reasons = {it["machine"]: it["reason"] for it in why["reasons"]}
    assert reasons == {"m01": "is shop-1", "m02": "is shop-2", "m03": "", "m04": ""}
    desk.act("resize", "shop", "--count", "4")
    desk.check(shop=4)
    assert live.disks().items() >= before[0].items(), "nodes that were there are left alone"
    desk.act("resize", "shop", "--count", "1")
    desk.check(shop=1)
    assert desk.nodes() == {"shop-1": "m01"}
    desk.act("release", "shop")
    desk.check()
    desk.ran("vcluster", "status", "shop", code=64)
    assert NOTHING in desk.ran("apply", "--yes")


@pytest.mark.gate("the first command of all, before there is a boot server")
def test_the_first_command_of_a_site_creates(tmp_path: Path, run: Run) -> None:
    live = LiveSite(tmp_path, machines=2)
    live.free()
    try:
        desk = Desk(live, run)
        desk.act("create", "shop", *OF_SHOP, "2")
        desk.check(shop=2)
    finally:
        live.end()


@pytest.mark.gate("requests that are refused as a whole")
def test_a_request_that_cannot_be_met_changes_nothing(live: LiveSite, desk: Desk) -> None:
    desk.act("create", "shop", *OF_SHOP, "3")
    before = live.disks(), live.history(), desk.data("decisions", "metal")
    for words in (
        ("create", "lab", *OF_SHOP, "2"),
        ("create", "lab", *OF_SHOP, "1", "--where", "rack == z"),
        ("create", "lab", *OF_SHOP, "2", "--priority", "5"),
        ("resize", "shop", "--count", "5"),
    ):
        said = desk.act(*words, code=1)
        for name in ("m01", "m02", "m03", "m04"):
            assert name in said, said
        assert "nothing was changed" in said
    assert (live.disks(), live.history(), desk.data("decisions", "metal")) == before
    desk.check(shop=3)


# Two at once.


def create_at_once(live: LiveSite, count: int) -> list[int]:
    """Have two processes create `one` and `two`, with so many nodes; return the exit codes."""
    pids = [
        live.start("vcluster", "create", name, *OF_SHOP, str(count), "--yes")
        for name in ("one", "two")
    ]
    return [exit_code(it) for it in pids]


def check_last_four(live: LiveSite, desk: Desk) -> None:
    """Have two processes ask for four machines at once; give them back."""
    codes = create_at_once(live, 4)
    assert sorted(codes) == [0, 1], live.said()
    won, lost = ("one", "two") if codes[0] == 0 else ("two", "one")
    assert f"{lost} cannot have 4 more nodes" in live.said()
    assert f"is in {won}, of priority 0" in " ".join(live.said().split())
    desk.check(system(SERVES), **{won: 4})
    desk.act("release", won)


@pytest.mark.gate("the last machines, of which each is one's only")
def test_of_two_that_ask_for_the_last_machines_one_gets_them_all(
    live: LiveSite, desk: Desk
) -> None:
    check_last_four(live, desk)


@pytest.mark.full("the same, and that both get what they ask for where there is enough")
def test_two_at_once_again_and_again(live: LiveSite, desk: Desk) -> None:
    for _ in range(5):
        check_last_four(live, desk)
        assert create_at_once(live, 2) == [0, 0], live.said()
        desk.check(one=2, two=2)
        assert desk.nodes()["one-1"] != desk.nodes()["two-1"]
        desk.act("release", "one")
        desk.act("release", "two")
        desk.check()


# Death at any moment.


def after_changes(live: LiveSite, count: int) -> Callable[[], bool]:
    """Return a moment: so many changes from now, of the site's state, boot server and machines."""
    last, seen = live.progress(), set[tuple[int, ...]]()
    store = live.folder / ".cobweb"

    def is_there() -> bool:
        seen.add(tuple(it.stat().st_mtime_ns for it in [store / "state.db"] if it.exists()))
        return len(seen) - 1 + live.progress() - last >= count

    return is_there


def begin_and_kill(live: LiveSite, who: str, count: int, *words: str) -> None:
    """Have a command die after some changes, or what it works with."""
    moment = after_changes(live, count)
    pid = live.start("vcluster", *words, "--yes")
    until(lambda: ended(pid) or moment())
    kill(*(it for it in VICTIMS[who](live, pid) if it))
    assert exit_code(pid) in ((0, 1) if who == "server" else (0, -9)), live.said()


def check_death(live: LiveSite, desk: Desk, who: str, count: int, *words: str) -> None:
    """Have a command die after some changes; the same command must end well then."""
    begin_and_kill(live, who, count, *words)
    desk.act(*words)


RUN = pytest.param("run", 3, marks=pytest.mark.full("another one"))


@pytest.mark.gate("one of the moments at which a command may die, of all that may")
@pytest.mark.parametrize(("who", "count"), [RUN, ("all", 20)])
def test_a_command_that_was_killed_is_given_again(
    live: LiveSite, desk: Desk, who: str, count: int
) -> None:
    check_death(live, desk, who, count, "create", "shop", *OF_SHOP, "2")
    desk.check(shop=2)


@pytest.mark.full("moments of all commands, for each that may die")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("who", VICTIMS)
def test_commands_that_are_killed_at_any_moment(live: LiveSite, desk: Desk, who: str) -> None:
    for count in range(0, 60, 6):
        check_death(live, desk, who, count, "create", "shop", *OF_SHOP, "2")
        desk.check(shop=2)
        check_death(live, desk, who, count // 2, "resize", "shop", "--count", "3")
        desk.check(shop=3)
        begin_and_kill(live, who, count // 2, "release", "shop")
        if "shop" in desk.list():
            desk.act("release", "shop")
        desk.ran("apply", "--yes")
        desk.check()


# Others' machines, other images, leases, failures.


@pytest.mark.full("machines that go to a virtual cluster of a higher priority, and come back")
def test_a_higher_priority_takes_what_a_lower_one_can_spare(desk: Desk) -> None:
    desk.act("create", "low", *OF_SHOP, "4", "--min", "1")
    first = desk.nodes()
    desk.act("create", "high", *OF_SHOP, "3", "--priority", "5")
    known = desk.list()
    assert (known["high"]["ready"], known["low"]["short"]) == (3, 3)
    assert len(set(desk.nodes().values())) == 4
    (kept,) = known["low"]["nodes"]
    assert (kept["ready"], first[kept["host"]]) == (True, kept["machine"])
    assert served(kept["address"]).startswith(f"Hello from {kept['host']}.")
    desk.act("expire")
    assert desk.list() == known
    desk.act("release", "high")
    desk.act("expire")
    desk.check(low=4)


@pytest.mark.gate("an image that changes under a virtual cluster")
def test_nodes_keep_their_image_until_they_are_renewed(live: LiveSite, desk: Desk) -> None:
    desk.act("create", "shop", *OF_SHOP, "2")
    before, begun = live.disks(), len(live.history())
    content = system(SERVES, "# anew")
    live.store("web", content)
    desk.ran("apply", "--yes")
    assert (live.disks(), len(live.history())) == (before, begun)
    desk.check(shop=2)
    assert [it["renewable"] for it in desk.list()["shop"]["nodes"]] == [True, True]
    desk.act("renew", "shop")
    desk.check(content, shop=2)
    after = live.history()[begun:]
    assert most_out(after) == 1
    assert [it for it in after if it[1] == "write-end"] == [
        ("m01", "write-end"),
        ("m02", "write-end"),
    ]
    assert NOTHING in desk.act("renew", "shop")
    assert live.history()[begun:] == after


@pytest.mark.full("a machine that was switched off, and whose image is an older one")
def test_a_node_with_an_older_image_comes_back_with_it(live: LiveSite, desk: Desk) -> None:
    desk.act("create", "shop", *OF_SHOP, "1")
    before = live.disks()
    live.store("web", system(SERVES, "# anew"))
    desk.ran("apply", "--yes")
    live.switch("m01", "off")
    desk.ran("drift", code=2)
    desk.ran("apply", "--yes")
    assert live.disks() == before
    desk.check(shop=1)


@pytest.mark.full("a lease from notice to end")
def test_a_lease_has_its_notice_and_its_end(live: LiveSite, desk: Desk) -> None:
    desk.act("create", "long", *OF_SHOP, "1", "--for", "1d")
    desk.act("create", "short", *OF_SHOP, "2", "--for", "3s", "--notice", "1s")
    machine = desk.nodes()["short-1"]
    until(lambda: "its nodes are to be left" in desk.act("expire"))
    assert desk.list()["short"]["phase"] == "leaving"
    assert live.switch(machine, "status") == "on"
    until(lambda: "its lease has ended" in desk.act("expire"))
    desk.check(long=1)
    before = live.history()
    assert NOTHING in desk.act("expire")
    assert live.history() == before


@pytest.mark.full("a lease that is made longer after its notice")
def test_a_lease_that_is_extended_goes_on(live: LiveSite, desk: Desk) -> None:
    desk.act("create", "shop", *OF_SHOP, "1", "--for", "3s", "--notice", "1s")
    until(lambda: "its nodes are to be left" in desk.act("expire"))
    before = live.history()
    desk.act("extend", "shop", "--for", "1d")
    desk.act("expire")
    desk.check(shop=1)
    assert live.history() == before


def with_another_mac(live: LiveSite) -> None:
    """Have m01 go on, and never reach its trampoline."""
    power = live.metal["machines"]["m01"]["power"]
    command = [it.replace("{mac}", "52:54:00:00:00:99") for it in power["command"]]
    live.metal["machines"]["m01"]["power"] = {**power, "command": command}
    live.metal["limits"] = {"trampoline": "10s"}
    live.write()


def without_power(live: LiveSite) -> None:
    """Have the power command of m01 fail."""
    live.metal["machines"]["m01"]["power"] = {"kind": "command", "command": ["false", "{action}"]}
    live.metal["limits"] = {"off": "10s"}
    live.write()


@pytest.mark.parametrize(
    ("fail", "code"),
    [
        pytest.param(with_another_mac, 0, marks=pytest.mark.gate("a machine that fails")),
        # It may be on: its own object is not as it is wanted.
        pytest.param(without_power, 1, marks=pytest.mark.full("limits that are awaited")),
    ],
)
def test_a_machine_that_fails_is_replaced(
    live: LiveSite, desk: Desk, fail: Callable[[LiveSite], None], code: int
) -> None:
    fail(live)
    desk.act("create", "shop", *OF_SHOP, "2", code=1)
    assert desk.nodes() == {"shop-1": "m01", "shop-2": "m02"}
    assert desk.list()["shop"]["ready"] == 1
    said = desk.act("expire", code=code)
    assert "shop-1: m01 has failed" in said
    assert desk.nodes() == {"shop-1": "m03", "shop-2": "m02"}
    desk.check(shop=2)
    assert "nothing is due" in desk.act("expire")
    assert desk.nodes() == {"shop-1": "m03", "shop-2": "m02"}


@pytest.mark.full("an image that fails everywhere replaces no machine")
def test_an_image_that_fails_on_two_machines_is_to_blame(live: LiveSite, desk: Desk) -> None:
    live.store("web", system("reset"))
    desk.act("create", "shop", *OF_SHOP, "2", code=1)
    nodes = desk.nodes()
    said = desk.act("expire", code=1)
    assert "its image has failed elsewhere, too: not replaced" in said
    assert desk.nodes() == nodes


# What is left on disks.

MARK = b"a secret of the first virtual cluster"
BEYOND = (4096, 1 << 20, (48 << 20) + 4091, 96 << 20)


def leave_marks(live: LiveSite, machine: str) -> None:
    """Have a system write on its disk beyond its image, while it runs."""
    disk = live.disk(machine)
    end = disk.stat().st_size
    with disk.open("r+b") as file:
        for offset in BEYOND:
            file.seek(end + offset)
            file.write(MARK)


def check_no_marks(live: LiveSite, machine: str) -> None:
    """Check that a disk has nothing of what was left on it, wherever."""
    assert MARK not in live.disk(machine).read_bytes()


@pytest.mark.gate("what one virtual cluster leaves on a disk is not there for the next one")
@pytest.mark.parametrize("live", [1], indirect=True)
def test_no_virtual_cluster_sees_the_disk_of_another(live: LiveSite, desk: Desk) -> None:
    desk.act("create", "one", *OF_SHOP, "1")
    leave_marks(live, "m01")
    live.switch("m01", "off")
    desk.ran("drift", code=2)
    desk.ran("apply", "--yes")
    assert live.disk("m01").read_bytes().count(MARK) == len(BEYOND), "it is its own"
    desk.act("release", "one")
    begun = len(live.history())
    desk.act("create", "two", *OF_SHOP, "1")
    check_no_marks(live, "m01")
    order = [event for _, event in live.history()[begun:]]
    assert order.index("wipe") < order.index("system")
    desk.check(two=1)
    desk.act("release", "two")
    desk.act("create", "two", *OF_SHOP, "1")
    wipes = len(live.history("wipe"))
    leave_marks(live, "m01")
    desk.act("release", "two")
    desk.act("create", "two", *OF_SHOP, "1")
    check_no_marks(live, "m01")
    assert len(live.history("wipe")) == wipes + 1, "it has the name of the one before, and no more"


LARGE = system(SERVES) + b"\0" + hashlib.shake_128(b"noise").digest(48 << 20)


@pytest.mark.full("deaths while a disk is wiped and written")
@pytest.mark.parametrize("live", [1], indirect=True)
@pytest.mark.parametrize(("who", "wipe"), [*((it, "zero") for it in VICTIMS), ("all", "discard")])
def test_no_death_leaves_anything_of_another_virtual_cluster(
    live: LiveSite, desk: Desk, who: str, wipe: str
) -> None:
    live.metal["templates"]["shop"]["wipe"] = wipe
    live.write()
    desk.act("create", "one", *OF_SHOP, "1")
    leave_marks(live, "m01")
    desk.act("release", "one")
    live.store("web", LARGE)
    writes = len(live.history("write-begin"))
    pid = live.start("vcluster", "create", "two", *OF_SHOP, "1", "--yes")
    until(lambda: ended(pid) or len(live.history("write-begin")) > writes)
    kill(*(it for it in VICTIMS[who](live, pid) if it))
    assert exit_code(pid) in ((0, 1) if who == "server" else (0, -9)), live.said()
    desk.act("create", "two", *OF_SHOP, "1")
    check_no_marks(live, "m01")
    desk.check(LARGE, two=1)
