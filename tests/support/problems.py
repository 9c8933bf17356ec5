"""Random systems for look-ahead, of every kind that was measured, with a dumb search as the oracle.

Each is drawn by a `Random` (Hypothesis draws that): words on the simple type, several-state types
as people write them, free needs on the simple type, random types; some of several equal hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from cobweb.engine import GaveUp, NoOrder, Order, Problem, Standing, by_cob
from cobweb.model import Budget, CobId, CobType, Graph, State, Unit, host_of
from tests.support import words
from tests.support.brute_force import World, cheapest
from tests.support.graphs import SIMPLE, graph_of, make_type, type_of

WORK = replace(SIMPLE, serving=("up", "outdated"))
"""The simple type, where what is outdated still serves."""


def interrupting(kind: CobType, source: State, dest: State) -> CobType:
    """Let one step of a type interrupt."""
    return replace(
        kind,
        transitions=tuple(
            replace(step, interrupts=True) if (step.source, step.dest) == (source, dest) else step
            for step in kind.transitions
        ),
    )


RESTARTED = interrupting(WORK, "outdated", "up")
RELOADED = replace(
    type_of(
        "outdated reloaded down up",
        "outdated>down outdated>reloaded reloaded>up down>up up>down",
        "up",
        "down",
    ),
    serving=("up", "outdated", "reloaded"),
    groups={"on": ("up", "reloaded")},
)
MOUNT = replace(
    type_of(
        "absent formatted mounted",
        "absent>formatted formatted>absent formatted>mounted mounted>formatted",
        "mounted",
        "absent",
    ),
    groups={"data": ("formatted", "mounted")},
)
MEMBER = replace(
    type_of("broken out joining in", "broken>out out>joining joining>in in>out", "in", "out"),
    groups={"near": ("joining", "in"), "away": ("out", "joining")},
)
ROLE = replace(
    type_of(
        "down standby primary",
        "down>standby standby>primary primary>standby standby>down",
        "primary",
        "down",
    ),
    serving=("standby", "primary"),
    groups={"up": ("standby", "primary")},
)
ONCE = type_of("raw made", "raw>made", "made", "raw")
SIMPLES = (SIMPLE, WORK, RESTARTED)
SEVERAL = (RELOADED, MOUNT, MEMBER, ROLE, RESTARTED, ONCE)


@dataclass(frozen=True)
class Drawn:
    """A problem, and the same in the words of the oracle."""

    problem: Problem
    world: World

    def cheapest(self) -> tuple[int, int] | None:
        """Return what the oracle finds."""
        return cheapest(self.world, self.problem.states, self.problem.goals)


def problem_of(
    graph: Graph,
    states: Mapping[str, State] | Mapping[CobId, State],
    goals: Mapping[str, State] | None = None,
    standing: Standing | None = None,
    fixed: Sequence[str] = (),
) -> Problem:
    """Make a problem of a whole graph; without goals all should be in their preferred states."""
    preferred = {cob.id: cob.preferred for cob in graph.cobs.values()}
    typed = {CobId(cob): state for cob, state in (goals or {}).items()}
    return Problem(
        graph=graph,
        states={CobId(cob): state for cob, state in states.items()},
        needs=by_cob(graph.needs),
        budgets=graph.budgets,
        goals=preferred if goals is None else typed,
        fixed=frozenset(map(CobId, fixed)),
        standing=Standing() if standing is None else standing,
    )


def world_of(problem: Problem) -> World:
    """Say the same in the words of the oracle."""
    standing = problem.standing
    return World(
        graph=problem.graph,
        counting=frozenset((name, cob) for name, cobs in standing.counting.items() for cob in cobs),
        serving=standing.serving,
        leaving=standing.leaving,
        owed=standing.owed,
        fixed=problem.fixed,
    )


def cost(found: Order | NoOrder | GaveUp) -> tuple[int, int] | None:
    """Return (objects taken out, steps) as the oracle does."""
    assert not isinstance(found, GaveUp)
    return (found.outs, len(found.steps)) if isinstance(found, Order) else None


def four_words(random: Random) -> Graph:
    """Draw a site of the four words."""
    kind, cobs = random.choice(SIMPLES), _ids(random)
    needs: set[str] = set()
    for _ in range(random.randint(1, 5)):
        first, second = sorted(random.sample(cobs, 2))
        word = random.choice([words.after, words.requires, words.binds, words.stops])
        needs.update(word(first, second))
    return graph_of(dict.fromkeys(cobs, kind), *sorted(needs))


def several_states(random: Random) -> Graph:
    """Draw objects of types with several states and groups."""
    types = {cob: random.choice(SEVERAL) for cob in _ids(random)}
    return graph_of(types, *_needs(random, types, random.randint(1, 6)))


def free_needs(random: Random) -> Graph:
    """Draw simple objects with any needs."""
    types = {cob: random.choice(SIMPLES) for cob in _ids(random)}
    return graph_of(types, *_needs(random, types, random.randint(1, 7)))


def random_types(random: Random) -> Graph:
    """Draw objects of random types."""
    types = {cob: _type(random) for cob in _ids(random)}
    return graph_of(types, *_needs(random, types, random.randint(1, 8)))


def equal_hosts(random: Random) -> Graph:
    """Draw a few hosts with the same objects, perhaps one that all know, and needs among peers."""
    kinds = random.choice([SIMPLES, SEVERAL, tuple(_type(random) for _ in range(2))])
    hosts = range(random.randint(2, 3))
    local = [random.choice(kinds) for _ in range(random.randint(1, 2))]
    types = {f"h{host}/c{at}": kind for host in hosts for at, kind in enumerate(local)}
    if random.random() < 0.5:
        types["x/hub"] = random.choice(kinds)
    first = {cob: kind for cob, kind in types.items() if cob.startswith(("h0/", "x/"))}
    needs: set[str] = set()
    for need in _needs(random, first, random.randint(0, 5)) if len(first) > 1 else ():
        needs.update(need.replace("h0/", f"h{host}/") for host in hosts)
    if random.random() < 0.4:
        step, state = random.choice(local[0].transitions), random.choice(local[0].states)
        needs.update(
            f"h{one}/c0 {step.source}>{step.dest} h{other}/c0 {state}"
            for one in hosts
            for other in hosts
            if one != other
        )
    return graph_of(types, *sorted(needs))


KINDS: dict[str, Callable[[Random], Graph]] = {
    "words": four_words,
    "several": several_states,
    "free": free_needs,
    "random": random_types,
    "equal": equal_hosts,
}


def drawn(kind: str, random: Random) -> Drawn:
    """Draw a system: states, goals, budgets and what they know, and who cannot move."""
    graph = KINDS[kind](random)
    if random.random() < 0.6:
        graph = replace(graph, budgets=_budgets(random, graph))
    cobs = sorted(graph.cobs)
    states = {cob: random.choice(graph.cobs[cob].type.states) for cob in cobs}
    goals: dict[CobId, State] = {}
    for cob in cobs:
        it = graph.cobs[cob]
        goals[cob] = it.type.remove if random.random() < 0.15 else it.preferred
        if random.random() < 0.15:
            del goals[cob]
    fixed = frozenset(cob for cob in cobs if random.random() < 0.1)
    problem = Problem(
        graph=graph,
        states=states,
        needs=by_cob(graph.needs),
        budgets=graph.budgets,
        goals=goals | {cob: states[cob] for cob in fixed},
        fixed=fixed,
        standing=_standing(random, graph, states, goals),
    )
    return Drawn(problem, world_of(problem))


def _ids(random: Random) -> list[str]:
    return [f"h{random.randint(0, 2)}/c{number}" for number in range(random.randint(2, 5))]


def _needs(random: Random, types: dict[str, CobType], count: int) -> list[str]:
    needs = set()
    for _ in range(count):
        cob, on = random.sample(sorted(types), 2)
        state = random.choice([*types[on].states, *types[on].groups])
        if random.random() < 0.3:
            needs.add(f"{cob} {random.choice([*types[cob].states, '*'])} {on} {state}")
        else:
            step = random.choice(types[cob].transitions)
            source, dest = random.choice([step.source, "*"]), random.choice([step.dest, "*"])
            needs.add(f"{cob} {source}>{dest} {on} {state}")
    return sorted(needs)


def _type(random: Random) -> CobType:
    names = [f"s{number}" for number in range(random.randint(2, 4))]
    pairs = [(x, y) for x in names for y in names if x != y]
    steps = random.sample(pairs, random.randint(1, min(7, len(pairs))))
    kind = make_type("r", " ".join(names), random.choice(names), random.choice(names), steps)
    return replace(
        kind,
        serving=tuple(random.sample(names, random.randint(0, 2))),
        groups={
            f"g{number}": tuple(random.sample(names, random.randint(1, len(names))))
            for number in range(random.randint(0, 2))
        },
        transitions=tuple(
            replace(step, interrupts=random.random() < 0.2) for step in kind.transitions
        ),
    )


def _budgets(random: Random, graph: Graph) -> tuple[Budget, ...]:
    return tuple(_budget(random, graph, number) for number in range(random.randint(1, 2)))


def _budget(random: Random, graph: Graph, number: int) -> Budget:
    cobs = [cob for cob in sorted(graph.cobs) if random.random() < 0.7]
    by_host = random.random() < 0.6
    names = sorted({host_of(cob) if by_host else cob for cob in cobs})
    units = tuple(
        Unit(
            name=name,
            members=frozenset(cob for cob in cobs if name in (cob, host_of(cob))),
            domains=(random.choice("ab"),) if number else (),
        )
        for name in names
    )
    grouped = all("g0" in graph.cobs[cob].type.groups for cob in cobs)
    return Budget(
        name=f"b{number}",
        units=units,
        count=random.randint(1, 2),
        percent=random.choice([None, None, 34, 50]),
        group="g0" if grouped and random.random() < 0.3 else "",
    )


def _standing(
    random: Random, graph: Graph, states: dict[CobId, State], goals: dict[CobId, State]
) -> Standing:
    if not graph.budgets or random.random() < 0.4:
        return Standing()
    removed = [cob for cob in goals if goals[cob] == graph.cobs[cob].type.remove]
    units = [(budget.name, unit) for budget in graph.budgets for unit in budget.units]
    counting: dict[str, set[CobId]] = {}
    for name, unit in units:
        members = {cob for cob in sorted(unit.members) if random.random() < 0.7}
        counting.setdefault(name, set()).update(members)
    return Standing(
        counting=counting,
        serving={cob: states[cob] for cob in sorted(states) if random.random() < 0.2},
        leaving=frozenset(cob for cob in removed if random.random() < 0.5),
        owed=frozenset((name, unit.name) for name, unit in units if random.random() < 0.1),
    )
