"""Which hosts switch to a generation when what is gone has been removed, as far as it could be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cobweb.model import CobId, host_of
from cobweb.runtime._acts import SoFar
from cobweb.runtime._desired import Desired
from cobweb.runtime._events import Told
from cobweb.runtime._removal import Removal
from cobweb.store import Entry, Forgotten, HostForgotten, HostSwitched

__all__ = ["Switching", "switching"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switching:
    """Which hosts go over to a generation now, and which are held up.

    `groups` are hosts that had another generation, those that switch together in one group, in
    order; `new` had none. `held` names for each host that cannot switch an object that must be gone
    before. `arrived` are the removed objects of the hosts that switch, `left` hosts that have no
    objects any more.
    """

    generation: int
    groups: tuple[tuple[str, ...], ...] = ()
    new: tuple[str, ...] = ()
    held: Mapping[str, CobId] = field(default_factory=dict)
    arrived: frozenset[CobId] = frozenset()
    left: frozenset[str] = frozenset()

    @property
    def hosts(self) -> frozenset[str]:
        """All hosts that switch."""
        return frozenset({*self.new, *(host for group in self.groups for host in group)})

    def entries(self) -> Iterator[Entry]:
        """Yield what the journal has to know."""
        for host in sorted(self.hosts - self.left):
            yield HostSwitched(host=host, generation=self.generation)
        for host in sorted(self.left):
            yield HostForgotten(host=host)
        for cob in sorted(self.arrived):
            yield Forgotten(cob=cob)

    def told(self) -> Iterator[Told]:
        """Yield an event for each group."""
        for group in self.groups:
            data = {"hosts": list(group), "generation": self.generation}
            yield "generation.switch", data


def switching(
    removal: Removal,
    desired: Desired,
    active: Mapping[str, int],
    so_far: SoFar,
    *,
    generation: int,
) -> Switching:
    """Return which hosts switch; `active` is the generation that each host has now.

    Hosts that no removal concerns are the first group. None switches where the run was halted.
    """
    cobs, peopled = removal.graph.cobs, set(desired.graph.hosts())
    arrived = {cob for cob in removal.removed if so_far.states.get(cob) == cobs[cob].type.remove}
    held = removal.held(removal.removed - arrived)
    hosts = peopled & desired.chosen | {host_of(cob) for cob in removal.gone}
    if so_far.halted:
        return Switching(generation=generation, held=held)
    due = {host for host in hosts if active.get(host) != generation and host not in held}
    ordered = [tuple(host for host in group if host in due) for group in removal.order.groups]
    others = due - {host for group in ordered for host in group}
    groups = [tuple(sorted(host for host in others if active.get(host))), *ordered]
    return Switching(
        generation=generation,
        groups=tuple(group for group in groups if group),
        new=tuple(sorted(host for host in others if not active.get(host))),
        held=held,
        arrived=frozenset(cob for cob in arrived & removal.gone if host_of(cob) not in held),
        left=frozenset(due if desired.limit else due | active.keys() - held.keys()) - peopled,
    )
