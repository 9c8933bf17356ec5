"""The life of a machine: what the pure functions promise for any order of events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobweb_plugins.metal.server import _life as life
from cobweb_plugins.metal.server import _records as records
from cobweb_plugins.metal.server._records import Goal, Record, record_of
from tests.support.examples import examples

IMAGES = {letter: {"sha256": letter * 64, "bytes": size} for letter, size in (("a", 10), ("b", 20))}
HARDWARE = {"disks": [{"name": "sda", "bytes": 100, "serial": "S1"}]}
PEER = "10.0.0.9"
VCLUSTERS = ("", "shop/1", "db/2")
WIPES = (records.DISCARD, records.ZERO, records.NONE)
RESTS = {records.OFF, records.TRAMPOLINE, records.PRIMED, records.ACTIVE, records.UNKNOWN}


def goal_of(state: str, image: str = "a", **more: Any) -> Goal:
    """Return a goal, with an image where the state asks for one."""
    pictured = state in (records.PRIMED, records.ACTIVE)
    known = {"name": "web1", "address": "10.0.0.1", "owner": "m01"} if pictured else {}
    return Goal(state=state, image=IMAGES[image] if pictured else None, **(known | more))


GOALS = st.one_of(
    st.sampled_from([goal_of(records.OFF), goal_of(records.TRAMPOLINE)]),
    st.builds(
        goal_of,
        st.sampled_from([records.PRIMED, records.ACTIVE]),
        st.sampled_from(sorted(IMAGES)),
        owner=st.sampled_from(["m01", "shop"]),
        name=st.sampled_from(["web1", "web2"]),
        boots=st.integers(1, 2),
        vcluster=st.sampled_from(VCLUSTERS),
        wipe=st.sampled_from(WIPES),
    ),
)


class World:
    """A machine beside its record: what its disks really hold, and whether it is on.

    `content` are the virtual clusters that have left something on its disks, "" for none, and
    `taken` is the order that its trampoline carries out, with the virtual cluster that gave it.
    """

    def __init__(self) -> None:
        self.record = Record(id="m01", mac="52:54:00:00:00:01", power={})
        self.now = 1000.0
        self.on = False
        self.disk = ""
        self.content: set[str] = set()
        self.taken: tuple[tuple[str, ...], str] | None = None
        self.runs = ""
        self.tokens = 0
        self.orders = 0

    def aim(self, goal: Goal) -> None:
        """Send it to a goal by an order of its own."""
        self.orders += 1
        self.record = life.aimed(self.record, goal, f"s/1/{self.orders}", self.now)

    @property
    def peer(self) -> tuple[str, str]:
        return self.record.boot.token, PEER

    def boot(self) -> None:
        """Have the firmware ask, and do what it is told."""
        self.tokens += 1
        self.record, told = life.asked_to_boot(self.record, PEER, f"m01.{self.tokens}", self.now)
        self.runs, self.taken = "", None
        if told == life.DISK:
            runs = self.record.runs
            assert runs is not None
            assert self.disk == runs.digest, "it boots what it was not primed with"
            assert self.content == {runs.vcluster}, "it sees what another virtual cluster left"
            self.runs = self.disk
        elif told == life.HELD:
            self.on = False

    def hello(self) -> None:
        if self.record.boot.token:
            self.record = life.said_hello(self.record, HARDWARE, self.peer, self.now)

    def take(self) -> None:
        """Have the trampoline begin with what it is ordered."""
        record = self.record
        if self.taken is None and record.boot.token and record.phase != records.STARTING:
            self.taken = life.order(record), record.goal.vcluster

    def wipe(self) -> None:
        """Have the trampoline come as far as to have wiped the disks, if it is to."""
        self.take()
        if self.taken and self.taken[0][0] == "prime" and self.taken[0][-1] != records.NONE:
            self.disk, self.content = "", set()

    def obey(self, word: str = "") -> None:
        """Have the trampoline do what it is ordered; `word` is what it says instead."""
        self.wipe()
        (order, vcluster), self.taken = self.taken or (("wait",), ""), None
        if order[0] == "boot" and self.record.phase == records.BOOTING:
            self.boot()
        elif order[0] == "prime":
            self.disk = word or order[1]
            self.content.add(vcluster)
            if self.record.boot.token:  # else it writes in vain, and until its power goes
                self.tell()

    def tell(self) -> None:
        """Have the trampoline say what it has read back."""
        goal = self.record.goal
        assert self.record.phase == records.PRIMING
        self.record = life.told(self.record, "primed", self.disk, self.now)
        if goal.wipe == records.NONE and self.record.disk:  # nobody minds what was there
            self.content = {goal.vcluster}

    def power_off(self) -> None:
        """Do what the worker does in the phase `stopping`."""
        if self.record.phase == records.STOPPING:
            self.on, self.runs, self.taken = False, "", None
            self.record = life.switched_off(self.record, self.now)

    def power_on(self) -> None:
        if self.record.phase == records.STARTING:
            self.on = True
            self.boot()

    def clear(self) -> None:
        """Do what the worker does where nobody answers yet."""
        if self.record.phase == records.BOOTING:
            self.record = life.cleared(self.record, self.now)

    def ready(self) -> None:
        if self.runs:
            self.record = life.answered(self.record, self.now)

    def cooperate(self) -> None:
        """Do all that is to be done until nothing is under way."""
        for _ in range(20):
            if self.record.over:
                return
            steps = (self.power_off, self.power_on, self.hello, self.clear, self.obey, self.ready)
            for step in steps:
                step()
        raise AssertionError(f"it never ends: {self.record}")

    def reach(self, goal: Goal) -> None:
        """Send it to a goal, and have it get there."""
        self.aim(goal)
        self.cooperate()

    def come(self, goal: Goal, wipe: str) -> None:
        """Have it on the trampoline, whose order has begun when another way to wipe comes."""
        self.reach(goal_of(records.TRAMPOLINE))
        self.aim(goal)
        self.take()
        self.aim(replace(goal, wipe=wipe))

    def check(self) -> None:
        record = self.record
        under_way = record.phase in records.UNDER_WAY
        assert under_way == (not record.over)
        assert under_way == (record.deadline is not None)
        if record.disk is not None:
            assert self.disk == record.disk.sha256
        if record.phase in (records.ACTIVE, records.BOOTING, records.PRIMED):
            assert record.runs is not None
            assert self.disk == record.runs.digest
            assert self.content == {record.runs.vcluster} == {record.vcluster}
        if record.vcluster != records.MIXED:
            assert self.content <= {record.vcluster}
        if record.phase in (records.OFF, records.STOPPING):
            assert not record.boot.token
        assert record_of(record.as_json()) == record


EVENTS = st.one_of(
    st.tuples(st.sampled_from(["aim", "reach"]), GOALS),
    st.tuples(st.just("come"), GOALS, st.sampled_from(WIPES)),
    st.tuples(
        st.sampled_from(
            [
                *("boot", "hello", "obey", "power_off", "power_on"),
                *("clear", "ready", "restart", "again", "take", "wipe"),
            ]
        )
    ),
    st.tuples(st.just("obey"), st.sampled_from(["", "c" * 64])),
    st.tuples(st.just("late"), st.integers(1, 5000)),
    st.tuples(st.just("seen"), st.sampled_from(["on", "off", "unknown"])),
)


def apply(world: World, event: tuple[Any, ...]) -> None:
    """Have something happen to a machine."""
    record, now = world.record, world.now
    match event:
        case "late", seconds:
            world.now += seconds
            world.record = life.overdue(record, world.now, "the switch is broken")
        case "seen", power:
            if power == "off":
                world.on, world.runs, world.taken = False, "", None
            world.record = life.seen(record, power, now)
        case ("restart",):
            world.record = life.restarted(record, now, can_stop=True)
        case ("again",):
            world.record = life.again(record, now) if record.phase == records.ACTIVE else record
        case _:
            getattr(world, event[0])(*event[1:])


@settings(max_examples=examples(2000))
@given(st.lists(EVENTS, max_size=30), GOALS)
def test_after_anything_a_machine_that_obeys_reaches_its_goal(
    events: list[tuple[Any, ...]], goal: Goal
) -> None:
    world = World()
    for event in events:
        apply(world, event)
        world.check()
    world.aim(goal)
    world.check()
    world.cooperate()
    world.check()
    assert (world.record.failure, world.record.phase) == ("", goal.state)
    if goal.state == records.ACTIVE:
        assert world.runs == goal.digest
        assert world.record.runs == goal


def at(state: str, image: str = "a") -> World:
    """Return a machine that rests in a state."""
    world = World()
    world.aim(goal_of(state, image))
    world.cooperate()
    return world


def test_the_same_goal_under_way_is_adopted_and_another_one_ended_by_power() -> None:
    world = at(records.TRAMPOLINE)
    goal = goal_of(records.PRIMED)
    world.aim(goal)
    assert world.record.phase == records.PRIMING
    before, peer = world.record, world.peer
    world.aim(goal)
    assert world.record == replace(before, key="s/1/3")
    world.aim(goal_of(records.PRIMED, "b"))
    assert world.record.phase == records.STOPPING
    with pytest.raises(life.NotCurrentError):
        life.spoken(world.record, peer)


def test_an_order_that_comes_twice_is_carried_out_once() -> None:
    world = at(records.PRIMED)
    goal = goal_of(records.ACTIVE)
    world.aim(goal)
    failed = life.switched_off(life.failed(world.record, "no luck", 1.0), 1.0)
    assert life.aimed(failed, goal, failed.key, 2.0) == failed
    assert life.aimed(failed, goal, "s/1/99", 2.0).phase == records.STARTING


@pytest.mark.parametrize(
    ("booted", "owner", "serial", "vcluster", "phase"),
    [
        (False, "m01", "S1", "shop/1", records.PRIMED),
        (True, "m01", "S1", "shop/1", records.PRIMED),
        (False, "shop", "S1", "shop/1", records.PRIMED),
        (True, "shop", "S1", "shop/1", records.PRIMING),
        (False, "m01", "S2", "shop/1", records.PRIMING),
        (False, "m01", "S1", "db/2", records.PRIMING),
        (False, "m01", "S1", "", records.PRIMING),
        (False, "m01", "S1", records.MIXED, records.PRIMING),
    ],
)
def test_a_disk_is_not_written_again_where_nothing_else_can_be_on_it(
    *, booted: bool, owner: str, serial: str, vcluster: str, phase: str
) -> None:
    world = at(records.TRAMPOLINE)
    disk = records.Disk(name="sda", serial=serial, sha256="a" * 64, owner=owner, booted=booted)
    world.record = replace(world.record, disk=disk, vcluster=vcluster)
    world.aim(goal_of(records.PRIMED, vcluster="shop/1"))
    assert world.record.phase == phase


@pytest.mark.parametrize(
    ("before", "after", "wipe", "ordered"),
    [
        ("", "", "discard", "none"),
        ("", "shop/1", "discard", "discard"),
        ("shop/1", "shop/1", "zero", "none"),
        ("shop/1", "db/2", "zero", "zero"),
        ("shop/1", "db/2", "none", "none"),
        ("shop/1", "", "discard", "discard"),
        (records.MIXED, "", "zero", "zero"),
    ],
)
def test_disks_are_wiped_between_virtual_clusters_also_after_a_restart(
    before: str, after: str, wipe: str, ordered: str
) -> None:
    world = at(records.TRAMPOLINE)
    world.record = replace(world.record, vcluster=before)
    world.aim(goal_of(records.PRIMED, vcluster=after, wipe=wipe))
    assert life.order(world.record) == ("prime", "a" * 64, "10", "sda", ordered)
    assert world.record.vcluster == (after if before == after else records.MIXED)
    kept = record_of(world.record.as_json())
    assert life.order(life.restarted(kept, world.now, can_stop=True))[-1] == ordered
    lost = life.failed(world.record, "no luck", world.now)
    assert lost.vcluster == world.record.vcluster, "whoever is next has them wiped"
    world.obey()
    assert (world.record.phase, world.record.vcluster) == (records.PRIMED, after)


def test_what_a_trampoline_does_by_another_method_of_wiping_is_ended_by_power() -> None:
    world = at(records.TRAMPOLINE)
    world.aim(goal_of(records.PRIMED, vcluster="shop/1", wipe="none"))
    world.aim(goal_of(records.PRIMED, vcluster="shop/1", wipe="discard"))
    assert world.record.phase == records.STOPPING
    world.cooperate()
    world.aim(goal_of(records.PRIMED, vcluster="shop/1", wipe="zero"))
    assert (world.record.phase, world.record.over) == (records.PRIMED, True)


def test_a_look_at_the_hardware_leaves_it_open_whose_content_the_disks_have() -> None:
    world = at(records.OFF)
    world.record = replace(world.record, vcluster="shop/1")
    for state in (records.TRAMPOLINE, records.OFF):
        world.aim(goal_of(state))
        world.cooperate()
    assert world.record.vcluster == "shop/1"


@pytest.mark.parametrize("boots", [1, 2])
def test_a_system_that_resets_too_often_is_a_failed_boot(boots: int) -> None:
    world = at(records.PRIMED)
    world.aim(goal_of(records.ACTIVE, boots=boots))
    for _ in range(boots):
        world.boot()
        assert world.record.phase == records.BOOTING
    world.boot()
    world.power_off()
    assert world.record.phase == records.OFF
    assert "a failed boot" in world.record.failure
    assert "phase booting; last heard: its firmware asked" in world.record.failure


@pytest.mark.parametrize(
    ("start", "goal", "limit_s"),
    [
        (records.OFF, records.TRAMPOLINE, 600),
        (records.TRAMPOLINE, records.PRIMED, 3600),
        (records.PRIMED, records.ACTIVE, 900),
        (records.ACTIVE, records.OFF, 300),
    ],
)
def test_a_limit_that_is_missed_ends_with_power_off(start: str, goal: str, limit_s: int) -> None:
    world = at(start)
    world.aim(goal_of(goal))
    record = world.record
    assert life.overdue(record, world.now + limit_s - 1) == record
    record = life.overdue(record, world.now + limit_s, "no answer")
    assert f"within {limit_s} s: no answer" in record.failure
    if goal == records.OFF:
        assert (record.phase, record.over) == (records.UNKNOWN, True)
    else:
        assert record.phase == records.STOPPING
        record = life.switched_off(record, world.now)
        assert (record.phase, record.over) == (records.OFF, True)


def test_an_active_machine_may_boot_again_and_is_not_touched() -> None:
    world = at(records.ACTIVE)
    world.boot()
    assert (world.record.phase, world.runs) == (records.ACTIVE, "a" * 64)


@pytest.mark.parametrize("state", [records.OFF, records.TRAMPOLINE, records.PRIMED])
def test_a_machine_that_starts_unasked_is_held_and_told(state: str) -> None:
    world = at(state)
    world.boot()
    assert (world.record.phase, world.on) == (records.UNKNOWN, False)
    assert not world.record.boot.token


def test_a_word_of_a_boot_that_is_over_makes_an_off_machine_unknown() -> None:
    world = at(records.TRAMPOLINE)
    token = world.record.boot.token
    world.aim(goal_of(records.OFF))
    world.cooperate()
    assert life.spoken_late(world.record, "m01.guess", 1.0) == world.record
    assert life.spoken_late(world.record, token, 1.0).phase == records.UNKNOWN


def test_a_disk_that_is_too_small_is_not_touched() -> None:
    world = at(records.TRAMPOLINE)
    image = {"sha256": "d" * 64, "bytes": 101}
    goal = replace(goal_of(records.PRIMED), image=image)
    world.aim(goal)
    assert world.record.phase == records.STOPPING
    assert "none of its disks holds the 101 bytes" in world.record.failure


def test_what_was_read_back_must_be_the_image() -> None:
    world = at(records.TRAMPOLINE)
    world.aim(goal_of(records.PRIMED))
    world.obey("e" * 64)
    assert world.record.disk is None
    assert f"what was read back from its disk has the SHA-256 {'e' * 64}" in world.record.failure


def test_a_system_starts_again_from_the_power_on_and_keeps_its_disk() -> None:
    world = at(records.ACTIVE)
    world.record = life.again(world.record, world.now)
    assert world.record.phase == records.STOPPING
    world.cooperate()
    assert (world.record.phase, world.runs) == (records.ACTIVE, "a" * 64)


def test_an_order_for_what_is_there_already_is_over_at_once() -> None:
    for state in (records.OFF, records.TRAMPOLINE, records.PRIMED, records.ACTIVE):
        world = at(state)
        before = world.record
        world.now += 5
        world.aim(goal_of(state))
        assert world.record == replace(before, key=world.record.key)


def test_a_machine_that_starts_while_it_is_primed_has_failed() -> None:
    world = at(records.TRAMPOLINE)
    world.aim(goal_of(records.PRIMED))
    world.boot()
    assert (world.record.phase, world.on) == (records.STOPPING, False)
    assert "it started again while it was primed" in world.record.failure
    world.boot()
    assert world.record.phase == records.STOPPING


def test_words_at_the_wrong_time_change_nothing_but_the_last_word() -> None:
    world = at(records.ACTIVE)
    before = world.record
    for found in (
        life.told(before, "primed", "f" * 64, 2000.0),
        life.told(before, "priming", "", 2000.0),
    ):
        assert replace(found, word=before.word, word_time=before.word_time) == before
    assert life.answered(before, 2000.0) == before
    assert life.switched_off(before, 2000.0) == before
    assert life.overdue(before, 9e9) == before


def test_a_word_in_time_lets_priming_go_on_and_a_failure_ends_it() -> None:
    world = at(records.TRAMPOLINE)
    world.aim(goal_of(records.PRIMED))
    record = life.told(world.record, "priming", "", world.now)
    assert (record.phase, record.word) == (records.PRIMING, "priming")
    record = life.told(record, "failed", "no room", world.now)
    assert record.phase == records.STOPPING
    assert record.failure == "no room (phase priming; last heard: failed: no room)"


@pytest.mark.parametrize(
    ("state", "power", "phase"),
    [
        (records.ACTIVE, "off", records.OFF),
        (records.ACTIVE, "unknown", records.ACTIVE),
        (records.ACTIVE, "on", records.ACTIVE),
        (records.OFF, "off", records.OFF),
        (records.OFF, "on", records.UNKNOWN),
    ],
)
def test_what_power_says_of_a_machine_at_rest_is_believed(
    state: str, power: str, phase: str
) -> None:
    assert life.seen(at(state).record, power, 2000.0).phase == phase


def test_a_machine_that_loses_its_power_on_its_way_has_failed() -> None:
    world = at(records.TRAMPOLINE)
    world.aim(goal_of(records.PRIMED))
    assert life.seen(world.record, "on", 2000.0) == world.record
    lost = life.seen(world.record, "off", 2000.0)
    assert lost.phase == records.STOPPING
    assert lost.failure.startswith("its power was found off (phase priming")
    assert life.seen(lost, "off", 2000.0) == lost


def test_a_system_may_boot_once_nobody_else_answers_for_it() -> None:
    world = at(records.PRIMED)
    world.aim(goal_of(records.ACTIVE))
    assert life.order(world.record) == ("wait",)
    other = life.answered(world.record, world.now)
    assert other.failure.startswith("something else answers at 10.0.0.1:22")
    world.clear()
    assert life.order(world.record) == ("boot",)
    assert life.answered(world.record, world.now) == world.record
    world.boot()
    assert life.answered(world.record, world.now).phase == records.ACTIVE


@pytest.mark.parametrize("can_stop", [True, False])
def test_after_a_restart_only_trampolines_and_what_rests_go_on(*, can_stop: bool) -> None:
    for state, goal, phase in (
        (records.OFF, records.TRAMPOLINE, records.STOPPING if can_stop else records.STARTING),
        (records.PRIMED, records.ACTIVE, records.STOPPING if can_stop else records.BOOTING),
        (records.TRAMPOLINE, records.PRIMED, records.PRIMING),
        (records.TRAMPOLINE, records.OFF, records.STOPPING),
        (records.ACTIVE, records.ACTIVE, records.ACTIVE),
    ):
        world = at(state)
        world.aim(goal_of(goal))
        record = life.restarted(world.record, world.now + 60, can_stop=can_stop)
        assert record.phase == phase
        assert record.deadline is None or record.deadline > world.now + 60
        assert order_word(record) in ("wait", "off", "boot", "prime")


def order_word(record: Record) -> str:
    return life.order(record)[0]


def active(world: World, host_keys: tuple[str, ...]) -> Record:
    """Return a machine that was brought up, and shows these host keys."""
    world.aim(goal_of(records.ACTIVE))
    for _ in range(2):
        world.power_off()
        world.power_on()
        world.hello()
        world.obey()
    world.clear()
    world.obey()
    world.record = life.answered(world.record, world.now, host_keys)
    return world.record


def test_the_host_keys_that_a_system_had_first_count_until_its_disk_is_primed_anew() -> None:
    world = World()
    assert active(world, ("ed25519 A", "rsa B")).host_keys == ("ed25519 A", "rsa B")
    world.record = life.again(world.record, world.now)
    assert active(world, ("ed25519 A",)).host_keys == ("ed25519 A", "rsa B")
    world.record = life.again(world.record, world.now)
    assert "other host keys" in active(world, ("ed25519 X",)).failure
    world.aim(goal_of(records.PRIMED, "b"))
    world.power_off()
    world.power_on()
    world.hello()
    assert (world.record.phase, world.record.host_keys) == (records.PRIMING, ())


def test_a_name_and_an_address_are_lent_from_before_the_boot_until_the_machine_is_started() -> None:
    world = World()
    lent = {"name": "web1", "address": "10.0.0.1"}
    found: dict[str, list[Any]] = {}
    world.aim(goal_of(records.ACTIVE))
    steps = (world.power_on, world.hello, world.obey, world.clear, world.obey, world.ready)
    for step in steps:
        found.setdefault(world.record.phase, []).append(world.record.lent)
        step()
    assert found == {
        records.STARTING: [None, None],
        records.PRIMING: [None],
        records.BOOTING: [lent, lent, lent],
    }
    assert (world.record.phase, world.record.lent) == (records.ACTIVE, lent)
    world.aim(goal_of(records.OFF))
    world.power_off()
    assert (world.record.phase, world.record.lent) == (records.OFF, lent)
    world.aim(goal_of(records.TRAMPOLINE))
    assert (world.record.phase, world.record.lent) == (records.STARTING, None)
    world = World()
    world.aim(goal_of(records.ACTIVE, domain="shop.test"))
    world.cooperate()
    assert world.record.lent == lent | {"domain": "shop.test"}


def test_a_trampoline_may_say_hello_again() -> None:
    world = at(records.TRAMPOLINE)
    more = {"disks": [{"name": "sdb", "bytes": 5, "serial": "S9"}]}
    record = life.said_hello(world.record, more, world.peer, world.now)
    assert (record.phase, record.hardware) == (records.TRAMPOLINE, more)
