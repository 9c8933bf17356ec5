"""One command on many hosts: over SSH beside clush and pdsh, and over 1,000 lightweight members.

Members are no hosts: they are threads of a few processes of this machine, with a link each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks import _broadcast_ssh as ssh
from benchmarks._broadcast_members import (
    COMMAND,
    PROCESSES,
    Members,
    members,
    round_trip,
    until_back,
)
from benchmarks._row import Row
from benchmarks._tasks_cost import Spent
from benchmarks._tasks_places import Place, fabric_place, local_place, tool, what_hosts_lack

__all__ = ["measure"]

SSH_HOSTS = 20
SIZES = (10, 250, 500, 750, 1000)
ROUNDS = 5
"""How often each tool asks, in turns; the middle one counts."""

FEWER_ROUNDS = 3
"""The same where one host is silent, and for members."""

_REASON = re.compile(r"^n\S+(?: \(\d+ hosts\))?: (.*silent.*?):?$", re.MULTILINE)
"""What `cobweb run` tells of hosts of which there is no answer."""

_SUMMARY = re.compile(r"^(\d+) of \d+ hosts? answered", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All rounds of one tool."""

    spent: Sequence[Spent]

    @property
    def wall_s(self) -> float:
        """Wall time of the middle round."""
        return median(it.wall_s for it in self.spent)

    @property
    def cpu_s(self) -> float:
        """CPU of the middle round, of the tool and of the hosts."""
        return median(it.all_s for it in self.spent)

    @property
    def tool_s(self) -> float:
        """CPU of the middle round, of the tool alone with its ssh clients."""
        return median(it.cpu_s for it in self.spent)


def measure(size: str) -> Iterator[Row]:
    """Yield the rows of SSH hosts, then those of members; both sizes have the same kinds."""
    full = size == "full"
    ssh_hosts = SSH_HOSTS if full else 2
    if missing := what_hosts_lack():
        yield Row(what=f"{ssh_hosts} SSH hosts", missing=missing)
    else:
        with fabric_place(ssh_hosts) as place:
            yield from _over_ssh(place, ROUNDS if full else 1)
    sizes = SIZES if full else (4, 8)
    for count in sizes:
        with local_place(count) as place, members(place) as made:
            yield from _over_members(place, made, FEWER_ROUNDS if full else 1)
            if count == sizes[-1]:
                yield from _back(place, made)


# --- SSH


def _over_ssh(place: Place, rounds: int) -> Iterator[Row]:
    """Yield time and CPU of each tool where all hosts answer, and where one does not."""
    assert place.fabric is not None
    what = f"{len(place.hosts)} SSH hosts"
    asked = _in_turns(place, rounds, is_limited=False)
    for name, it in asked.items():
        for spent in it.spent:
            _hold(name, spent, list(place.hosts))
    yield from _compare(what, asked, "", cpu=True)
    silent = place.fabric.hosts[-1]
    place.fabric.freeze(silent)
    try:
        limited = _in_turns(place, min(rounds, FEWER_ROUNDS), is_limited=True)
    finally:
        place.fabric.thaw(silent)
    for name, it in limited.items():
        for spent in it.spent:
            _hold(name, spent, [host for host in place.hosts if host != silent.name])
    names = (silent.name, silent.address)
    told = "; ".join(f"{name} {_told(it.spent[-1], names)}" for name, it in limited.items())
    yield from _compare(f"{what}, one silent", limited, f"limit {ssh.LIMIT_S} s; {told}", cpu=False)


def _in_turns(place: Place, rounds: int, *, is_limited: bool) -> Mapping[str, Asked]:
    """Have each tool that is there ask all hosts, round by round."""
    spent: dict[str, list[Spent]] = {}
    for _ in range(rounds):
        for name, ask in {"Cobweb": ssh.cobweb, **ssh.PEERS}.items():
            if (one := ask(place, is_limited=is_limited)) is not None:
                spent.setdefault(name, []).append(one)
    return {name: Asked(spent=rows) for name, rows in spent.items()}


def _hold(name: str, spent: Spent, hosts: Sequence[str]) -> None:
    """Raise RuntimeError where the name of a host is not in what a tool has printed."""
    if lacking := [host for host in hosts if host not in spent.output]:
        raise RuntimeError(f"{name}: no answer of {lacking[:5]}: {spent.output[-500:]}")


def _told(spent: Spent, names: Sequence[str]) -> str:
    """Say what a tool has told of a host that did not answer."""
    is_named = any(
        name in line.split() or f"{name}:" in line
        for line in spent.output.splitlines()
        for name in names
    )
    return f"{'names' if is_named else 'does not name'} it and has exit code {spent.code}"


def _compare(what: str, asked: Mapping[str, Asked], note: str, *, cpu: bool) -> Iterator[Row]:
    """Yield the rows beside each peer."""
    ours = asked["Cobweb"]
    for peer in ssh.PEERS:
        if peer not in asked:
            yield Row(what=f"{what}, {peer}", missing="run benchmarks/install-peers")
            continue
        theirs = asked[peer]
        yield Row(
            what=f"{what}, wall",
            value=ours.wall_s,
            peer=peer,
            peer_value=theirs.wall_s,
            note=note,
        )
        if cpu:
            yield Row(
                what=f"{what}, CPU",
                value=ours.cpu_s,
                peer=peer,
                peer_value=theirs.cpu_s,
                note=(
                    f"with ssh clients and without the hosts {ours.tool_s:.2f} s, "
                    f"{peer} {theirs.tool_s:.2f} s"
                ),
            )


# --- members


def _over_members(place: Place, made: Members, rounds: int) -> Iterator[Row]:
    """Yield how long one question to all members takes: the command, and what is on the way."""
    count = len(place.hosts)
    what = f"{count:,} members"
    words = ["run", "--on", "all:!server", "--", COMMAND]
    command = [tool("cobweb"), "-C", str(made.site), *words]
    before = made.used()
    calls = [place.run(command, cwd=made.site, ok=ssh.ANY_CODE) for _ in range(rounds)]
    after = made.used()
    trips = [round_trip(made.site, list(place.hosts)) for _ in range(rounds)]
    members_s = (after.members_s - before.members_s) / rounds
    server_s = (after.server_s - before.server_s) / rounds
    yield Row(
        what=f"{what}, `cobweb run`, wall",
        value=median(it.wall_s for it in calls),
        note=(
            f"CPU: the command {median(it.cpu_s for it in calls):.2f} s, members and what they run "
            f"{members_s:.2f} s, server {server_s:.2f} s"
        ),
    )
    middle = sorted(trips, key=lambda it: it.answered_s[-1])[rounds // 2]
    yield Row(
        what=f"{what}, round trip",
        value=middle.answered_s[-1],
        note=f"half of them have answered after {median(middle.answered_s):.2f} s",
    )
    short = [it.output for it in calls if _answered(it.output) < count]
    reasons = [found[1] for output in short for found in _REASON.finditer(output)]
    reasons += [it.partition(": ")[2] for trip in trips for it in trip.failed]
    counts = [*map(_answered, (it.output for it in calls)), *(len(it.answered_s) for it in trips)]
    yield Row(
        what=f"{what}, answered",
        value=min(counts),
        unit="",
        target=count,
        more_is_better=True,
        note="" if min(counts) == count else f"{counts}; of the others: {sorted(set(reasons))[:5]}",
    )


def _answered(output: str) -> int:
    """Return how many hosts `cobweb run` says that have answered; ValueError where it does not."""
    if (found := _SUMMARY.search(output)) is None:
        raise ValueError(f"`cobweb run` has not come to its end: {output[-500:]}")
    return int(found[1])


def _back(place: Place, made: Members) -> Iterator[Row]:
    """Yield how long members that are killed and started again take until they answer."""
    found = until_back(made)
    what = f"{len(found):,} of {len(place.hosts):,} members killed and started again, until"
    those = f"all are in {PROCESSES // 4} processes of {PROCESSES}"
    note = f"{those}; the first one after {found[0]:.2f} s"
    yield Row(what=f"{what} the last one answers", value=found[-1], note=note)
    yield Row(what=f"{what} half of them answer", value=median(found), note=note)
