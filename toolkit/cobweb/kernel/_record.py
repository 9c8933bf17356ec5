"""What a run writes down and tells: entries of the journal and events, one batch after the other.

Both are collected while the engine is asked; `flush` stores a batch and tells it only then, so that
nobody hears of what a crash could take back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import cobweb
from cobweb._text import shortened
from cobweb.kernel._dispatch import Dispatcher
from cobweb.kernel._events import EVENTS_FORMAT, Event, EventBody, EventPublisher
from cobweb.kernel._result import Ending
from cobweb.kernel._run_state import RunState
from cobweb.model import UNKNOWN, CobId, Graph, Job, Outcome, Report, State
from cobweb.store import Entry, EventWritten, TransitionBegan, TransitionFinished, TransitionResult

Locks = Iterable[tuple[CobId, State]]

MOST_TASKS = 20
"""How many tasks of a failed job its event names: the last ones."""

LONGEST_MESSAGE = 2000
"""How many characters of one message an event carries; what is longer loses its end."""

_QUIET = ("ok", "changed", "skipped")
"""What tasks said that ended so is not kept: it explains no failure, and may be anything."""


class Journal(Protocol):
    """A durable place for the entries of a run."""

    def write(self, entries: Sequence[Entry]) -> None:
        """Store all entries in one transaction; return when they are safe."""


class Record:
    """Collects what a run has to say; nothing leaves it but by `flush`.

    Without a journal it is of a run that touches nothing: entries are forgotten.
    """

    def __init__(self, journal: Journal | None, publisher: EventPublisher) -> None:
        self._journal = journal
        self.publisher = publisher
        self._entries: list[Entry] = []
        self._told: list[EventBody] = []
        self._numbered: list[Event] = []
        self._began_s: dict[CobId, float] = {}

    def write(self, entry: Entry) -> None:
        """Add an entry to the batch."""
        self._entries.append(entry)

    @property
    def size(self) -> int:
        """How much has been collected since the last `flush`: entries and events."""
        return len(self._entries) + len(self._told)

    def flush(self) -> None:
        """Store the batch, then tell its events.

        Raises what the journal raises; then nothing is told, and the next batch begins with this.
        """
        events = self.publisher.number(self._told)
        self._told = []
        self._numbered.extend(events)
        if self._journal is not None:
            self._entries.extend(
                EventWritten(it["seq"], it["time"], it["type"], it.data_json) for it in events
            )
            if self._entries:
                self._journal.write(self._entries)
        self._entries, events, self._numbered = [], self._numbered, []
        self.publisher.tell(events)

    def run_started(self, run: str, graph: Graph, *, generation: int) -> None:
        """Tell that the run starts, and what is wanted at its end."""
        self._told.append(("version", {"events": EVENTS_FORMAT, "cobweb": cobweb.__version__}))
        size = {"hosts": len(graph.hosts()), "cobs": len(graph.cobs)}
        self._told.append(("run.start", {"run": run, "generation": generation, **size}))

    def tell(self, told: Iterable[EventBody]) -> None:
        """Add events."""
        self._told.extend(told)

    def run_ended(self, end: Ending, counts: Mapping[str, int], lost: Mapping[str, str]) -> None:
        """Tell how the run ends; `lost` has what was said of each host that was lost."""
        told = {"result": str(end), "exit_code": end.exit_code, "counts": counts}
        said = {host: shortened(why, LONGEST_MESSAGE) for host, why in sorted(lost.items())}
        self._told.append(("run.end", told | ({"unreachable": said} if said else {})))

    def checked(self, cob: CobId, report: Report, *, message: str = "") -> dict[str, Any]:
        """Tell how a check ended; return what is said of it if it failed, as `message` has it."""
        is_ok = report.outcome is Outcome.OK and not message
        said = {} if is_ok else _failure(message or report.message, report)
        end = {"state": report.state if is_ok else UNKNOWN, "result": "ok" if is_ok else "failed"}
        self._told.append(("check.end", {"cob": cob, **end, **said}))
        return said

    def found(self, cob: CobId, state: State, reason: str, **more: Any) -> None:
        """Tell which state was found, or that none is known; and what belongs to the reason."""
        self._told.append(("cob.state", {"cob": cob, "state": state, "reason": reason, **more}))

    def began(self, job: Job, locks: Locks, now_s: float, dispatcher: Dispatcher) -> None:
        """Add the begin of a transition, which `dispatcher` starts; of a later attempt no event."""
        executor, can_be_lost = dispatcher.carrier(job)
        self._entries.append(
            TransitionBegan(
                cob=job.cob,
                source=job.source,
                dest=job.dest,
                time=now_s,
                attempt=job.attempt,
                executor=executor,
                at_work=can_be_lost,
            )
        )
        if job.attempt > 1:
            return
        self._began_s[job.cob] = now_s
        held = [{"cob": cob, "state": state} for cob, state in locks]
        start = {"cob": job.cob, "from": job.source, "to": job.dest, "locks": held}
        self._told.append(("transition.start", start))

    def ended(
        self, job: Job, state: State, run_state: RunState, report: Report | None, *, at_work: bool
    ) -> None:
        """Add the end of a transition in `state`; it is ok if that is where it led to.

        The event carries what was said, and that of a failure the tasks of `report`, within bounds.
        """
        is_ok = state == job.dest
        result = TransitionResult.OK if is_ok else TransitionResult.FAILED
        message = report.message if is_ok and report else run_state.messages.get(job.cob, "")
        self._entries.append(
            TransitionFinished(
                cob=job.cob,
                source=job.source,
                dest=job.dest,
                state=state,
                result=result,
                applied=run_state.applied_to(job.cob),
                time=run_state.now_s,
                at_work=at_work,
                stopped=job.cob in run_state.cut,
            )
        )
        began_s = self._began_s.pop(job.cob, run_state.now_s)
        end = {
            "cob": job.cob,
            "from": job.source,
            "to": job.dest,
            "state": state,
            "result": str(result),
            "attempt": job.attempt,
            "seconds": round(max(0.0, run_state.now_s - began_s), 6),
            **_failure(message, None if is_ok else report),
        }
        self._told.append(("transition.end", end))


def _failure(message: str, report: Report | None) -> dict[str, Any]:
    """Return what an event says of a failure; nothing where nothing was said."""
    tasks = [
        {
            "name": shortened(task.name, LONGEST_MESSAGE),
            "status": task.status,
            "message": "" if task.status in _QUIET else shortened(task.message, LONGEST_MESSAGE),
        }
        for task in (report.tasks[-MOST_TASKS:] if report else ())
    ]
    lost = report is not None and report.outcome is Outcome.UNREACHABLE
    said = {"message": shortened(message, LONGEST_MESSAGE), "tasks": tasks, "unreachable": lost}
    return {key: value for key, value in said.items() if value}
