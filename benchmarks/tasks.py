"""Node tasks: Cobweb beside ansible-playbook, pyinfra and clush on the same hosts and work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks._row import Row
from benchmarks._tasks_latency import latency
from benchmarks._tasks_places import Place, fabric_place, local_place, what_hosts_lack
from benchmarks._tasks_tools import TAKE_OVER, Ran, clush, cobweb, playbook, pyinfra
from benchmarks._tasks_work import end_services, task_count, undone, write_chain, write_plain

__all__ = ["measure"]

SSH_HOSTS = 20
HALF, SAMPLE = 2, 10
"""Of the local hosts ansible-playbook is given every second, and in further ways every tenth: what
is compared is the cost of a task, and all of them would take it a quarter of an hour."""
CHAIN = 6
SLOW_S = 2.0
LATENCY_TARGET_S = 0.05
WAITING, FEWER_WAITING = 1000, 400
AT_ONCE = 4
STAMP_S, STAMP_SSH_S = 0.2, 0.3
"""Tasks that last so long leave this machine, which is the hosts as well, time for the next."""
Run = Callable[[Place, Path], Ran | None]


def measure(size: str) -> Iterator[Row]:
    """Yield the rows of local hosts, then those of SSH hosts; both sizes have the same rows."""
    full = size == "full"
    with local_place(500 if full else 6) as place:
        try:
            yield from _plain(place, "local", samples=(HALF, SAMPLE) if full else (2, 4))
            yield from _latency(place, "local", WAITING if full else 12, STAMP_S)
        finally:
            end_services(place.root)
    ssh_hosts = SSH_HOSTS if full else 2
    if missing := what_hosts_lack():
        yield Row(what=f"{ssh_hosts} SSH hosts", missing=missing)
        return
    with fabric_place(ssh_hosts) as place:
        yield from _plain(place, "SSH", samples=(1, 1))
        steps, slow_s = (CHAIN, SLOW_S) if full else (3, 0.4)
        yield from _stragglers(place, "SSH", steps=steps, slow_s=slow_s)
        yield from _latency(place, "SSH", FEWER_WAITING if full else 12, STAMP_SSH_S)


def _plain(place: Place, kind: str, *, samples: tuple[int, int]) -> Iterator[Row]:
    """Yield tasks per second and CPU per task of the plain work, for each peer in turn.

    `samples` say which hosts ansible-playbook is given: every first, second, ... in its linear way
    and in others.
    """
    count = task_count(place)
    work = f"{count} tasks on {len(place.hosts)} {kind} hosts"
    folder = _folder(place, "cobweb")
    write_plain(place, folder, "cobweb")
    ours = cobweb(place, folder)
    _hold(place, "cobweb", ours, count)
    again = cobweb(place, folder, "--refresh", "all")
    if again.changed:
        raise RuntimeError(f"a second apply changed {again.changed} objects")
    for number, (peer, run, share) in enumerate(_peers(place, samples)):
        tag = f"peer{number}"
        write_plain(place, _folder(place, tag), tag)
        theirs = run(place, _folder(place, tag))
        if theirs is None:
            if peer != "pyinfra" or not place.is_local:
                yield Row(what=f"{work}, {peer}", missing="run benchmarks/install-peers")
            continue
        done = len(_part(place, share)) * count // len(place.hosts)
        left = len(undone(place, tag))
        if left != len(place.hosts) - len(_part(place, share)):
            raise RuntimeError(f"{peer} left {left} hosts of {len(place.hosts)} undone")
        yield from _compare(work, peer, (ours, count), (theirs, done))
    yield _again(place, work, again, _part(place, samples[1]))


def _part(place: Place, share: int) -> list[str]:
    return sorted(place.hosts)[::share]


def _peers(place: Place, samples: tuple[int, int]) -> Iterator[tuple[str, Run, int]]:
    """Yield name, way to run it and share of the hosts of each peer; the first is the target."""
    half, few = (",".join(_part(place, share)) for share in samples)
    yield "ansible-playbook linear", lambda p, f: playbook(p, f, "-l", half), samples[0]
    yield "clush", clush, 1
    yield "pyinfra", pyinfra, 1
    yield (
        "ansible-playbook free",
        lambda p, f: playbook(p, f, "-l", few, strategy="free"),
        samples[1],
    )
    bare = "ansible-playbook without pipelining"
    yield bare, lambda p, f: playbook(p, f, "-l", few, expert=False), samples[1]


def _hold(place: Place, tag: str, ran: Ran, count: int, *, steps: int = 0) -> None:
    bad = undone(place, tag, steps=steps)
    if ran.changed != count or bad:
        raise RuntimeError(f"{tag}: {ran.changed} of {count} changed; not as asked: {bad[:5]}")


def _compare(work: str, peer: str, ours: tuple[Ran, int], theirs: tuple[Ran, int]) -> Iterator[Row]:
    """Yield two rows; plain ansible-playbook is the target, the others are floors."""
    (own, count), (other, done) = ours, theirs
    rate, peer_rate = count / own.spent.wall_s, done / other.spent.wall_s
    cpu, peer_cpu = own.spent.all_s / count * 1e3, other.spent.all_s / done * 1e3
    is_target = peer.startswith("ansible")
    shown = f"{peer}, {done} tasks" if done != count else peer
    yield Row(
        what=f"{work}, wall",
        value=rate,
        unit="tasks/s",
        peer=shown,
        peer_value=peer_rate,
        target=peer_rate if is_target else None,
        more_is_better=True,
        note=f"{count} changes and {own.checks} checks before them; start and end included",
    )
    yield Row(
        what=f"{work}, CPU per task",
        value=cpu,
        unit="ms",
        peer=shown,
        peer_value=peer_cpu,
        target=peer_cpu if is_target else None,
        note=f"{_split(own, count)}; {peer} {_split(other, done)}",
    )


def _split(ran: Ran, count: int) -> str:
    spent = ran.spent
    if not spent.hosts_s:
        return f"{spent.cpu_s / count * 1e3:.0f} ms, controller and hosts are one"
    controller, hosts = spent.cpu_s / count * 1e3, spent.hosts_s / count * 1e3
    return f"{controller:.0f} ms on the controller and {hosts:.0f} ms on the hosts"


def _again(place: Place, work: str, ours: Ran, part: list[str]) -> Row:
    """Return the row of a run that finds all done, beside ansible-playbook's second run."""
    theirs = playbook(place, _folder(place, "peer0"), "-l", ",".join(part))
    if theirs.changed:
        raise RuntimeError(f"a second ansible-playbook changed {theirs.changed}")
    checked = len(part) * task_count(place) // len(place.hosts)
    return Row(
        what=f"{work}, nothing to do, CPU per task",
        value=ours.spent.all_s / ours.checks * 1e3,
        unit="ms",
        peer="ansible-playbook linear",
        peer_value=theirs.spent.all_s / checked * 1e3,
        target=theirs.spent.all_s / checked * 1e3,
        note="all is checked again and found as asked (`--refresh all`)",
    )


def _stragglers(place: Place, kind: str, *, steps: int, slow_s: float) -> Iterator[Row]:
    """Yield the wall time of commands in a row where one host is slow each time."""
    count = steps * len(place.hosts)
    work = f"{steps} commands in a row on {len(place.hosts)} {kind} hosts, one slow host each"
    folder = _folder(place, "rowcobweb")
    write_chain(place, folder, "rowcobweb", steps=steps, slow_s=slow_s)
    ours = cobweb(place, folder, *TAKE_OVER)
    _hold(place, "rowcobweb", ours, count, steps=steps)
    for strategy in ("linear", "free"):
        tag = f"row{strategy}"
        write_chain(place, _folder(place, tag), tag, steps=steps, slow_s=slow_s)
        theirs = playbook(place, _folder(place, tag), strategy=strategy)
        _hold(place, tag, theirs, count, steps=steps)
        wall_s = theirs.spent.wall_s
        yield Row(
            what=f"{work}, wall",
            value=ours.spent.wall_s,
            peer=f"ansible-playbook {strategy}",
            peer_value=wall_s,
            target=wall_s / 2 if strategy == "linear" else wall_s,
            note=f"sleeps of {slow_s / 10:g} to {slow_s / 2:g} s, {slow_s:g} s on the slow host",
        )


def _latency(place: Place, kind: str, count: int, task_s: float) -> Iterator[Row]:
    """Yield the median time from "locks held" to the first thing that the task does."""
    folder = _folder(place, "stamps")
    found = latency(place, folder, count=count, parallel=AT_ONCE, task_s=task_s)
    yield Row(
        what=f"locks held to task at work, {kind}, {AT_ONCE} at once, median",
        value=found.start_s * 1e3,
        unit="ms",
        target=LATENCY_TARGET_S * 1e3,
        note=(
            f"{found.waiting} transitions, all ready at once, each sleeps {task_s:g} s; from "
            f"transition.start to the time that the task writes; 95th percentile "
            f"{found.start_95_s * 1e3:.0f} ms; from the transition.end that made room "
            f"{found.turn_s * 1e3:.0f} ms"
        ),
    )


def _folder(place: Place, name: str) -> Path:
    folder = place.folder / name
    folder.mkdir(exist_ok=True)
    return folder
