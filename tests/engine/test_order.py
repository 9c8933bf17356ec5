"""The order that people mean, whatever limits, canaries and removals hold back (design, 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from cobweb.engine import Effect, Engine, StartTransition
from cobweb.generation import switching_order
from cobweb.model import CobId, Graph, Need, TransitionNeed, host_of, name_of
from tests.support.examples import examples
from tests.support.graphs import SIMPLE, budget_of, graph_of
from tests.support.rollout import Change, KilledError, Rollout
from tests.support.webs import RELOADED, RESTARTED, STOPPED, agents, migrated, of, rolled, webs
from tests.support.words import after, binds, requires, stops


def first_job(_count: int) -> int:
    """Have jobs end in the order in which they began."""
    return 0


def last_job(count: int) -> int:
    """Have the job end first that began last."""
    return count - 1


ENDS = {"first": first_job, "last": last_job}


NEW = ("j/job", "t/next")


def steps(run: Rollout) -> list[str]:
    """Return the steps of a run without the locks that they hold."""
    return [text.partition(" [")[0] for text in run.told(" -> ")]


@pytest.mark.parametrize("budget", [{}, {"count": 1}, {"count": 1, "first": 1, "pause_s": 9.0}])
def test_a_limit_does_not_turn_the_order_of_a_change_round(budget: dict[str, Any]) -> None:
    """All servers, then the agents: also while a server that waits for its slot is up."""
    run = rolled(agents(1, **budget), agents(2, **budget))
    run.run()
    assert run.engine.unsettled() == ()
    told = steps(run)
    servers = [at for at, text in enumerate(told) if "db down -> up" in text]
    assert sorted(told[max(servers) + 1 :]) == [
        "a/agent outdated -> up",
        "b/agent outdated -> up",
    ]


@pytest.mark.parametrize("words", [{"count": 1}, {"count": 1, "first": 1, "pause_s": 9.0}])
@pytest.mark.parametrize("killed", [False, True])
def test_what_is_new_waits_for_new_content_on_a_host_that_has_switched(
    words: dict[str, Any], *, killed: bool
) -> None:
    """A job, and a server of the next tier, that are not there before the servers change."""
    needs = [need for on in ("a/app", "b/app") for cob in NEW for need in after(cob, on)]
    base, goal = (
        webs(1, "a b", **words),
        webs(2, "a b", *needs, more=dict.fromkeys(NEW, SIMPLE), **words),
    )
    run = rolled(base, goal)
    run.switch_at_once()
    assert run.journal.switched == {"j", "t"}
    if killed:
        run.kill_after = 8
        with pytest.raises(KilledError):
            run.run()
        assert not {*NEW} & {text.split()[0] for text in steps(run)}
    run.run()
    assert run.engine.unsettled() == ()
    assert {text.split()[0] for text in steps(run)[-2:]} == {*NEW}


@pytest.mark.parametrize("words", [{}, {"first": 1}, {"count": 3}])
def test_with_one_limit_over_all_the_migration_comes_first(words: dict[str, Any]) -> None:
    run = rolled(migrated(1, **words), migrated(2, **words))
    run.run()
    assert run.engine.unsettled() == ()
    assert steps(run)[0] == "m/schema outdated -> up"


def test_who_waits_for_new_content_says_for_whom() -> None:
    """Nothing begins on the old schema where the new one fails."""
    run = rolled(migrated(1), migrated(2))
    run.fails = {CobId("m/schema")}
    run.run()
    assert steps(run) == ["m/schema outdated -> up"]
    assert run.why("a/web") == "a/web lock as the goal has it m/schema, m/schema failed"
    run = rolled(agents(1, count=1), agents(2, count=1))
    run.fails = {CobId("t/db")}
    run.run()
    assert [text for text in steps(run) if "agent" in text] == []
    assert run.why("b/agent") == "b/agent lock as the goal has it t/db, t/db failed"


def test_who_waits_for_what_has_no_room_says_so() -> None:
    """The first server fails, and keeps the only room."""
    run = rolled(agents(1, count=1), agents(2, count=1))
    run.fails = {CobId("s/db")}
    run.run()
    assert [text for text in steps(run) if "agent" in text] == []
    assert run.why("a/agent") == "a/agent lock as the goal has it s/db, s/db failed"


def test_a_changed_configuration_of_a_server_waits_for_the_migration_too() -> None:
    """It stops the server, which comes home on the schema that is new."""
    ids = "a/conf m/schema"
    needs = [*stops("a/conf", "a/web"), *after("a/web", "m/schema")]
    graph = graph_of("a/conf a/web m/schema", *needs, budgets=(budget_of("a/web m/schema"),))
    run = rolled(of(1, graph, ids), of(2, graph, ids))
    run.run()
    assert steps(run)[0] == "m/schema outdated -> up"
    assert run.engine.unsettled() == ()


def test_new_configurations_come_in_the_order_of_what_they_stop() -> None:
    """The servers of one tier, one by one, then the next one, as with new versions of these."""
    stopped = [need for host in "cdn" for need in stops(f"{host}/conf", f"{host}/app")]
    needs = [*stopped, *after("n/app", "c/app"), *after("n/app", "d/app")]
    ids = "c/conf d/conf n/conf"
    kinds = {**dict.fromkeys(("c/app", "d/app"), STOPPED), "n/app": SIMPLE}
    graph = graph_of(
        {**dict.fromkeys(ids.split(), SIMPLE), **kinds},
        *needs,
        budgets=(budget_of("c/app d/app"),),
    )
    for at_once in (False, True):
        run = rolled(of(1, graph, ids), of(2, graph, ids))
        if at_once:
            run.switch_at_once()
        run.run()
        assert run.engine.unsettled() == ()
        hosts = [text[0] for text in steps(run)]
        assert hosts == [*"ccc", *"ddd", *"nnn"]


def test_what_is_removed_stays_until_the_configurations_of_its_users_are_new() -> None:
    """The users are as they were; of the last one nothing is done yet when its host switches."""
    ids = "w/app w/conf x/app x/conf"
    stopped = [*stops("w/conf", "w/app"), *stops("x/conf", "x/app")]

    def site(version: int, cache: str) -> Graph:
        needs = [*stopped, *(it for on in "wx" for it in after(f"{on}/app", cache))]
        graph = graph_of(f"{cache} {ids}", *needs, budgets=(budget_of("w/app x/app"),))
        return of(version, graph, "w/conf x/conf")

    run = rolled(site(1, "c/cache"), site(2, "d/cache"))
    run.run()
    assert run.engine.unsettled() == ()
    done = steps(run)
    assert done.index("c/cache up -> down") > done.index("x/conf outdated -> up")
    assert done[0] == "d/cache down -> up"


def test_what_is_removed_stays_until_what_replaces_it_is_there_without_a_limit_too() -> None:
    """Its users are as they were, and nothing of them moves."""
    base = graph_of("c/cache w/app", *after("w/app", "c/cache"))
    goal = graph_of("d/cache w/app", *after("w/app", "d/cache"))
    run = rolled(base, goal)
    run.switch_at_once()
    run.run(lambda jobs: jobs - 1)
    assert steps(run) == ["d/cache down -> up", "c/cache up -> down"]


def test_in_a_circle_that_a_limit_makes_the_old_content_serves() -> None:
    """Each of two units needs the new content of the other one."""
    needs = [*after("a/web", "b/db"), *after("b/web", "a/db")]
    ids = "a/db a/web b/db b/web"
    graph = graph_of(ids, *needs, budgets=(budget_of(ids),))
    run = rolled(of(1, graph, ids), of(2, graph, ids))
    run.run()
    assert run.engine.unsettled() == ()
    assert len(steps(run)) == 4
    assert run.engine.old_content == (("a/web", "b/db"), ("b/web", "a/db"))


def test_without_a_circle_no_old_content_serves() -> None:
    run = rolled(agents(1, count=1), agents(2, count=1))
    run.run()
    assert run.engine.old_content == ()


def test_in_a_circle_that_only_the_run_finds_the_old_content_serves_as_well() -> None:
    """A server is out, takes the only room, and cannot be mended but by what waits for room."""
    run = rolled(migrated(1), migrated(2), {"a/web": "broken"})
    run.journal.served.update(run.change.base.cobs)
    run.run()
    assert run.engine.unsettled() == ()
    assert steps(run)[0].startswith("a/web")
    assert ("a/web", "m/schema") in run.engine.old_content


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("down", ["", "g/r", "h/x g/r"])
def test_what_is_removed_does_not_come_back(down: str, end: str) -> None:
    """It leaves when what replaces it is there, and not before; whichever check ends first."""
    base = graph_of("h/x g/r", *after("g/r", "h/x"))
    goal = graph_of("k/y g/r", *after("g/r", "k/y"))
    run = rolled(base, goal, dict.fromkeys(down.split(), "down"))
    run.run(ENDS[end])
    assert run.engine.unsettled() == ()
    brought = ["k/y down -> up"] + ["g/r down -> up"] * ("g/r" in down)
    assert steps(run) == brought + ["h/x up -> down"] * ("h/x" not in down)


def test_what_is_removed_stays_for_whom_it_was_there_until_that_has_gone_over() -> None:
    """A failure there keeps it, and says so."""
    base = of(1, graph_of("h/x g/r", *after("g/r", "h/x")), "g/r")
    goal = of(2, graph_of("k/y g/r", *after("g/r", "k/y")), "g/r")
    run = rolled(base, goal)
    run.fails = {CobId("g/r")}
    run.run()
    assert steps(run) == ["k/y down -> up", "g/r outdated -> up"]
    assert run.why("h/x") == "h/x lock as the goal has it g/r, g/r failed"
    run = rolled(base, goal)
    run.dead = {"g"}
    run.run()
    assert "h/x up -> down" not in steps(run)
    assert run.why("h/x") == "h/x lock as the goal has it g/r, g/r unreachable g"


@pytest.mark.parametrize("end", ENDS)
def test_a_whole_stack_is_replaced_before_it_goes(end: str) -> None:
    """A database, and a server that has to go before that does: the client is over before both."""
    base = graph_of("d/db s/app c/client", *requires("s/app", "d/db"), *after("c/client", "s/app"))
    goal = graph_of("e/db t/app c/client", *requires("t/app", "e/db"), *after("c/client", "t/app"))
    run = rolled(of(1, base, "c/client"), of(2, goal, "c/client"))
    run.run(ENDS[end])
    assert run.engine.unsettled() == ()
    assert steps(run) == [
        "e/db down -> up",
        "t/app down -> up",
        "c/client outdated -> up",
        "s/app up -> down",
        "d/db up -> down",
    ]


@pytest.mark.parametrize("end", ENDS)
def test_who_is_taken_out_by_a_removal_is_so_once(end: str) -> None:
    """Its successor is there before: it is out for no longer than the removal takes."""
    base = graph_of("h/x g/r", *requires("g/r", "h/x"))
    goal = graph_of("k/y g/r", *requires("g/r", "k/y"))
    run = rolled(base, goal)
    run.run(ENDS[end])
    assert run.engine.unsettled() == ()
    assert steps(run) == ["k/y down -> up", "g/r up -> down", "h/x up -> down", "g/r down -> up"]


def test_who_needs_what_is_removed_gone_is_not_waited_for() -> None:
    """Nor is who can go over only when that is gone: it is on the same host."""
    base = graph_of("h/x g/r", *after("g/r", "h/x"), "g/r outdated>up h/x down")
    goal = graph_of("g/r")
    run = rolled(of(1, base, "g/r"), of(2, goal, "g/r"))
    run.run()
    assert run.engine.unsettled() == ()
    base, goal = graph_of("h/x h/r", *after("h/r", "h/x")), graph_of("h/r")
    run = rolled(of(1, base, "h/r"), of(2, goal, "h/r"))
    run.run()
    assert steps(run) == ["h/x up -> down", "h/r outdated -> up"]


def test_an_engine_that_owns_a_part_asks_nothing_of_what_others_own() -> None:
    """Neither of what is changed there, nor of what stays."""
    needs = [*after("a/web", "b/app"), *stops("a/web", "b/db"), *requires("b/app", "m/schema")]
    graph = graph_of("a/web b/app b/db m/schema", *needs, budgets=(budget_of("a/web m/schema"),))
    ids = "a/web m/schema"
    change = rolled(of(1, graph, ids), of(2, graph, ids)).change
    engine = Engine(change.merged(), owned={CobId("a/web")}, change=change.changeover())
    effects = engine.start({CobId("a/web"): "up"}, changed=frozenset({CobId("a/web")}))
    assert effects
    assert engine.unsettled() == (CobId("a/web"),)


LAYERS = ["pkg", "daemon", "vol"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("hosts", ["h h h", "p d v"])
def test_layers_of_which_each_goes_only_while_the_next_is_up_go_in_three_steps(
    hosts: str, end: str
) -> None:
    """A volume can go only while its daemon is up, and the package goes when that is down."""
    pkg, daemon, vol = (f"{host}/{it}" for host, it in zip(hosts.split(), LAYERS, strict=True))
    needs = [*requires(daemon, pkg), *after(vol, daemon), f"{vol} up>down {daemon} up"]
    run = rolled(graph_of(f"{pkg} {daemon} {vol} z/other", *needs), graph_of("z/other"))
    run.run(ENDS[end])
    assert run.engine.unsettled() == ()
    assert steps(run) == [f"{it} up -> down" for it in (vol, daemon, pkg)]


def test_of_deeper_layers_the_look_ahead_knows_the_order() -> None:
    """The rules alone get there as well, by more steps."""
    ids = [f"h/l{number}" for number in range(5)]
    needs = [
        need
        for low, high in pairwise(ids)
        for need in (*after(high, low), f"{high} up>down {low} up")
    ]
    run = rolled(graph_of(" ".join((*ids, "z/other")), *needs), graph_of("z/other"))
    graph = run.change.merged()
    engine = Engine(graph, change=run.change.changeover())
    (order,) = engine.foresee(dict.fromkeys(graph.cobs, "up"))
    assert [cob for cob, _ in order.steps] == ids[::-1]
    run.run()
    assert run.engine.unsettled() == ()


# --- random sites, and a checker that knows nothing of the engine

KINDS = (STOPPED, RELOADED, RESTARTED, SIMPLE)


def stopped_by(a: str, x: str) -> list[str]:
    """Return the needs of `stops`, of the object that is stopped."""
    return stops(x, a)


WORDS: tuple[Callable[[str, str], list[str]], ...] = (after, after, requires, binds, stopped_by)


@dataclass(frozen=True)
class Site:
    """Some generations of a site whose names have hosts of their own, one or two each.

    What needs what is the same in all of them, as far as it is there.
    """

    generations: tuple[Graph, ...]
    down: frozenset[CobId]

    @classmethod
    def draw(cls, random: Random) -> Site:
        """Draw one: who needs whom, who is in which generation in which version, and limits."""
        names = "pqrst"[: random.randint(2, 5)]
        ids = [f"{it}{at}/{it}" for it in names for at in range(random.randint(1, 2))]
        kinds = {it: random.choice(KINDS) for it in names}
        words = [cls._word(random, names) for _ in range(random.randint(1, 5))]
        budgets = [
            (random.choice(["", *names]), random.randint(1, 2)) for _ in range(random.randint(0, 2))
        ]
        first = random.choice([0, 0, 1]) if len(budgets) == 1 else 0
        generations: list[Graph] = []
        versions = dict.fromkeys(ids, 1)
        for number in range(random.randint(2, 4)):
            there = [cob for cob in ids if random.random() < 0.85]
            for cob in there if number else ():
                versions[cob] += random.random() < 0.6
            needs = {
                need
                for word, one, other in words
                for a in there
                for x in there
                if (name_of(CobId(a)), name_of(CobId(x))) == (one, other)
                for need in word(a, x)
            }
            limits = [
                budget_of(" ".join(members), count, name=f"l{at}", first=first)
                for at, (name, count) in enumerate(budgets)
                if (members := [cob for cob in there if name in ("", name_of(CobId(cob)))])
            ]
            graph = graph_of(
                {cob: kinds[name_of(CobId(cob))] for cob in there},
                *sorted(needs),
                budgets=tuple(limits),
            )
            for cob in there:
                graph = of(versions[cob], graph, cob)
            generations.append(graph)
        down = {CobId(cob) for cob in ids if random.random() < 0.1}
        return cls(tuple(generations), frozenset(down))

    @staticmethod
    def _word(random: Random, names: str) -> tuple[Callable[[str, str], list[str]], str, str]:
        other, one = sorted(random.sample(names, 2))
        return random.choice(WORDS), one, other

    def changes(self) -> list[Change]:
        """Return one change after the other, with the order of switching."""
        found = []
        for base, goal in pairwise(self.generations):
            removed = frozenset(Change(base=base, goal=goal).removed())
            order = tuple((it.hosts, it.after) for it in switching_order(base, removed).steps)
            found.append(Change(base=base, goal=goal, order=order))
        return found


class Silent(Rollout):
    """Does not ask why a removed object stays for which a limit is too small: nothing says so."""

    def _is_explained(self) -> None:
        """See nothing."""


class Checker:
    """Watches one change from outside: `wrong` says what is not as people mean it."""

    def __init__(self, run: Rollout) -> None:
        self.run = run
        self.goal = run.change.goal
        self.removed = run.change.removed()
        self.new = run.change.changed() | run.change.added()
        self.out = {cob for cob, state in run.real.items() if state != "up"}
        # Down before the run, on a host that had switched: it comes up by what it needs now.
        switched = frozenset(run.journal.switched)
        self.lose_nothing = {cob for cob in self.out if host_of(cob) in switched}
        self.over: set[CobId] = set()
        self.wrong: list[str] = []

    def __call__(self, effect: Effect) -> None:
        """Look at a step that is about to begin."""
        if not isinstance(effect, StartTransition):
            return
        cob, step = effect.cob, effect.transition
        self.over.update(filter(self._is_new, self.new))
        if effect.target != "up":
            self.out.add(cob)
        if cob in self.removed:
            if step.dest == "up":
                self.wrong.append(f"{cob} is removed and comes back")
            self._leaves(cob)
        elif cob in self.new and step.dest == "up" and not self.run.engine.stands_in_base(cob):
            self._arrives(cob, step.source)

    def _arrives(self, cob: CobId, source: str) -> None:
        """See that all is new that a step to new content needs.

        But where one that is out, or made way for others, takes room for which that waits.
        """
        for need in self.goal.needs:
            if need.cob != cob or not asks_up(need) or need.on not in self.new:
                continue
            if not self._is_new(need.on) and not self._lacks_room(need.on):
                self.wrong.append(f"{cob} {source} -> up on the old {need.on}")
            elif not self._is_new(need.on) and (cob, need.on) not in self.run.engine.old_content:
                self.wrong.append(f"{cob} {source} -> up on the old {need.on}, and nobody says so")

    def _lacks_room(self, cob: CobId) -> bool:
        limits = ({cob for unit in it.units for cob in unit.members} for it in self.goal.budgets)
        return any(cob in members and members & self.out for members in limits)

    def _leaves(self, cob: CobId) -> None:
        """See that who stays has gone over before that is taken away which it needed."""
        base = self.run.change.base
        change, base = self.run.change, self.run.change.base
        if any(need.on == cob and need.state == "down" for need in base.needs):
            return  # who is to go over may need it gone
        if any(before for _, before in change.order):
            return  # hosts can go over to what is new only after removals
        for need in base.needs:
            if (
                need.on != cob
                or not asks_up(need)
                or need.cob in self.removed | taken_out(base, cob)
            ):
                continue
            if need.cob in self.lose_nothing:
                continue
            users = {need.cob, *self._renewing(need.cob)} - taken_out(base, cob)
            if late := users & self.new - self.over:
                self.wrong.append(f"{cob} leaves before {min(late)} has gone over")
            if need.cob in self.goal.cobs and self.run.real[need.cob] == "up":
                needed = {it.on for it in self.goal.needs if it.cob == need.cob and asks_up(it)}
                if late := needed & self.new - self.over - taken_out(base, cob):
                    self.wrong.append(f"{cob} leaves {need.cob} before {min(late)} is there")

    def _renewing(self, cob: CobId) -> set[CobId]:
        """Return what takes an object out for its own new content, as a configuration does."""
        needs = (it for it in self.goal.needs if it.on == cob and it.state == "down")
        return {it.cob for it in needs if isinstance(it, TransitionNeed) and it.dest != "down"}

    def _is_new(self, cob: CobId) -> bool:
        content = self.goal.cobs[cob].spec
        return self.run.real.get(cob) == "up" and self.run.version.get(cob) == content


def asks_up(need: Need) -> bool:
    """Say whether an object needs another one up, to be up or to get there."""
    return need.state == "up" and (not isinstance(need, TransitionNeed) or need.dest == "up")


def taken_out(graph: Graph, cob: CobId) -> set[CobId]:
    """Return an object and all that have to be down for it, or for one of these."""
    found = {cob}
    for _ in graph.cobs:
        found |= {need.on for need in graph.needs if need.cob in found and need.state == "down"}
    return found


def lives(site: Site, random: Random) -> Iterator[tuple[Rollout, Checker]]:
    """Yield one change after the other, until one does not get through; jobs end in any order."""
    first = site.generations[0].cobs
    states = {cob: "down" if cob in site.down else it.preferred for cob, it in first.items()}
    for change in site.changes():
        run = Silent(change, states, returns=True)
        if random.random() < 0.5:
            run.switch_at_once()
        run.watch = checker = Checker(run)
        run.run(random.randrange)
        yield run, checker
        if run.engine.unsettled():
            return
        states = dict(run.real)


@pytest.mark.gate("a property over random changes under limits")
@pytest.mark.timeout(600)
def test_no_limit_turns_an_order_and_nothing_comes_back() -> None:
    """Of all that gets through: what does not is known before a run, and not begun."""
    for seed in range(examples(10_000)):
        random = Random(seed)
        for run, checker in lives(Site.draw(random), random):
            if not run.engine.unsettled():
                assert checker.wrong == [], seed
            assert [line for line in checker.wrong if "comes back" in line] == [], seed
