"""Whose new content has to be there before something else begins (design, section 6).

What a limit, a canary or a removal keeps from its switch may stand in the very state that others
need, with its old content. So an object does nothing for its own new content before all have gone
over whose new content that relies on, and what is removed leaves only when those that needed it
there have. Where such waits come back to themselves none of them counts: the old content serves.
All is read from types and needs, not from states: whichever check ends first, the order is the
same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from cobweb.engine._machine import Machine
from cobweb.engine._needs import Wanted, of_state, of_step
from cobweb.engine._values import Changeover
from cobweb.engine.analysis._circles import parts_of
from cobweb.model import UNKNOWN, CobId, State, host_of


class Precedence:
    """Who comes before whom while hosts switch.

    `late` has, by object with new content, those that have to go over before it begins, `stays`, by
    removed object, those that have to go over before it leaves. `met` are pairs of an object and
    one whose new content it relies on and does not wait for, since that makes a circle.
    """

    def __init__(self, machine: Machine, change: Changeover, fresh: AbstractSet[CobId]) -> None:
        self._machine = machine
        self._change = change
        self._base = set(map(id, change.needs))
        self._gone_first: list[tuple[CobId, CobId]] = []
        arriving = change.changed | change.added | change.anew
        self._held = {cob for cob in arriving if host_of(cob) in change.hosts}
        self._new = (arriving | fresh) & machine.nodes.keys()
        new = sorted(self._new) if self._held else []
        self._takers = self._taken_out(new if self._held or not change.removed else self._new)
        self.late: dict[CobId, set[CobId]] = {cob: set() for cob in new}
        self.stays: dict[CobId, set[CobId]] = {}
        self.met: set[tuple[CobId, CobId]] = set()
        needed = self._needed_there()
        for taken_out in (False, True):
            relied = {it: self._relied(it, self._held, taken_out=taken_out) for it in new}
            self._add(relied, self.late)
            if not taken_out:
                self.met = {(cob, on) for cob in new for on in relied[cob] - self.late[cob]}
            self._add(needed[taken_out], self.stays)

    def _add(self, more: Mapping[CobId, set[CobId]], waits: dict[CobId, set[CobId]]) -> None:
        """Have objects wait for more others, but for those that come to wait for them."""
        more = {cob: others - waits.get(cob, set()) for cob, others in more.items()}
        for cob, others in more.items():
            waits.setdefault(cob, set()).update(others)
        number = {it: at for at, part in enumerate(parts_of(self._edges())) for it in part}
        for cob, others in more.items():
            waits[cob] -= {it for it in others if number[it] == number[cob]}

    def _relied(
        self, cob: CobId, among: AbstractSet[CobId], *, taken_out: bool = False
    ) -> set[CobId]:
        """Return on whose new content, `among` those of other hosts, that of an object relies.

        With `taken_out` also that of those that it takes out.
        """
        cobs, found, seen = self._machine.wanted, set[CobId](), set[tuple[CobId, State]]()
        todo = [*self._asked(cob, cobs[cob].preferred)]
        while todo:
            on, state = todo.pop()
            if (on, state) in seen or on not in self._machine.nodes:
                continue
            seen.add((on, state))
            home = cobs[on].preferred
            if home not in cobs[on].type.members(state):
                if taken_out:
                    todo += (*self._asked(on, state), *self._asked(on, home))
            elif on in among:
                found.add(on)
            else:
                found |= self._takers[on] & among
                todo += self._locks(on, home)
        return {it for it in found if host_of(it) != host_of(cob)}

    def _taken_out(self, cobs: Iterable[CobId]) -> Mapping[CobId, set[CobId]]:
        """Return by whose new content objects are taken out, a server by its configuration."""
        wanted, found = self._machine.wanted, defaultdict[CobId, set[CobId]](set)
        for cob in sorted(cobs):
            for on, state in self._asked(cob, wanted[cob].preferred):
                if on in wanted and wanted[on].preferred not in wanted[on].type.members(state):
                    found[on].add(cob)
        return found

    def _asked(self, cob: CobId, state: State) -> Iterator[tuple[CobId, State]]:
        """Yield what the goal asks of others for an object to get to a state, from anywhere."""
        node, table = self._machine.nodes[cob], self._machine.table_of(cob)
        needs = [need for need in node.step_needs or () if id(need) not in self._base]
        aim = self._machine.wanted[cob].type.stands_for(state, UNKNOWN)
        for moves in table.moves.values() if needs else ():
            if aim in moves:
                yield from of_step(needs, moves[aim].step.source, moves[aim].step.dest)
        yield from self._locks(cob, aim)

    def _locks(self, cob: CobId, state: State) -> Wanted:
        needs = self._machine.nodes[cob].lock_needs
        return of_state([it for it in needs if id(it) not in self._base], state) if needs else ()

    def _needed_there(self) -> tuple[dict[CobId, set[CobId]], dict[CobId, set[CobId]]]:
        """Return who needed removed objects there, and whose new content these rely on now.

        It is not waited for those that a removed object takes out, or that need it gone. Who takes
        out what stays for others stays as well.
        """
        cobs, nodes = self._machine.wanted, self._machine.nodes
        found: dict[CobId, set[CobId]] = {}
        takes_out = set[tuple[CobId, CobId]]()
        for need in self._change.needs:
            cob, on = nodes.get(need.cob), nodes.get(need.on)
            if on is None or cob is None:
                continue
            if cob.leaves and cobs[on.id].preferred not in on.type.members(need.state):
                takes_out.add((cob.id, on.id))
            if not on.leaves or cob.removed or not cob.up:
                continue
            if on.type.remove in on.type.members(need.state):
                self._gone_first.append((cob.id, on.id))
            else:
                found.setdefault(on.id, set()).update({cob.id}, self._takers[cob.id])
        apart = {*takes_out, *((on, cob) for cob, on in self._gone_first)}
        then = {on: {cob for cob in some if (on, cob) not in apart} for on, some in found.items()}
        relied = {it: self._relied(it, self._new) for it in set().union(*found.values())}
        now = {on: set().union(*(relied[it] for it in some)) for on, some in found.items()}
        return _spread(then, takes_out), _spread(now, takes_out)

    def _edges(self) -> dict[str, list[str]]:
        """Return what each object, each host and each step of the order waits for, at most."""
        change, lender = self._change, self._machine.lender
        edges = defaultdict[str, list[str]](list)
        for cob, others in (*self.late.items(), *self.stays.items()):
            edges[cob] += sorted(others)
        for cob in sorted({*self.late, *(it for some in self.stays.values() for it in some)}):
            edges[cob] += {host_of(cob)} & change.hosts
        for one, other in (*self._gone_first, *((host_of(it), it) for it in change.removed)):
            edges[one].append(other)
        for at, (hosts, before) in enumerate(change.order):
            for it in (*hosts, f"#{at}"):
                edges[it] += (*hosts, *(f"#{number}" for number in before))
        for host in sorted(change.hosts):
            for unit in () if lender is None else lender.units_on(host):
                edges[host] += (node.id for node in unit.scope if node.id in self.late)
                edges[host] += unit.hosts
        return edges


def _spread(
    stays: dict[CobId, set[CobId]], takes_out: AbstractSet[tuple[CobId, CobId]]
) -> dict[CobId, set[CobId]]:
    """Have who takes out what stays for others stay for these as well, and so on."""
    takers = defaultdict[CobId, list[CobId]](list)
    for cob, on in takes_out:
        takers[on].append(cob)
    todo = [*stays]
    while todo:
        on = todo.pop()
        for cob in takers[on]:
            mine = stays.setdefault(cob, set())
            more = {it for it in stays[on] - mine if (cob, it) not in takes_out}
            mine |= more
            todo += [cob] * bool(more)
    return stays
