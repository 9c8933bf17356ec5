"""The report of a run as one value: its story, and what was found out about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cobweb_plugins.report._analysis import (
    HostSum,
    PathStep,
    Slow,
    WaitedFor,
    critical_path,
    hosts_of,
    slowest,
    waited_for,
    waiting,
)
from cobweb_plugins.report._values import RunFacts, Story, Waiting

MOST_SLOW = 20
"""How many of the longest transitions a report names."""

MOST_WAITED = 20
"""How many of the objects that were waited for longest a report names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened in a run; `notes` are sentences on what is left out or odd."""

    story: Story
    facts: RunFacts
    path: tuple[PathStep, ...]
    slow: tuple[Slow, ...]
    waited: tuple[WaitedFor, ...]
    waiting: tuple[Waiting, ...]
    hosts: tuple[HostSum, ...]
    notes: tuple[str, ...]

    @property
    def result(self) -> str:
        """How the run ended; `goes on` or `NO_END` where it has no end."""
        if self.story.result:
            return self.story.result
        from cobweb.api import NO_END

        return "goes on" if self.facts.goes_on else NO_END

    @property
    def messages(self) -> Mapping[str, str]:
        """What was said of failures, by object, and of hosts that could not be reached."""
        said = {failure.cob: failure.message for failure in self.story.failures}
        for it in self.waiting:
            for link in it.chain:
                host = link["cob"].partition("/")[0]
                if link["kind"] == "unreachable" and host in self.story.unreachable:
                    said.setdefault(link["cob"], self.story.unreachable[host])
        return said


def make_report(story: Story, facts: RunFacts, notes: Sequence[str] = ()) -> Report:
    """Find out what the story tells; who waited is taken from `facts` where they say so."""
    if facts.waits is None:
        waits = waiting(story)
    else:
        waits = tuple(
            Waiting(cob=it["cob"], state=it["state"], chain=it["chain"]) for it in facts.waits
        )
    return Report(
        story=story,
        facts=facts,
        path=critical_path(story),
        slow=slowest(story, MOST_SLOW),
        waited=waited_for(story, MOST_WAITED),
        waiting=waits,
        hosts=hosts_of(story, waits),
        notes=(*notes, *_remarks(story, waits)),
    )


def _remarks(story: Story, waits: Sequence[Waiting]) -> list[str]:
    """Say what the events do not tell, or what was not kept of them."""
    remarks = []
    if story.result is None:
        remarks.append("the events stop before the end of the run: what was open then stays open")
    unseen = story.counts.get("cobs", 0) - len(story.cobs)
    if unseen > 0:
        remarks.append(f"{unseen} objects of the run have no event: nothing was found out of them")
    missing = story.counts.get("waiting", 0) - len(waits)
    if missing > 0:
        remarks.append(
            f"{missing} more objects were not settled; the events alone do not say which (the"
            " journal does: leave out --events)"
        )
    short = sum(not failure.whole for failure in story.failures)
    if short:
        remarks.append(f"of {short} failures only the beginning of the message was kept")
    return remarks
