"""What is carried out in the coordinator and not by an executor: calls of Python types, in threads.

A call beyond its time limit is reported, and cannot be ended: it is late until it returns. What is
begun for its object meanwhile would meet it at work, so the dispatcher keeps that back.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping

from cobweb.errors import CobwebError, PluginError
from cobweb.model import CobId, Job, Outcome, PythonAction, Report
from cobweb.plugin import CobContext, PythonType, answered

MOST_CALLS = 256
"""How many calls are made at once. They wait most of their time, and take no room of `parallel`."""

NO_RETURN = "the Python type did not return"


class PythonCalls:
    """Calls methods of `types`; `wake` is called when one has returned, from its thread."""

    def __init__(self, types: Mapping[str, PythonType], wake: Callable[[], None]) -> None:
        self._types = dict(types)
        self._wake = wake
        self._deadlines: dict[int, tuple[float, Job]] = {}
        self._late: dict[CobId, Job] = {}
        self._returned_late: list[tuple[Job, Report]] = []
        self._answers: queue.SimpleQueue[tuple[Job, Report] | None] = queue.SimpleQueue()

    def __len__(self) -> int:
        """Return the number of jobs whose reports are to come."""
        return len(self._deadlines)

    def begin(self, job: Job, action: PythonAction, context: CobContext, limit_s: float) -> None:
        """Call a method for a job; it has `limit_s` seconds to return."""
        self._deadlines[job.number] = (time.monotonic() + limit_s, job)
        call = (self._types[action.type_name], action.method, job, context)
        threading.Thread(target=self._call, args=call, daemon=True).start()

    def answer(self, job: Job, report: Report) -> None:
        """Report a job for which nothing has to be called."""
        self._deadlines[job.number] = (time.monotonic(), job)
        self._answers.put((job, report))

    def is_late(self, cob: CobId) -> bool:
        """Say whether a call for an object goes on beyond its time limit."""
        return cob in self._late

    def take_returned(self) -> list[tuple[Job, Report]]:
        """Return, once, the late calls that have returned, with what they would have reported."""
        returned, self._returned_late = self._returned_late, []
        return returned

    def deadlines_s(self) -> list[float]:
        """Return when the jobs whose reports are to come are late, by `time.monotonic`."""
        return [deadline for deadline, _ in self._deadlines.values()]

    def wake(self) -> None:
        """End an `ended` that blocks; from any thread."""
        self._answers.put(None)

    def ended(self, *, block_s: float | None) -> list[Report]:
        """Return new reports; block until there is one, `wake` or `block_s` (None: no end)."""
        reports: list[Report] = []
        while True:
            try:
                answer = self._answers.get(block=block_s != 0.0, timeout=block_s or None)
            except queue.Empty:
                return [*reports, *self._overdue()]
            block_s = 0.0
            if answer is None:
                continue
            job, report = answer
            if self._deadlines.pop(job.number, None):
                reports.append(report)
            elif self._late.pop(job.cob, None):
                self._returned_late.append((job, report))

    def _overdue(self) -> list[Report]:
        now = time.monotonic()
        overdue = [job for deadline, job in self._deadlines.values() if deadline <= now]
        for job in overdue:
            del self._deadlines[job.number]
            self._late[job.cob] = job
        late = Outcome.TIMEOUT
        return [Report(number=it.number, outcome=late, message=NO_RETURN) for it in overdue]

    def _call(self, python_type: PythonType, method: str, job: Job, context: CobContext) -> None:
        self._answers.put((job, _report(python_type, method, job, context)))
        self._wake()


def _report(python_type: PythonType, method: str, job: Job, context: CobContext) -> Report:
    """Call a plugin's method, and report what it answers or raises."""
    try:
        return answered(job, getattr(python_type, method)(context))
    except CobwebError as error:  # said on purpose
        message = str(error)
    except Exception as error:  # noqa: BLE001  # the border to a plugin: its error is its report
        message = str(PluginError(python_type.name, f"{method}: {error!r}"))
    return Report(number=job.number, outcome=Outcome.FAILED, message=message)
