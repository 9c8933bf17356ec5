"""Changes of made-up sites in a made-up world, watched from outside (design 5b, P6, P10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import CanaryWritten, WaitKind
from cobweb.model import CobId, Graph
from cobweb.testing.simulation import Faults, Simulation
from tests.support.drive import Drive
from tests.support.graphs import SIMPLE, budget_of, graph_of, graphs, starts
from tests.support.plain_budgets import Watch
from tests.support.rollout import Change, KilledError, Rollout
from tests.support.webs import (
    FLAG,
    HELD,
    RELOADED,
    RESTARTED,
    STOPPED,
    agents,
    confs,
    flagged,
    migrated,
    of,
    rolled,
    webs,
)
from tests.support.words import after, requires

PAUSE: dict[str, Any] = {"first": 1, "pause_s": 30.0}


def crashed(run: Rollout) -> Rollout:
    """Have a server of a rollout be broken, which nobody knows."""
    run.real[CobId("c/app")] = "broken"
    return run


STORIES: dict[str, Callable[[], Rollout]] = {
    "a release": lambda: rolled(webs(1, **PAUSE), webs(2, **PAUSE)),
    "a release of two at a time": lambda: rolled(webs(1, count=2), webs(2, count=2)),
    "a restart in place": lambda: rolled(webs(1, kind=SIMPLE), webs(2, kind=SIMPLE)),
    "a reload": lambda: rolled(webs(1, kind=RELOADED), webs(2, kind=RELOADED)),
    "a configuration": lambda: rolled(confs(1, "a b", **PAUSE), confs(2, "a b", **PAUSE)),
    "a rename": lambda: rolled(webs(1, percent=50), webs(1, name="new", percent=50)),
    "a scale-in": lambda: rolled(webs(1), webs(1, "a b")),
    "a scale-out": lambda: rolled(webs(1, "a b"), webs(2)),
    "servers before agents": lambda: rolled(agents(1, count=1), agents(2, count=1)),
    "a migration first": lambda: rolled(migrated(1, **PAUSE), migrated(2, **PAUSE)),
    "another base": lambda: rolled(
        of(1, graph_of("h/x g/r", *after("g/r", "h/x")), "g/r"),
        of(2, graph_of("k/y g/r", *after("g/r", "k/y")), "g/r"),
    ),
    "layers that leave": lambda: rolled(
        graph_of(
            "p/pkg d/daemon v/vol z/other",
            *(*requires("d/daemon", "p/pkg"), *after("v/vol", "d/daemon")),
            "v/vol up>down d/daemon up",
        ),
        graph_of("z/other"),
    ),
    "a server that has crashed": lambda: crashed(rolled(webs(1, **PAUSE), webs(2, **PAUSE))),
    "a flag that is held": lambda: rolled(flagged(1, **PAUSE), flagged(2, **PAUSE)),
    "a first installation": lambda: rolled(graph_of({}), webs(1)),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_change_that_is_killed_at_any_effect_goes_on_from_its_journal(story: str) -> None:
    """Slots, canaries, states and who served: the next life takes down no more than one alone."""
    run = STORIES[story]()
    run.run()
    assert run.engine.unsettled() == ()
    for number in range(len(run.effects)):
        killed = STORIES[story]()
        killed.kill_after = number
        watch = killed.watch = Watch(killed)
        with pytest.raises(KilledError):
            killed.run()
        watch.resume()
        killed.run()
        assert killed.engine.unsettled() == (), number
        assert killed.journal.slots == set(), number
        assert killed.real == run.real, number
        first = {name: canary.units for name, canary in run.journal.canaries.items()}
        assert {name: it.units for name, it in killed.journal.canaries.items()} == first, number


KINDS = {it.name: it for it in (STOPPED, RELOADED, RESTARTED, SIMPLE)}


@dataclass(frozen=True)
class Site:
    """Two generations in short: types and versions by id, words of the budget, what is down."""

    kinds: Mapping[str, str]
    base: Mapping[str, int]
    goal: Mapping[str, int]
    words: Mapping[str, float]
    down: frozenset[str]
    is_held: bool

    def graphs(self) -> tuple[Graph, Graph]:
        """Return the generations."""
        return self._graph(self.base), self._graph(self.goal)

    def _graph(self, ids: Mapping[str, int]) -> Graph:
        needs: list[str] = []
        for cob in ids:
            app = cob.replace("/conf", "/app")
            if app != cob and app in ids:
                needs += [f"{cob} outdated>* {app} down", f"{app} *>up {cob} up"]
        members = " ".join(cob for cob in ids if not cob.endswith("conf"))
        words: dict[str, Any] = dict(self.words)
        during = HELD if self.is_held else ()
        budgets = (budget_of(members, during=during, **words),) if members else ()
        kinds = {cob: KINDS[self.kinds[cob]] for cob in ids} | {cob: FLAG for cob, _ in during}
        graph = graph_of(kinds, *needs, budgets=budgets)
        for version in (1, 2):
            graph = of(version, graph, " ".join(cob for cob, it in ids.items() if it == version))
        return graph


@st.composite
def sites(draw: st.DrawFn) -> Site:
    """Draw two generations of a few hosts, and what is down without the journal's knowledge."""
    generations: tuple[dict[str, int], dict[str, int]] = ({}, {})
    kinds: dict[str, str] = {}
    for host in "abcde"[: draw(st.integers(2, 5))]:
        there = draw(st.sampled_from([(0, 1), (0, 1), (0, 1), (0,), (1,)]))
        names = ["app", *draw(st.sampled_from([(), ("conf",), ("web",)]))]
        if len(there) == 2 and draw(st.integers(0, 3)) == 0:
            kinds[f"{host}/old"] = "stopped"
            generations[draw(st.integers(0, 1))][f"{host}/old"] = 1
        for name in names:
            kind = draw(st.sampled_from(["stopped", "stopped", *KINDS]))
            kinds[f"{host}/{name}"] = "simple" if name == "conf" else kind
            for number in there:
                version = draw(st.integers(1, 2)) if number else 1
                generations[number][f"{host}/{name}"] = version
    words: dict[str, float] = {"count": draw(st.integers(1, 2))}
    if draw(st.booleans()):
        words = {"percent": draw(st.sampled_from([20, 50, 100]))}
    if draw(st.booleans()):
        words |= {"first": draw(st.integers(1, 2)), "pause_s": 1.0}
    down = [cob for cob in generations[0] if draw(st.integers(0, 5)) == 0]
    lost = frozenset(it for it in down if "conf" not in it)
    return Site(kinds, *generations, words, lost, draw(st.booleans()))


def watched(site: Site) -> tuple[Rollout, Watch]:
    """Return the change of a site; its journal says that all is well, and some is not."""
    base, goal = site.graphs()
    run = rolled(base, goal, dict.fromkeys(site.down, "down"))
    run.journal.states.update({cob: it.preferred for cob, it in base.cobs.items()})
    watch = run.watch = Watch(run)
    return run, watch


@given(sites(), st.randoms(use_true_random=False))
def test_a_change_without_mishaps_keeps_its_bounds_and_settles(site: Site, random: Random) -> None:
    """In any order of what ends; no slot is left.

    But who is found out takes room without asking, and may leave none.
    """
    run, _ = watched(site)
    run.run(random.randrange)
    if site.down and run.engine.unsettled():
        assert any(" limit " in run.why(cob) for cob in run.engine.unsettled())
        return
    assert run.engine.unsettled() == ()
    assert run.engine.slots() == frozenset()
    for cob in run.change.changed() | run.change.added():
        assert run.real[cob] == "up"
    assert run.real.get(HELD[0][0]) in (None, "clear")


@given(sites(), st.randoms(use_true_random=False))
def test_a_change_with_mishaps_keeps_its_bounds_and_says_what_is_left(
    site: Site, random: Random
) -> None:
    """Failures, failed checks, hosts that vanish and return, and kills; then all is mended."""
    run, watch = watched(site)
    cobs = run.change.merged().cobs
    hosts = sorted({cob.partition("/")[0] for cob in cobs})
    for _ in range(random.randint(1, 3)):
        run.fails = {cob for cob in cobs if random.random() < 0.1}
        run.silent = {cob for cob, it in cobs.items() if it.type.serving and random.random() < 0.05}
        run.kill_after = len(run.effects) + random.randrange(80)
        try:
            run.begin()
            while run.jobs:
                if random.random() < 0.03:
                    _vanish_or_return(run, random.choice(hosts))
                if run.jobs:
                    run.end(run.jobs[random.randrange(len(run.jobs))])
        except KilledError:
            watch.resume()
            continue
        for cob in run.engine.unsettled():
            assert run.engine.chain(cob), cob
        assert watch.idle() == set()
    run.fails, run.silent, run.kill_after = set(), set(), -1
    run.dead.clear()
    watch.resume()
    run.run(random.randrange)
    if not site.down:
        assert run.engine.unsettled() == ()
        assert run.engine.slots() == frozenset()


@given(sites(), st.randoms(use_true_random=False))
def test_an_unrelated_change_goes_on_with_the_canary_of_before(site: Site, random: Random) -> None:
    """Whatever has failed; a verdict that is through needs no canary again."""
    base, goal = replace(site, words={**site.words, "first": 1, "pause_s": 1.0}).graphs()
    run = rolled(noted(1, base), noted(1, goal), dict.fromkeys(site.down, "down"))
    run.journal.states.update({cob: it.preferred for cob, it in base.cobs.items()})
    run.fails = {cob for cob in goal.cobs if random.random() < 0.3}
    run.run(random.randrange)
    before = dict(run.journal.canaries)
    later = Rollout(Change(base=noted(1, base), goal=noted(2, goal)), run.real, journal=run.journal)
    later.version, later.fails = dict(run.version), run.fails
    watch = later.watch = Watch(later)
    watch.resume()
    later.run(random.randrange)
    assert later.version[NOTE] == {"v": 2}
    told = [it for it in later.effects if isinstance(it, CanaryWritten)]
    if before:
        assert all(it.canary.units == before[it.limit].units for it in told)
        assert not (told and before[told[0].limit].through)
    later.fails = set()
    watch.resume()
    later.run(random.randrange)
    if not site.down:
        assert later.engine.unsettled() == ()


NOTE = CobId("y/note")


def noted(version: int, graph: Graph) -> Graph:
    """Return a generation with a note, on a host that no limit knows."""
    return of(version, replace(graph, cobs={**graph.cobs, **graph_of(NOTE).cobs}), NOTE)


def _vanish_or_return(run: Rollout, host: str) -> None:
    if not any(cob.startswith(f"{host}/") for cob in run.engine.states()):
        return
    if host in run.dead:
        run.come_back(host)
    else:
        run.vanish(host)


@given(sites(), st.integers(0, 2**32))
def test_the_same_inputs_give_the_same_effects(site: Site, seed: int) -> None:
    """P6."""
    told = []
    for _ in range(2):
        run, _watch = watched(site)
        run.run(Random(seed).randrange)
        told.append(run.effects)
    assert told[0] == told[1]


@given(graphs(), st.data(), st.integers(0, 2**32))
def test_what_was_asked_away_in_vain_comes_home(
    graph: Graph, data: st.DataObject, seed: int
) -> None:
    """P10: nobody who did not fail is away only because another one asks."""
    truth = data.draw(starts(graph))
    simulation = Simulation(
        graph=graph,
        random=Random(seed),
        truth=dict(truth),
        faults=Faults(fail=0.2, vanish=0.03),
        options={"returns": True},
    )
    simulation.run()
    engine = simulation.engines[0]
    for cob in engine.unsettled():
        blocked = engine.blocked(cob)
        assert blocked is not None
        # What may still go on at a vanished host keeps its locks.
        is_held = engine.chain(cob)[-1].kind is WaitKind.UNREACHABLE
        assert is_held or blocked.kind is not WaitKind.REQUESTED, engine.chain(cob)


def test_a_client_that_stopped_in_vain_comes_home() -> None:
    """Its server could not be stopped: the client starts again, and the reason is kept."""
    needs = ["a/app outdated>down y/client down", "a/app outdated>down x/other down"]
    more = {"y/client": SIMPLE, "x/other": SIMPLE}
    base = webs(1, "a", *needs, more=more)
    goal = webs(2, "a", *needs, more=more)
    run = rolled(base, goal, returns=True)
    run.fails = {CobId("x/other")}
    run.run()
    assert run.real[CobId("y/client")] == "up"
    assert run.why("a/app") == "a/app lock x/other, x/other failed"


def test_who_has_what_it_asked_of_one_and_asks_another_in_vain_asks_nobody_away() -> None:
    """It waits on: nobody is away from home for it."""
    needs = ("h/a down>up h/x up", "h/a down>up i/z up")
    graph = graph_of("h/a h/x i/z", *needs)
    drive = Drive(graph, {"h/a": "down", "h/x": "up", "i/z": "down"}, returns=True)
    drive.ended("i/z", ok=False)
    drive.checked("i/z", "down")
    drive.run()
    assert not [line for line in drive.lines if "gave up" in line]
    assert drive.why("h/a") == "h/a lock i/z up, i/z failed down"


def test_what_was_stopped_for_a_lock_that_is_never_granted_comes_home() -> None:
    """`x` may be locked only while `y` is down and `z` up, and `z` fails."""
    needs = ("h/a down>up h/x up", "h/x up h/y down", "h/x up i/z up")
    graph = graph_of("h/a h/x h/y i/z", *needs)
    drive = Drive(graph, {"h/a": "down", "h/x": "up", "h/y": "up", "i/z": "down"}, returns=True)
    drive.ended("i/z", ok=False)
    drive.checked("i/z", "down")
    drive.run()
    assert drive.state("h/y") == "up"
    assert drive.why("h/a") == "h/a lock h/x up, h/x lock i/z up, i/z failed down"
