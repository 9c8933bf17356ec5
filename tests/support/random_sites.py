"""Hypothesis strategies for whole sites, as text, and for what may go wrong in a run of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cobweb.model import CobId, Graph, LockNeed, Need
from cobweb.site import Site, load_site
from tests.support.graphs import graphs


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A site, and how it is run."""

    site: dict[str, Any]
    graph: Graph
    initial: dict[CobId, str]
    trouble: dict[str, Any]
    orders: dict[str, Any]

    def load(self, folder: Path) -> Site:
        """Write the site and load it."""
        (folder / "site.yml").write_text(json.dumps(self.site), encoding="utf-8")
        return load_site(folder)

    @property
    def options(self) -> dict[str, Any]:
        """What the executor `simulate` is told."""
        return {"initial": self.initial, **self.trouble}


@st.composite
def cases(draw: st.DrawFn, *, trouble: bool = True) -> Case:
    """Draw a site of a few hosts and objects, with the first states and perhaps with trouble."""
    graph = draw(graphs())
    initial = {cob: draw(st.sampled_from(it.type.states)) for cob, it in graph.cobs.items()}
    hosts = sorted(graph.hosts())
    return Case(
        site=site_data(graph, draw(limits(graph)), attempts=draw(st.integers(1, 2))),
        graph=graph,
        initial=initial,
        trouble=draw(troubles(graph)) if trouble else {},
        orders={
            "limit": draw(st.sampled_from([None, None, *hosts])),
            "parallel": draw(st.sampled_from([1, 2, 1000])),
            "seed": draw(st.integers(0, 3)),
            "max_failures": draw(st.sampled_from([None, None, 0, 1])),
        }
        if trouble
        else {},
    )


@st.composite
def troubles(draw: st.DrawFn, graph: Graph) -> dict[str, Any]:
    """Draw what fails, who cannot be reached, and how long things take."""
    cobs, hosts = sorted(graph.cobs), sorted(graph.hosts())
    seconds = st.one_of(st.integers(0, 5), st.just([1, 4]))
    return {
        "fail": draw(st.lists(st.sampled_from(cobs), max_size=2, unique=True)),
        "unreachable": draw(st.lists(st.sampled_from(hosts), max_size=1)),
        "durations": draw(st.dictionaries(st.sampled_from(cobs), seconds, max_size=4)),
    }


@st.composite
def limits(draw: st.DrawFn, graph: Graph) -> dict[str, Any]:
    """Draw no limit or one that covers all objects of a name or of all names."""
    if draw(st.booleans()):
        return {}
    names = sorted({it.name for it in graph.cobs.values()})
    bound = draw(st.sampled_from([1, 2, "50%"]))
    return {"bound": {"on": "all", "cob": draw(st.sampled_from(names)), "max": bound}}


def site_data(graph: Graph, limits: dict[str, Any], *, attempts: int = 1) -> dict[str, Any]:
    """Return the site whose evaluation is `graph`; each object has a type of its own name."""
    types, cobs = {}, {}
    for it in graph.cobs.values():
        types[it.name] = {
            "states": list(it.type.states),
            "preferred": it.type.preferred,
            "remove": it.type.remove,
            "groups": {name: list(states) for name, states in it.type.groups.items()},
            "spec": {},
            "check": {"tasks": "check.yml"},
            "transitions": {
                f"{step.source} -> {step.dest}": {"tasks": "do.yml", "attempts": attempts}
                for step in it.type.transitions
            },
        }
        needs = [need_data(need) for need in graph.needs if need.cob == it.id]
        cobs[it.name] = {"type": it.name, "on": it.host, "needs": needs}
    hosts: dict[str, Any] = {host: {} for host in sorted(graph.hosts())}
    return {
        "cobweb": 1,
        "name": "random",
        "inventory": {"all": {"hosts": hosts}},
        "types": types,
        "cobs": cobs,
        "limits": limits,
    }


def need_data(need: Need) -> dict[str, str]:
    """Return a need as a site writes it."""
    when = need.within if isinstance(need, LockNeed) else f"{need.source} -> {need.dest}"
    host, _, name = need.on.partition("/")
    return {"when": when, "cob": name, "on": host, "state": need.state}
