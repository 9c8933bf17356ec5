"""Random sites with bounds whose objects several engines own, from a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from cobweb.model import Budget, CobId, CobType, Graph, Limit, LimitGroup, Unit, host_of
from tests.support.graphs import SIMPLE, budget_of, graph_of
from tests.support.several import NEW, Mishaps, Several
from tests.support.webs import RELOADED, RESTARTED, STOPPED
from tests.support.words import after, binds, requires, stops

__all__ = ["drawn", "drawn_mishaps", "settling"]


def drawn(seed: int, *, calm: bool = False, shares: bool = True) -> Several:
    """Draw a site under bounds of all kinds, its engines, and what may go wrong."""
    random = Random(seed)
    kinds, needs = _objects(random)
    names = ["rolling", "other"][: random.choice([0, 1, 1, 1, 2])]
    budgets = tuple(_budget(random, kinds, name) for name in names)
    limits = _limits(random, kinds) if random.random() < 0.5 or not budgets else ()
    graph = graph_of(kinds, *sorted(set(needs)), limits=limits, budgets=budgets)
    real = {cob: "up" if random.random() < 0.85 else "down" for cob in graph.cobs}
    mishaps = Mishaps() if calm else drawn_mishaps(random)
    return _several(random, graph, real, mishaps, shares=shares)


def settling(seed: int, *, alone: bool = False) -> Several:
    """Draw a site of the four words under a budget of one, where all is well before the change.

    The same seed is the same site for one engine `alone`.
    """
    random = Random(seed)
    hosts = "abcdef"[: random.randint(2, 5)]
    kinds, needs = {f"{host}/app": STOPPED for host in hosts}, []
    for host in hosts:
        if random.random() < 0.5:
            kinds[f"{host}/conf"] = SIMPLE
            word = random.choice([stops, after, requires, binds])
            app, conf = f"{host}/app", f"{host}/conf"
            needs += word(conf, app) if word is stops else word(app, conf)
    if random.random() < 0.5:
        first, second = sorted(random.sample(hosts, 2))
        needs += after(f"{second}/app", f"{first}/app")
    words: dict[str, Any] = {"first": 1} if random.random() < 0.4 else {}
    apps = " ".join(f"{host}/app" for host in hosts)
    graph = graph_of(kinds, *needs, budgets=(budget_of(apps, **words),))
    mishaps = Mishaps(lose=random.choice([0, 0.2]), double=random.choice([0, 0.3]))
    run = _several(random, graph, dict.fromkeys(graph.cobs, "up"), mishaps)
    whole = [frozenset(graph.cobs)]
    return Several(run.graph, whole, run.real, changed=run.changed, random=random) if alone else run


def _objects(random: Random) -> tuple[dict[str, CobType], list[str]]:
    hosts = "abcdef"[: random.randint(2, 6)]
    kinds: dict[str, CobType] = {}
    needs: list[str] = []
    for host in hosts:
        app, conf = f"{host}/app", f"{host}/conf"
        kinds[app] = random.choice([STOPPED, STOPPED, RELOADED, RESTARTED])
        if random.random() < 0.4:
            kinds[conf] = SIMPLE
            word = random.choice([stops, after, requires, binds])
            needs += word(conf, app) if random.random() < 0.7 else after(app, conf)
    if random.random() < 0.3:
        first, second = sorted(random.sample(hosts, 2))
        needs += random.choice([after, requires])(f"{second}/app", f"{first}/app")
    return kinds, needs


def _budget(random: Random, kinds: dict[str, CobType], name: str) -> Budget:
    """Draw a budget of hosts, objects, or racks; by zone, with a canary, or both."""
    apps = [cob for cob in kinds if cob.endswith("app")]
    words: dict[str, Any] = {"count": random.choice([1, 1, 2])}
    if random.random() < 0.3:
        words = {"percent": random.choice([20, 40, 60])}
    if random.random() < 0.4:
        words |= {"first": random.choice([1, 1, 2]), "pause_s": random.choice([0.0, 30.0])}
    if random.random() < 0.3:
        words["trust_s"] = random.choice([0.0, 10.0])
    ids = [cob for cob in apps if random.random() < 0.9] or apps[:1]
    if random.random() < 0.3:
        ids += [cob for cob in kinds if cob.endswith("conf")]
    budget = budget_of(" ".join(ids), name=name, unit=random.choice(["host", "object"]), **words)
    if random.random() < 0.3:
        return replace(budget, units=_racks(budget))
    if random.random() < 0.2:
        zoned = (replace(it, domains=(f"z{ord(it.name[0]) % 2}",)) for it in budget.units)
        return replace(budget, units=tuple(zoned))
    return budget


def _racks(budget: Budget) -> tuple[Unit, ...]:
    racks: dict[str, set[CobId]] = {}
    for unit in budget.units:
        racks.setdefault(f"r{ord(unit.name[0]) % 2}", set()).update(unit.members)
    return tuple(Unit(name=name, members=frozenset(some)) for name, some in racks.items())


def _limits(random: Random, kinds: dict[str, CobType]) -> tuple[Limit, ...]:
    ids = sorted(map(CobId, kinds))
    limits: list[Limit] = []
    for name in ["slow", "still"][: random.choice([1, 1, 2])]:
        half = len(ids) // 2 if random.random() < 0.4 else 0
        parts = {"x": ids[:half], "y": ids[half:]} if half else {"": ids}
        groups = tuple(
            LimitGroup(name=key, members=frozenset(some), bound=random.choice([1, 1, 2]))
            for key, some in parts.items()
        )
        source, dest = random.choice([("*", "*"), ("*", "up"), ("down", "up"), ("*", "down")])
        limits.append(Limit(name=name, groups=groups, source=source, dest=dest))
    return tuple(limits)


def drawn_mishaps(random: Random) -> Mishaps:
    """Draw how often mail is lost and doubled, and what else fails."""
    return Mishaps(
        lose=random.choice([0, 0.2, 0.4]),
        double=random.choice([0, 0.3]),
        fail=random.choice([0, 0, 0.1]),
        kill=random.choice([0, 0.01, 0.03]),
        vanish=random.choice([0, 0, 0.01]),
        come_back=random.choice([0.05, 0.2]),
    )


def _several(
    random: Random, graph: Graph, real: dict[CobId, str], mishaps: Mishaps, *, shares: bool = True
) -> Several:
    """Split the objects between two to four engines, by host or at random."""
    changed = frozenset(cob for cob in graph.cobs if random.random() < 0.7)
    graph = replace(graph, cobs={cob: replace(it, spec=NEW) for cob, it in graph.cobs.items()})
    number, by_host = random.randint(2, 4), random.random() < 0.6
    seats: dict[str, int] = {}
    owners: dict[int, set[CobId]] = {}
    for cob in sorted(graph.cobs):
        seat = seats.setdefault(host_of(cob) if by_host else cob, random.randrange(number))
        owners.setdefault(seat, set()).add(cob)
    parts = [frozenset(owners[key]) for key in sorted(owners)]
    if len(parts) == 1 or random.random() < 0.2:
        parts.insert(0, frozenset())  # a lender that owns nothing
    trust_s = random.choice([0.0, 10.0, 60.0])
    return Several(graph, parts, real, changed=changed, random=random, mishaps=mishaps,
                   shares=shares, trust_s=trust_s)  # fmt: skip
