"""Live progress counts hosts and objects, fits the terminal, and never breaks a run."""

from __future__ import annotations

import io
import re
import threading
from typing import Any

import pytest

from cobweb.cli._progress import Clocked, Counter, LiveLine, PlainLines
from cobweb.cli._text import cells

GOALS = {"h1/a": "up", "h1/b": "up", "h2/c": "up"}


def state(cob: str, name: str) -> dict[str, Any]:
    return {"type": "cob.state", "cob": cob, "state": name, "reason": "check"}


def start(cob: str) -> dict[str, Any]:
    return {"type": "transition.start", "cob": cob, "from": "down", "to": "up", "locks": []}


def end(cob: str, result: str = "ok", attempt: int = 1) -> dict[str, Any]:
    return {
        "type": "transition.end",
        "cob": cob,
        "from": "down",
        "to": "up",
        "state": "up" if result == "ok" else "unknown",
        "result": result,
        "attempt": attempt,
        "seconds": 1.25,
    }


STORY: list[tuple[list[dict[str, Any]], str]] = [
    ([], "hosts 0/2  objects 0/3  running 0  waiting 3"),
    ([state("h1/a", "up")], "hosts 0/2  objects 1/3  running 0  waiting 2"),
    ([state("h2/c", "down"), start("h2/c")], "hosts 0/2  objects 1/3  running 1  waiting 1"),
    ([end("h2/c"), state("h2/c", "up")], "hosts 1/2  objects 2/3  running 0  waiting 1"),
    ([start("h2/c")], "hosts 0/2  objects 1/3  running 1  waiting 1"),
    ([state("h2/c", "unknown")], "hosts 0/2  objects 1/3  running 0  waiting 2"),
    (
        [start("h1/b"), end("h1/b", "failed")],
        "hosts 0/2  objects 1/3  running 0  waiting 1  failed 1",
    ),
    ([state("h9/not-ours", "up"), {"type": "run.end"}], "hosts 0/2  objects 1/3  running 0  wait"),
]


def test_the_counts_follow_the_events() -> None:
    counter = Counter(GOALS)
    for events, summary in STORY:
        for event in events:
            counter.take(event)
        assert counter.summary().startswith(summary)


def test_what_has_an_old_content_is_not_done_until_its_host_has_switched() -> None:
    counter = Counter(GOALS)
    counter.old.update(["h1/a", "h1/b", "h9/not-ours"])
    for cob in GOALS:
        counter.take({**state(cob, "up"), "reason": "journal"})
    old = "hosts 1/2  objects 1/3  running 0  waiting 2"
    assert counter.summary() == old
    counter.take(start("h1/b"))
    counter.take(end("h1/b"))
    counter.take(state("h1/b", "up"))
    assert counter.summary() == old
    counter.take({"type": "generation.switch", "hosts": ["h1"], "generation": 2})
    counter.take({**state("h1/a", "unknown"), "reason": "content"})
    counter.take({**state("h1/b", "unknown"), "reason": "content"})
    assert counter.summary() == old
    counter.take(state("h1/b", "up"))
    counter.take(state("h1/a", "up"))
    assert counter.summary() == "hosts 2/2  objects 3/3  running 0  waiting 0"


def test_a_line_is_redrawn_below_what_has_ended() -> None:
    now = [0.0]
    stream = io.StringIO()
    live = LiveLine(Counter(GOALS, clock=lambda: now[0]), stream, width=lambda: 55)
    live(start("h1/a"))
    live(start("h1/b"))  # too early to draw again
    live(end("h1/a", attempt=2))
    now[0] = 1.0
    live(state("h1/a", "up"))
    live.say("a \x1b word")
    live.close()
    first = "hosts 0/2  objects 0/3  running 1  waiting 2"
    assert stream.getvalue().split("\r\x1b[K") == [
        "",
        f"{first}: 0 s h...",
        f"h1/a  down -> up  (1.2 s, attempt 2)\n{first}: 0 s h...",
        "hosts 0/2  objects 1/3  running 1  waiting 1: 1 s h...",
        "a \\x1b word\nhosts 0/2  objects 1/3  running 1  waiting 1: 1 s h...",
        "",
    ]


def test_a_long_transition_is_told_with_its_seconds_though_nothing_happens() -> None:
    """Also one of an object that has no goal, as it is to be removed."""
    now = [0.0]
    stream = io.StringIO()
    live = LiveLine(Counter({"h1/a": "up"}, clock=lambda: now[0]), stream, width=lambda: 90)
    live(state("h1/a", "up"))
    live(start("h2/gone"))  # too early to be drawn
    for now[0] in (1.0, 61.0):
        live.tick()
    counts = "hosts 1/1  objects 1/1  running 1  waiting 0"
    assert stream.getvalue().split("\r\x1b[K")[2:] == [
        f"{counts}: 1 s h2/gone down -> up",
        f"{counts}: 61 s h2/gone down -> up",
    ]


@pytest.mark.parametrize("width", [20, 40, 80])
def test_the_line_fits_with_wide_names(width: int) -> None:
    stream = io.StringIO()
    names = [f"主机{number}/数据库" for number in range(40)]
    live = LiveLine(Counter(dict.fromkeys(names, "up")), stream, width=lambda: width)
    for name in names:
        live(start(name))
        live(end(name, "failed"))
    drawn = [line for line in re.split(r"[\r\n]|\x1b\[K", stream.getvalue()) if "hosts" in line]
    assert drawn
    assert max(cells(line) for line in drawn) < width


def test_without_a_terminal_only_ends_are_lines() -> None:
    stream = io.StringIO()
    plain = PlainLines(Counter(GOALS), stream)
    for event in (start("h1/a"), end("h1/a", "failed"), state("h1/a", "down")):
        plain(event)
    plain.say("that was it")
    plain.close()
    assert stream.getvalue() == "h1/a  down -> up  (1.2 s)  FAILED\nthat was it\n"


def test_after_a_silence_it_is_told_what_is_still_at_work_and_ever_more_seldom() -> None:
    stream, now = io.StringIO(), [0.0]
    told = PlainLines(Counter(GOALS, clock=lambda: now[0]), stream)
    told(start("h1/a"))
    lines = []
    for now[0] in map(float, range(200)):
        told.tick()
        if text := stream.getvalue():
            lines.append((now[0], text))
            stream.seek(stream.truncate(0))
    assert lines == [
        (second, f"still at work: h1/a down -> up ({second:.0f} s)\n")
        for second in (10.0, 30.0, 70.0, 130.0, 190.0)
    ]
    told(end("h1/a"))
    now[0] = 1000.0
    told.tick()
    assert stream.getvalue() == "h1/a  down -> up  (1.2 s)\n"


def test_whoever_hears_something_is_not_reminded_and_of_many_some_are_named() -> None:
    stream, now = io.StringIO(), [0.0]
    goals = {f"h/{name}": "up" for name in "abcde"}
    told = PlainLines(Counter(goals, clock=lambda: now[0]), stream)
    for name in "abcde":
        told(start(f"h/{name}"))
    now[0] = 9.0
    told(end("h/a"))
    now[0] = 18.0
    told.tick()
    now[0] = 19.0
    told.tick()
    _, reminder = stream.getvalue().splitlines()
    assert reminder.endswith(
        "h/b down -> up (19 s), h/c down -> up (19 s), h/d down -> up (19 s) and 1 more"
    )


def test_what_is_entered_ticks_by_itself_until_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cobweb.cli._progress._TICK_S", 0.0)
    ticked, happened = threading.Event(), list[str]()

    class Ticking(PlainLines):
        def tick(self) -> None:
            happened.append("tick")
            ticked.set()

        def close(self) -> None:
            happened.append("close")

    with Clocked(Ticking(Counter(GOALS), io.StringIO())):
        assert ticked.wait(30)
    assert happened[-1] == "close"


class Gone(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_terminal_that_is_gone_is_no_error() -> None:
    for progress in (
        PlainLines(Counter(GOALS), Gone()),
        LiveLine(Counter(GOALS), Gone(), width=lambda: 80),
    ):
        progress(end("h1/a"))
        progress.say("nobody hears it")
        progress.close()


@pytest.mark.parametrize(
    ("units", "line"),
    [
        (["h1"], "limit pool: h1 is back, the others wait 30 s\n"),
        (["a", "b", "c", "d"], "limit pool: a, b, c, ... are back, the others wait 30 s\n"),
    ],
)
def test_a_pause_is_a_line(units: list[str], line: str) -> None:
    stream = io.StringIO()
    shown = PlainLines(Counter(GOALS), stream)
    shown({"type": "limit.pause", "limit": "pool", "units": units, "seconds": 30.0})
    assert stream.getvalue() == line


def test_what_a_transition_says_stands_below_its_line() -> None:
    """What a failure says is told at the end, with what waits for it."""
    stream = io.StringIO()
    lines = PlainLines(Counter({"h/a": "up"}), stream)
    lines({**end("h/a"), "message": "kept a local edit as /var/lib/x"})
    lines({**end("h/a", "failed"), "message": "no room"})
    first, second, third = stream.getvalue().splitlines()
    assert first.startswith("h/a  ")
    assert second == "  kept a local edit as /var/lib/x"
    assert third.endswith("FAILED")
