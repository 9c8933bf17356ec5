"""Observers hear of runs, and none of them ends one, holds one up, or harms another."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cobweb.errors import UsageError
from cobweb.kernel._events import Event
from cobweb.operations import Observers
from cobweb.plugin import Observer, load_plugins

Install = Callable[..., Path]

RECORDER = """
    class Recorder:
        name = "recorder"
        def open(self, argument):
            self.file = open(argument, "w")
        def take(self, event):
            self.file.write(event["type"] + "\\n")
            event.clear()
        def close(self, result):
            self.file.write(f"{result and result['exit_code']}\\n")
            self.file.close()

    @hookimpl
    def cobweb_register_observers():
        return [Recorder]
"""

BROKEN = """
    class Broken:
        name = "broken"
        def open(self, argument):
            self.where = argument
            self.fail("open")
        def take(self, event):
            self.fail("take")
        def close(self, result):
            self.fail("close")
        def fail(self, where):
            if where == self.where:
                raise SystemExit(f"no {where}")

    @hookimpl
    def cobweb_register_observers():
        return [Broken]
"""


class Told(Event):
    """An event as a sink gets it, with what a test says."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        dict.__init__(self, data)

    @property
    def line(self) -> str:
        return json.dumps(self) + "\n"


@dataclass
class Keeper:
    """An observer that keeps what it gets, and waits at the `gate`."""

    name: ClassVar[str] = "keeper"
    seen: list[Any] = field(default_factory=list)
    gate: threading.Event | None = None

    def open(self, argument: str) -> None:
        self.seen.append(argument)

    def take(self, event: Mapping[str, Any]) -> None:
        if self.gate is not None:
            self.gate.wait()
        self.seen.append(event)

    def close(self, result: Mapping[str, Any] | None) -> None:
        self.seen.append(result)


EVENTS = [Told({"seq": number, "type": "cob.state"}) for number in range(1, 4)]


def _open(observers: Observers, *made: Observer) -> None:
    for observer in made:
        observers.open({"keeper": lambda it=observer: it}, "keeper", "x")  # type: ignore[misc]


def test_each_gets_all_events_in_their_order_and_the_result() -> None:
    observers, keepers = Observers(), (Keeper(), Keeper())
    _open(observers, *keepers)
    for event in EVENTS:
        observers(event)
    observers.result = {"exit_code": 0}
    assert observers.close() == ()
    for keeper in keepers:
        assert keeper.seen == ["x", *map(dict, EVENTS), {"exit_code": 0}]


def test_a_slow_one_is_left_out_and_the_others_get_all() -> None:
    gate = threading.Event()
    observers = Observers(patience_s=0.0, most_behind=2)
    slow = Keeper(gate=gate)
    _open(observers, slow)
    for event in EVENTS * 2:
        observers(event)
    (notice,) = observers.close()
    gate.set()
    assert notice == "observer keeper was left out: it is too slow: 2 events behind"


def test_one_that_does_not_end_is_left_out() -> None:
    gate = threading.Event()
    observers = Observers(patience_s=0.0)
    _open(observers, Keeper(gate=gate))
    observers(EVENTS[0])
    (notice,) = observers.close()
    gate.set()
    assert notice == "observer keeper was left out: it has not ended within 0 s"


@pytest.mark.parametrize("where", ["open", "take", "close"])
def test_one_that_raises_is_left_out_once_and_the_others_go_on(
    install: Install, where: str
) -> None:
    install("frail", BROKEN)
    known = load_plugins(strict=True).observers
    observers, keeper = Observers(), Keeper()
    observers.open(known, "broken", where)
    _open(observers, keeper)
    for event in EVENTS:
        observers(event)
    (notice,) = observers.close()
    start = (
        f"observer broken was left out: plugin frail: observer broken: {where}() raised SystemExit"
    )
    assert notice.startswith(f"{start}: no {where} at ")
    assert len(keeper.seen) == len(EVENTS) + 2


UNASKED = (
    RECORDER.replace(
        "def open(self, argument):",
        """def unasked(self):
            import os
            return "RECORDER" in os.environ
        def open(self, argument):""",
    )
    .replace("open(argument, ", "open(os.environ['RECORDER'], ")
    .replace("class Recorder", "import os\n\n    class Recorder")
)


def test_one_comes_unasked_where_it_says_so(
    install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install("first", UNASKED)
    known = {"recorder": load_plugins(strict=True).unasked_observers["recorder"]}
    monkeypatch.delenv("RECORDER", raising=False)
    silent = Observers()
    silent.open_unasked(known)
    monkeypatch.setenv("RECORDER", str(tmp_path / "told"))
    observers = Observers()
    observers.open_unasked(known)
    for event in EVENTS:
        silent(event)
        observers(event)
    assert silent.close() == observers.close() == ()
    assert (tmp_path / "told").read_text() == "cob.state\n" * 3 + "None\n"


def test_an_unknown_one_is_wrong_usage(install: Install) -> None:
    install("frail", BROKEN)
    known = load_plugins().observers
    with pytest.raises(UsageError, match="did you mean broken"):
        Observers().open(known, "brokn", "")
    with pytest.raises(UsageError, match="no plugin has any"):
        Observers().open({}, "x", "")


def test_of_two_with_one_name_the_later_is_left_out_and_both_are_named(install: Install) -> None:
    install("first", RECORDER)
    install("second", RECORDER)
    plugins = load_plugins()
    (failed,) = plugins.failed
    assert failed.name == "second"
    assert "observers 'recorder'" in failed.reason
    assert "plugin first (first-dist 1.0)" in failed.reason


def test_one_that_lacks_a_method_is_left_out(install: Install) -> None:
    install("half", RECORDER.replace("def close(self, result)", "def close(self)"))
    (failed,) = load_plugins().failed
    assert failed.reason == "Recorder.close must take (result)"
