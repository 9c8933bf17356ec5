"""One run: goes through a context until all is done, the user stops it or too much has failed.

It ends when the kernel is at rest. Where the journal cannot be written any more, what is about to
start is dropped, the engine is halted, and what is at work may end. That is taken note of in memory
and stored at the end if the journal can be written by then; else the error says what was in flight
and what is out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from cobweb.errors import StoreError
from cobweb.kernel._dispatch import Dispatcher, describe
from cobweb.kernel._events import EventBody
from cobweb.kernel._kernel import Kernel, RunSetting
from cobweb.kernel._mirror import mirror
from cobweb.kernel._record import Record
from cobweb.kernel._result import RunResult, ending_of, wait_of, with_cut
from cobweb.kernel._sentences import halted_text, left_lines
from cobweb.kernel._signals import KILL, Interrupts
from cobweb.model import JobKind, Outcome


class Fellows(Protocol):
    """Owners elsewhere that bring about the rest of a graph, for one run."""

    def news(self) -> Iterable[EventBody]:
        """Return what they have told since the last call, causes first."""

    def at_rest(self) -> bool:
        """Say whether nothing will happen there but by what this owner begins."""

    def halt(self) -> None:
        """Have them begin nothing new."""

    def waits(self) -> Sequence[Mapping[str, Any]]:
        """Return why objects are not where they should be, as `wait_data` has it."""


_LOOK_S = 1.0
"""How often fellows are asked at least."""


class Run:
    """Drives one context to its end; use once."""

    def __init__(self, setting: RunSetting, dispatcher: Dispatcher, record: Record) -> None:
        self._setting = setting
        self._dispatcher = dispatcher
        self._record = record
        self.kernel = Kernel(setting, dispatcher, record)
        self._run_state = self.kernel.run_state
        self._fellows: Fellows | None = None

    def go(self, interrupts: Interrupts, fellows: Fellows | None = None) -> RunResult:
        """Go through the run; `fellows` have the rest of the graph.

        The executor is closed in any case. Raises what the journal and the executor raise, with a
        note for each job that was stopped or whose report was not taken yet; then their objects are
        left in transition, and the next run checks them.
        """
        self._fellows = fellows
        stopped: tuple[str, ...] = ()
        try:
            self._play(interrupts, begins=True)
            stopped = self._stop(interrupts)
            return self._finish(stopped)
        except BaseException as error:
            for line in (*stopped, *describe(self.kernel.unreported())):
                error.add_note(f"stopped in the middle: {line}")
            if isinstance(error, StoreError):
                self._note_left(error)
            self._dispatcher.close(kill=True)
            raise

    def end(self, interrupts: Interrupts) -> RunResult:
        """End a run of which the kernel was stepped, when what is at work has ended."""
        if not self.kernel.is_settled():
            interrupts.count = max(1, interrupts.count)
        self._play(interrupts)
        return self._finish(self._stop(interrupts))

    def _note_left(self, error: StoreError) -> None:
        """Note at an error what the journal does not know, and what is out."""
        ended = [
            f"{line} ({report.outcome})"
            for job, report in self.kernel.unwritten
            if job.kind is JobKind.TRANSITION and report.outcome is not Outcome.CANCELLED
            for line in describe([job])
        ]
        engine = self.kernel.engine
        cobs = (engine.cob(cob) for cob in engine.unsettled())
        out = [it.id for it in cobs if not it.type.serves(engine.state(it.id))]
        for line in left_lines(ended, out):
            error.add_note(line)

    def _play(self, interrupts: Interrupts, *, begins: bool = False) -> None:
        """Go on until nothing is left to do or what is at work is to be stopped."""
        interrupts.wake, fellows = self._dispatcher.wake, self._fellows
        try:
            if begins:
                self.kernel.start()
            self._look_at(interrupts)
            self.kernel.flush()
            while interrupts.count < KILL:
                if self._dispatcher.idle() and (fellows is None or fellows.at_rest()):
                    break
                self.kernel.take(self._setting.beat_s if fellows is None else _LOOK_S)
                if fellows is not None:
                    mirror(fellows.news(), self._run_state, self._record)
                self._look_at(interrupts)
                self.kernel.flush()
        except StoreError as error:
            self._let_end(error, interrupts)

    def _let_end(self, error: StoreError, interrupts: Interrupts) -> None:
        """Start nothing new without a journal, and let what is at work end."""
        self._run_state.stopped = error.message
        self._halt("the state database cannot be written: ")
        self.kernel.drop_unsent()
        while self._dispatcher.running() and interrupts.count < KILL:
            self.kernel.hear(self._setting.beat_s)
            with suppress(StoreError):
                self._setting.beat()
            self._look_at(interrupts)

    # --- interrupts and limits

    def _look_at(self, interrupts: Interrupts) -> None:
        """Start nothing new once the user says so, too much has failed or too many are lost."""
        run_state = self._run_state
        if interrupts.count and not run_state.interrupted:
            run_state.interrupted = True
            self._halt("")
        most = self._setting.max_failures
        if run_state.halted:
            return
        if most is not None and len(run_state.failed) > most:
            run_state.stopped = f"{len(run_state.failed)} failed, more than may"
            self._halt(f"{run_state.stopped}: ")
        elif refusal := self.kernel.threshold.refusal(run_state.lost):
            run_state.stopped = refusal
            self._halt("too many hosts cannot be reached: ")

    def _halt(self, why: str) -> None:
        with suppress(OSError):  # the terminal may be gone; what is at work shall end all the same
            self._setting.say(why + halted_text(describe(self._dispatcher.running())))
        if self._fellows is not None:
            self._fellows.halt()
        self.kernel.halt()

    def _stop(self, interrupts: Interrupts) -> tuple[str, ...]:
        """Stop what is still at work after a second interrupt; return a line for each job."""
        if not self._dispatcher.idle():
            self._look_at(interrupts)
        return tuple(describe(self.kernel.stop()))

    # --- end

    def _finish(self, in_flight: tuple[str, ...]) -> RunResult:
        run_state, graph = self._run_state, self._setting.graph
        waits = with_cut(self._setting.context.waits(self.kernel.engine), run_state.cut)
        if self._fellows is not None:
            waits += tuple(map(wait_of, self._fellows.waits()))
        ending = ending_of(waits, interrupted=run_state.interrupted, stopped=run_state.stopped)
        stopped = run_state.stopped if waits else ""
        is_untouched = stopped and not run_state.begun
        astray = {*self.kernel.engine.unsettled(), *(wait.cob for wait in waits)}
        counts = {
            "hosts": len(graph.hosts()),
            "cobs": len(graph.cobs),
            "settled": len(graph.cobs) - len(astray & graph.cobs.keys()),
            "checks": run_state.checks,
            "transitions": run_state.transitions,
            "failed": len(run_state.failed - run_state.cut.keys()),
            "waiting": len(waits),
        }
        self._record.run_ended(ending, counts, run_state.lost)
        self._record.flush()
        return RunResult(
            run=self._setting.run,
            ending=ending,
            counts=counts,
            waits=waits,
            messages=dict(run_state.messages),
            seconds=self._dispatcher.now() - self.kernel.started_s,
            in_flight=in_flight,
            stopped=f"{stopped}; nothing was changed" if is_untouched else stopped,
            notices=tuple(self._record.publisher.notices),
        )
