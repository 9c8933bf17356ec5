"""Sites of web servers, one per host, as the stories about budgets change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cobweb.model import Budget, CobId, CobType, Graph, State
from tests.support.graphs import SIMPLE, budget_of, graph_of, make_type, steps
from tests.support.rollout import Change, Rollout
from tests.support.words import after

__all__ = [
    "FLAG",
    "HELD",
    "HOSTS",
    "RELOADED",
    "RESTARTED",
    "STOPPED",
    "UP",
    "agents",
    "confs",
    "flagged",
    "migrated",
    "of",
    "rolled",
    "webs",
]

HOSTS = "a b c d"
UP: dict[CobId, State] = {CobId(f"{host}/app"): "up" for host in HOSTS.split()}

STOPPED = replace(
    make_type(
        "stopped",
        "outdated broken down up",
        "up",
        "down",
        steps("outdated>down broken>down down>up up>down"),
    ),
    serving=("up", "outdated"),
)
"""Gets new content by a stop and a start; serves until then."""

RELOADED = replace(
    make_type(
        "reloaded",
        "outdated down up",
        "up",
        "down",
        steps("outdated>up outdated>down down>up up>down"),
    ),
    serving=("up", "outdated"),
)
"""Gets new content without an interruption."""

RESTARTED = replace(
    RELOADED,
    name="restarted",
    transitions=tuple(replace(it, interrupts=it.dest == "up") for it in RELOADED.transitions),
)
"""Gets new content by a restart in place, which interrupts it."""


FLAG = make_type("flag", "set clear", "clear", "clear", steps("clear>set set>clear"))
"""What is set while something is out."""

HELD = ((CobId("z/flag"), "set"),)


def webs(  # noqa: PLR0913 - what a story says of its site
    version: int,
    hosts: str = HOSTS,
    *needs: str,
    kind: CobType = STOPPED,
    name: str = "app",
    more: Mapping[str, CobType] | None = None,
    budgets: tuple[Budget, ...] | None = None,
    **budget: Any,
) -> Graph:
    """Make a generation of web servers, under a budget of one unless said otherwise."""
    ids = " ".join(f"{host}/{name}" for host in hosts.split())
    graph = graph_of(
        {**dict.fromkeys(ids.split(), kind), **(more or {})},
        *needs,
        budgets=(budget_of(ids, **budget),) if budgets is None else budgets,
    )
    return of(version, graph, ids)


def of(version: int, graph: Graph, ids: str) -> Graph:
    """Return a graph in which some objects have the content of a version."""
    some = {CobId(cob): replace(graph.cobs[CobId(cob)], spec={"v": version}) for cob in ids.split()}
    return replace(graph, cobs={**graph.cobs, **some})


def confs(version: int, hosts: str = HOSTS, **budget: Any) -> Graph:
    """Make a generation of web servers whose configurations, of that version, `stops` them."""
    names = hosts.split()
    pairs = [(f"{host}/conf", f"{host}/app") for host in names]
    needs = [
        need
        for conf, app in pairs
        for need in (f"{conf} outdated>* {app} down", f"{app} *>up {conf} up")
    ]
    kinds = {conf: SIMPLE for conf, _ in pairs}
    return of(version, webs(1, hosts, *needs, more=kinds, **budget), " ".join(kinds))


def flagged(version: int, hosts: str = HOSTS, **words: Any) -> Graph:
    """Make web servers under a budget that holds a flag elsewhere while one of them is out."""
    return webs(version, hosts, more={"z/flag": FLAG}, during=HELD, **words)


def agents(version: int, **budget: Any) -> Graph:
    """Make two servers and two agents that come after both."""
    needs = [
        need for a in ("a", "b") for s in ("s", "t") for need in after(f"{a}/agent", f"{s}/db")
    ]
    kinds = {"a/agent": SIMPLE, "b/agent": SIMPLE, "s/db": STOPPED, "t/db": STOPPED}
    budgets = (budget_of("s/db t/db", **budget),) if budget else ()
    return of(version, graph_of(kinds, *needs, budgets=budgets), " ".join(kinds))


def migrated(version: int, **words: Any) -> Graph:
    """Make three servers that come after a migration, under one limit."""
    ids = "a/web b/web c/web m/schema"
    kinds = {cob: SIMPLE if "schema" in cob else STOPPED for cob in ids.split()}
    needs = [need for host in "abc" for need in after(f"{host}/web", "m/schema")]
    return of(version, graph_of(kinds, *needs, budgets=(budget_of(ids, **words),)), ids)


def rolled(
    base: Graph, goal: Graph, real: Mapping[str, State] | None = None, **options: Any
) -> Rollout:
    """Return the change from one generation to another in a world where all is well before it."""
    order = options.pop("order", ())
    found = {CobId(cob): state for cob, state in (real or {}).items()}
    states = {cob: found.get(cob, it.preferred) for cob, it in base.cobs.items()}
    return Rollout(Change(base=base, goal=goal, order=order), states, **options)
