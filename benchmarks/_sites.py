"""The large site of the benchmarks, as a site repository and as a graph.

Hosts stand in racks of 40. Each has 50 objects in chains of ten, one in five of its 60 needs goes
to an object of an earlier host, so nothing waits in a circle. Both forms have the same objects and
needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cobweb.model import (
    Budget,
    Cob,
    CobId,
    CobType,
    Graph,
    Nothing,
    Transition,
    TransitionNeed,
    Unit,
    cob_id,
)

COBS_PER_HOST = 50
NEEDS_PER_HOST = 60
_FIRST_REMOTE = 30
_REMOTE = 12
_RACK = 40
_MATRIX = (("down", "up"), ("up", "down"), ("outdated", "up"), ("outdated", "down"))


def host_name(number: int) -> str:
    """Return the name of a host, by its number from 0."""
    return f"h{number:05d}"


def large_graph(hosts: int) -> Graph:
    """Return the graph with 50 objects and 60 needs per host (59 on the first)."""
    kind = CobType(
        name="part",
        states=("outdated", "down", "up"),
        preferred="up",
        remove="down",
        check=Nothing(),
        transitions=tuple(Transition(source=s, dest=d, action=Nothing()) for s, d in _MATRIX),
    )
    ids = [cob_id(host_name(h), _cob(c)) for h in range(hosts) for c in range(COBS_PER_HOST)]
    needs = sorted(set(_pairs(hosts)))
    return Graph(
        cobs={cob: Cob(id=cob, type=kind) for cob in ids},
        needs=tuple(
            TransitionNeed(cob=cob, source="*", dest="up", on=on, state="up") for cob, on in needs
        ),
    )


def tenth_of_hosts(graph: Graph) -> Budget:
    """Return a limit under which at most one host in ten is out at once, with all its objects."""
    members: dict[str, set[CobId]] = {}
    for cob, it in graph.cobs.items():
        members.setdefault(it.host, set()).add(cob)
    units = tuple(Unit(name=host, members=frozenset(cobs)) for host, cobs in members.items())
    return Budget(name="rolling", units=units, percent=10)


def write_site(folder: Path, hosts: int) -> None:
    """Write the same as a site repository: `site.yml`, `hosts.yml` and the type's task files."""
    tasks = folder / "tasks"
    tasks.mkdir(parents=True, exist_ok=True)
    (tasks / "check.yml").write_text(_CHECK, encoding="utf-8")
    (tasks / "change.yml").write_text(_CHANGE, encoding="utf-8")
    (folder / "hosts.yml").write_text("".join(_inventory(hosts)), encoding="utf-8")
    (folder / "site.yml").write_text("".join(_site()), encoding="utf-8")


def _cob(number: int) -> str:
    return f"c{number:02d}"


def _pairs(hosts: int) -> Iterator[tuple[CobId, CobId]]:
    for host in range(hosts):
        name = host_name(host)
        for c in range(COBS_PER_HOST):
            for before in _local(c):
                yield cob_id(name, _cob(c)), cob_id(name, _cob(before))
        for c in range(_REMOTE):
            upper = cob_id(host_name(_upstream(host)), _cob(c))
            yield cob_id(name, _cob(_FIRST_REMOTE + c)), upper


def _local(c: int) -> tuple[int, ...]:
    """Chains of ten that start at the first object, and three joins: 48 needs per host."""
    if c in (0, 1):
        return ()
    return (c - 1,) if c % 10 else (0,)


def _upstream(host: int) -> int:
    """Return the head of the rack, or of an earlier rack for a head: the depth is logarithmic."""
    return host - host % _RACK if host % _RACK else host // _RACK // 2 * _RACK


def _inventory(hosts: int) -> Iterator[str]:
    for first in range(0, hosts, _RACK):
        yield f"rack{first // _RACK:04d}:\n  hosts:\n"
        for host in range(first, min(first + _RACK, hosts)):
            upper = host_name(_upstream(host))
            yield f"    {host_name(host)}: {{number: {host}, upstream: {upper}}}\n"


def _site() -> Iterator[str]:
    yield _TYPE
    for c in range(COBS_PER_HOST):
        after = [_cob(before) for before in _local(c)]
        if _FIRST_REMOTE <= c < _FIRST_REMOTE + _REMOTE:
            after.append(f"{_cob(c - _FIRST_REMOTE)}@{{{{ upstream }}}}")
        name = f"part {c} of {{{{ inventory_hostname }}}}" if c % 5 == 0 else "part"
        yield f"  {_cob(c)}:\n    type: part\n    on: all\n"
        yield f"    spec: {{port: {7000 + c}, name: '{name}'}}\n"
        if after:
            yield "    after: [" + ", ".join(f"'{need}'" for need in after) + "]\n"


_TYPE = """cobweb: 1
name: large
inventory: hosts.yml
types:
  part:
    states: [outdated, down, up]
    preferred: up
    remove: down
    spec:
      type: object
      additionalProperties: false
      required: [port]
      properties: {port: {type: integer, minimum: 1}, name: {type: string}}
    check: {tasks: tasks/check.yml}
    transitions:
      down -> up: {tasks: tasks/change.yml}
      up -> down: {tasks: tasks/change.yml}
      outdated -> up: {tasks: tasks/change.yml}
      outdated -> down: {tasks: tasks/change.yml}
cobs:
"""
_CHECK = "- ansible.builtin.set_fact: {cob_state: down}\n"
_CHANGE = "- ansible.builtin.debug: {msg: changed}\n"
