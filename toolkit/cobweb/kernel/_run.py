"""One run: goes through a context until all is done, the user stops it or too much has failed.

It ends when the kernel is at rest. Where the journal cannot be written any more, what is about to
start is dropped, the engine is halted, and what is at work may end. That is taken note of in memory
and stored at the end if the journal can be written by then; else the error says what was in flight
and what is out.
"""

from __future__ import annotations

from contextlib import suppress

from cobweb.engine import Halt
from cobweb.errors import StoreError
from cobweb.kernel._dispatch import Dispatcher, describe
from cobweb.kernel._events import EventPublisher
from cobweb.kernel._kernel import Kernel, RunSetting
from cobweb.kernel._record import Journal
from cobweb.kernel._result import RunResult, ending_of, with_cut
from cobweb.kernel._sentences import halted_text, left_lines
from cobweb.kernel._signals import KILL, Interrupts
from cobweb.model import JobKind, Outcome


class Run:
    """Drives one context to its end; use once."""

    def __init__(
        self,
        setting: RunSetting,
        dispatcher: Dispatcher,
        journal: Journal,
        publisher: EventPublisher,
    ) -> None:
        self._setting = setting
        self._dispatcher = dispatcher
        self.kernel = Kernel(setting, dispatcher, journal, publisher)
        self._run_state = self.kernel.run_state
        self._publisher = publisher

    def go(self, interrupts: Interrupts) -> RunResult:
        """Go through the run.

        The executor is closed in any case. Raises what the journal and the executor raise, with a
        note for each job that was stopped or whose report was not taken yet; then their objects are
        left in transition, and the next run checks them. Where the journal fails, what is at work
        is let end, and notes say that of which it does not know, and what is out.
        """
        interrupts.wake = self._dispatcher.wake
        stopped: tuple[str, ...] = ()
        try:
            self._play(interrupts)
            stopped = self._stop(interrupts)
            return self._finish(stopped)
        except BaseException as error:
            for line in (*stopped, *describe(self.kernel.unreported())):
                error.add_note(f"stopped in the middle: {line}")
            if isinstance(error, StoreError):
                self._note_left(error)
            self._dispatcher.close(kill=True)
            raise

    def end(self) -> RunResult:
        """End a run of which the kernel was stepped; what is at work is stopped."""
        interrupts = Interrupts()
        interrupts.count = 0 if self.kernel.is_settled() else KILL
        self._look_at(interrupts)
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

    def _play(self, interrupts: Interrupts) -> None:
        """Go on until nothing is left to do or what is at work is to be stopped."""
        try:
            self.kernel.start()
            self._look_at(interrupts)
            self.kernel.flush()
            while not self._dispatcher.idle() and interrupts.count < KILL:
                self.kernel.take(self._setting.beat_s)
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
        if not self._run_state.halted:
            self._run_state.halted = True
            self.kernel.feed(Halt())
            self.kernel.reports.drop_waiting(None, "the run was stopped before the next attempt")

    def _stop(self, interrupts: Interrupts) -> tuple[str, ...]:
        """Stop what is still at work after a second interrupt; return a line for each job."""
        if not self._dispatcher.idle():
            self._look_at(interrupts)
        return tuple(describe(self.kernel.stop()))

    # --- end

    def _finish(self, in_flight: tuple[str, ...]) -> RunResult:
        run_state, graph = self._run_state, self._setting.graph
        waits = with_cut(self._setting.context.waits(self.kernel.engine), run_state.cut)
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
        lost = run_state.lost
        self.kernel.record.run_ended(ending, counts, lost)
        self.kernel.record.flush()
        return RunResult(
            run=self._setting.run,
            ending=ending,
            counts=counts,
            waits=waits,
            messages=dict(run_state.messages),
            seconds=self._dispatcher.now() - self.kernel.started_s,
            in_flight=in_flight,
            stopped=f"{stopped}; nothing was changed" if is_untouched else stopped,
            notices=tuple(self._publisher.notices),
        )
