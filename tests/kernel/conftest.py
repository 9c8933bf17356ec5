"""A small system to run: figure 1 of the COB paper, and a rig that runs it with a fake executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.kernel._dispatch import Dispatcher
from cobweb.kernel._events import EventPublisher
from cobweb.kernel._kernel import RunSetting
from cobweb.kernel._record import Record
from cobweb.kernel._result import RunResult
from cobweb.kernel._run import Run
from cobweb.kernel._signals import Interrupts
from cobweb.model import (
    CobId,
    CobType,
    Graph,
    Host,
    Job,
    Report,
)
from cobweb.plugin import ExecutorSetting, PythonType, SiteMark
from cobweb.store import Entry
from cobweb.testing import FakeExecutor
from tests.support.contexts import context_over
from tests.support.graphs import figure_one, simple


@dataclass
class Tape:
    """A journal that remembers its batches, and everything that happened, in one order."""

    happened: list[tuple[str, Any]] = field(default_factory=list)
    fail_at: int | None = None

    def write(self, entries: Sequence[Entry]) -> None:
        if self.fail_at is not None and self.batches >= self.fail_at:
            raise OSError(28, "No space left on device")
        self.happened.append(("journal", tuple(entries)))

    @property
    def batches(self) -> int:
        return sum(kind == "journal" for kind, _ in self.happened)


class TapedExecutor(FakeExecutor):
    """A fake executor that puts every submitted job on the tape."""

    def __init__(self, tape: Tape, **options: Any) -> None:
        super().__init__(**options)
        self._tape = tape

    def submit(self, job: Job) -> None:
        self._tape.happened.append(("submit", job))
        super().submit(job)


@dataclass
class Rig:
    """One run, ready to go."""

    graph: Graph
    answer: Callable[[Job], Report | None] | None = None
    states: dict[CobId, str] = field(default_factory=dict)
    known: dict[CobId, str] = field(default_factory=dict)
    python_types: dict[str, PythonType] = field(default_factory=dict)
    providers: dict[str, Any] = field(default_factory=dict)
    setting: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)
    parallel: int = 10
    mark: SiteMark | None = None
    work_dir: Path = Path()
    tape: Tape = field(default_factory=Tape)
    interrupts: Interrupts = field(default_factory=Interrupts)
    said: list[str] = field(default_factory=list)
    executor: TapedExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.executor = TapedExecutor(self.tape, states=self.states, answer=self.answer)

    def go(self) -> RunResult:
        return self.run().go(self.interrupts)

    def run(self) -> Run:
        names = {cob.host for cob in self.graph.cobs.values()}
        setting = ExecutorSetting(
            hosts={name: Host(name=name) for name in names},
            site_dir=Path(),
            work_dir=self.work_dir,
            parallel=self.parallel,
            timeout_s=30,
            mark=self.mark,
        )
        self.executor.open(setting)
        publisher = EventPublisher(
            [lambda e: self.tape.happened.append(("event", e))], self.executor.now
        )
        context = context_over(self.graph, self.known, **self.context)
        run_setting = replace(
            RunSetting(run="run-1", context=context, graph=self.graph, say=self.said.append),
            **self.setting,
        )
        dispatcher = Dispatcher(
            self.executor, setting, python_types=self.python_types, providers=self.providers
        )
        return Run(run_setting, dispatcher, Record(self.tape, publisher))

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [e for what, e in self.tape.happened if what == "event" and e["type"] == kind]

    def entries(self, kind: type) -> list[Any]:
        return [
            entry
            for what, batch in self.tape.happened
            if what == "journal"
            for entry in batch
            if isinstance(entry, kind)
        ]


@pytest.fixture(scope="session")
def rig() -> type[Rig]:
    """Return the rig's class; the tests say what is special."""
    return Rig


@pytest.fixture
def figure() -> Callable[..., Graph]:
    """Return the maker of figure 1's graph."""
    return figure_one


@pytest.fixture
def simple_type() -> Callable[..., CobType]:
    """Return the maker of the paper's example type."""
    return simple
