"""What `cobweb app run` tells people: how far the application is, who is in trouble, its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from cobweb.plugin import Tone
from cobweb_plugins.applications._book import DONE, RUNNING, Book, Ended
from cobweb_plugins.applications._desk import Desk, nodes_in_words
from cobweb_plugins.applications._groups import folded


def tell_progress(desk: Desk, before: Book, book: Book, wrong: Callable[[str, str], str]) -> None:
    """Tell what has happened since a book; `wrong` is what was so with a phase of a host."""
    access, name, recovery = desk.access, desk.name, desk.application.recovery
    failed = {host: why for host, why in book.failed.items() if host not in before.failed}
    left = {host: why for host, why in book.left.items() if host not in before.left}
    told = ((host, why) for host, why in failed.items() if host not in left)
    for hosts, why in _by_reason(told):
        access.summary(f"{hosts} failed in {why}", Tone.BAD)
    for host, why in left.items():
        hint = f"`cobweb app admit {host}` has it invited again"
        access.summary(f"{host} is left out, for {why}: {hint}", Tone.BAD)
    for hosts, why in _by_reason(_restarts(before, book, recovery.times, wrong), "is", "are"):
        access.summary(f"{hosts} started again in {why}", Tone.CAREFUL)
    if book.ended is Ended.ABORTED:
        access.summary(f"{name} is aborted: {book.why}", Tone.BAD)
    if book.ended is Ended.AGAIN:
        told_times = f"{book.attempt} of {recovery.times}"
        access.summary(f"{name} begins again, {told_times}: {book.why}", Tone.CAREFUL)
    for phase in desk.application.phases:
        now, was = (_counts(it, phase) for it in (book, before))
        said = [
            f"{number} {it}" for number, it in zip(now, ("at work", "done"), strict=True) if number
        ]
        if now != was and said and not book.ended:
            access.summary(f"{phase}: {', '.join(said)}, of {len(book.states)}")


def tell_end(desk: Desk, book: Book, left_alone: Sequence[str]) -> None:
    """Tell how an instance has ended, who has failed, and where phases may be at work still."""
    if left_alone:
        hint = f"`cobweb app stop {desk.name}` ends it, once they answer"
        desk.careful(f"what is at work on {folded(left_alone)} could not be ended: {hint}")
    members, failed = len(book.states), len(book.failed)
    said = [f"{desk.name} has ended on {members - failed} of {nodes_in_words(members)}"]
    if book.ended is Ended.ABORTED:
        said = [f"{desk.name} was aborted"]
    said += [f"failed: {folded(sorted(book.failed))}"] if failed else []
    said += [f"not joined: {folded(sorted(book.missing))}"] if book.missing else []
    tone = Tone.GOOD if book.ended is Ended.DONE else Tone.BAD
    desk.access.summary("; ".join(said), tone)


def _restarts(
    before: Book, book: Book, times: int, wrong: Callable[[str, str], str]
) -> Iterator[tuple[str, str]]:
    """Yield each host of a phase that is to be started again, with which time it is, and why."""
    for host, its in book.starts.items():
        for phase, starts in its.items():
            if starts > before.started(host, phase):
                yield host, f"{phase}, {starts - 1} of {times}: {wrong(host, phase)}"


def _by_reason(
    told: Iterable[tuple[str, str]], one: str = "has", many: str = "have"
) -> Iterator[tuple[str, str]]:
    """Yield hosts that something is so of for one reason, with their verb, and the reason."""
    found: dict[str, list[str]] = {}
    for host, why in sorted(told):
        found.setdefault(why, []).append(host)
    for why, hosts in found.items():
        yield f"{folded(hosts)} {one if len(hosts) == 1 else many}", why


def _counts(book: Book, phase: str) -> tuple[int, int]:
    states = [its.get(phase) for host, its in book.states.items() if host not in book.failed]
    return states.count(RUNNING), states.count(DONE)
