"""Two sections with deciders, for sites that a controller keeps: a good one and a bad one.

Both work in the folder that `$WATCH_HOME` names. There are

- `wish/HOST`, made by the test: the text that the decider `counter` decides for the host;
- `does`, made by the test: the name of one of the MISDEEDS, which the decider `bandit` then does;
- `turns`: a line of JSON for each step of a decider: its name, the step, the process, more;
- `pause/STEP`, made by the test: `counter` waits at this step until the file is gone, and meanwhile
  `at/STEP` has the id of its process.
"""

from __future__ import annotations

import json
import math
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

from cobweb.api import Site
from cobweb.errors import ConflictError, ModelError
from cobweb.model import Decided, Expansion, Tasks
from cobweb.model import Outcome as JobOutcome
from cobweb.plugin import ExpandContext, hookimpl
from cobweb_plugins.controller.deciders import DeciderView, ObserveContext, Outcome

cobweb_interface = 1

WISH = Path(__file__).with_name("wish.yml")

_POLL_S = 0.02
_PAUSE_S = 120.0
"""How long a test may have a decider wait: then it fails, so that no process stays for ever."""

_CHUNK = 2**26
_FLOOD = 2**33
"""So many bytes are more than a worker may take; a flood ends there, for the machine's sake."""


class Counter:
    """The section `counter`: on each of its hosts a board with the text that is decided.

    The key of a host's decision is `wish-HOST`, its body the text, the number of the decision among
    those of the decider, and how many decisions of others there were.
    """

    name: ClassVar[str] = "counter"
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "hosts": {"type": "array", "items": {"type": "string"}},
            "home": {"type": "string"},
        },
        "required": ["hosts", "home"],
        "additionalProperties": False,
    }
    decision_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "number": {"type": "integer"},
            "others": {"type": "integer"},
        },
        "required": ["text"],
        "additionalProperties": False,
    }

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return a board for each host."""
        data = sections[self.name]
        cobs: dict[str, Mapping[str, Any]] = {}
        for host in data["hosts"]:
            decision = context.decisions.get(f"wish-{host}")
            text: Any = "nothing"
            if decision is not None:
                text = Decided(decision.body["text"], decision)
            cobs[f"wished-{host}"] = {
                "type": "board",
                "on": host,
                "spec": {"text": text, "home": data["home"]},
            }
        return Expansion(cobs=cobs)


class CounterDecider:
    """Decides for each host what is wished there, and counts its decisions in its memory."""

    point: ClassVar[str] = "decider"
    name: ClassVar[str] = "counter"
    every_s: ClassVar[float] = 0.2

    def __init__(self) -> None:
        if Path(sys.argv[0]).stem == "_worker":
            _pass("made")

    def observe(self, context: ObserveContext) -> Any:
        """Ask all hosts for their wishes; None is that of a host that cannot be asked."""
        _pass("observe")
        hosts = context.view.data["hosts"]
        action = Tasks(path=str(WISH))
        answers = context.ask(hosts, action, timeout_s=60, spec={"home": str(_home())})
        _pass("observed")
        return {
            host: answer.data["wish"] if answer.outcome is JobOutcome.OK else None
            for host, answer in answers.items()
        }

    def decide(self, view: DeciderView, observations: Any, memory: Any, now_s: float) -> Outcome:
        """Decide what is wished, take back what is wished no more."""
        _pass("decide", now_s)
        _pause_after(type(self).decide)
        count = 0 if memory is None else memory["count"]
        others = sum(it.author != self.name for it in view.decisions.values())
        writes, notes = dict[str, Any](), dict[str, str]()
        for host, wish in sorted(observations.items()):
            key = f"wish-{host}"
            decided = view.decisions.get(key)
            if wish is None:
                notes[host] = f"{host} does not say what it wishes"
            elif not wish and decided is None:
                notes[host] = f"nothing is wished on {host}"
            elif not wish:
                count += 1
                writes[key], notes[key] = None, f"nothing is wished on {host} any more"
            elif decided is None or decided.body["text"] != wish:
                count += int(os.environ.get("COUNTER_STEP", "1"))
                writes[key] = {"text": wish, "number": count, "others": others}
                notes[key] = f"{host} wishes {wish}"
            else:
                writes[key] = decided.body  # as it is
                notes[key] = f"{host} has {wish}"
        notes["n2/plain"] = "plain is nobody's wish"
        return Outcome(writes=writes, memory={"count": count}, notes=notes)


class Bandit:
    """The section `bandit`: it stands for nothing."""

    name: ClassVar[str] = "bandit"
    schema: ClassVar[Mapping[str, Any]] = {"type": "object"}
    decision_schema: ClassVar[Mapping[str, Any]] = {"type": "object", "required": ["text"]}

    def expand(self, _sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return nothing; ModelError where the text `no site` is decided."""
        for key, it in context.decisions.items():
            if it.body["text"] == "no site":
                raise ModelError([((self.name,), f"{key} leaves no site", "decide otherwise")])
        return Expansion()


class BanditDecider:
    """Does what the test says: something bad, or (`nothing`) nothing."""

    point: ClassVar[str] = "decider"
    name: ClassVar[str] = "bandit"
    every_s: ClassVar[float] = json.loads(os.environ.get("BANDIT_EVERY", "0.2"))
    limit_s: ClassVar[float] = json.loads(os.environ.get("BANDIT_LIMIT", "10"))

    def observe(self, context: ObserveContext) -> Any:
        """Do what is to be done in `observe`."""
        _note(self.name, "observe")
        deed = _deed()
        return MISDEEDS[deed](context) if deed.startswith("observe") else {}

    def decide(self, view: DeciderView, observations: Any, memory: Any, now_s: float) -> Any:
        """Do what is to be done in `decide`."""
        _note(self.name, "decide", now_s)
        deed = _deed()
        if deed.startswith("decide"):
            return MISDEEDS[deed](view)
        return Outcome(memory={"memory": memory is not None, "observed": observations})


def _raise(error: BaseException) -> Any:
    raise error


def _loop(_: object) -> Any:
    while True:
        pass


def _loop_deaf(_: object) -> Any:
    """Go on whatever signal comes that can be caught, and whatever exception."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            time.sleep(0.01)
        except BaseException:  # noqa: BLE001, S112  # it is deaf
            continue


def _loop_with_child(_: object, *, in_session: bool = False) -> Any:
    """Have a child that does not end; its id is in the file `child`."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=in_session)
    (_home() / "child").write_text(str(child.pid))
    child.wait()


def _leave_child(_: object) -> Any:
    """Leave a child that does not end and has all that this process has open."""
    child = subprocess.Popen(["sleep", "600"], close_fds=False)
    (_home() / "child").write_text(str(child.pid))
    return Outcome()


def _leave_thread(_: object) -> Any:
    threading.Thread(target=time.sleep, args=(600,)).start()
    return Outcome()


def _stop_later(_: object) -> Any:
    """Decide well, with much to remember, and stop the process when it has answered."""
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGSTOP)).start()
    return Outcome(memory="x" * 2**19)


def _recurse(_: object) -> Any:
    return [_recurse(_)]


def _flood_memory(_: object) -> Any:
    kept = [bytearray(os.urandom(1)) * _CHUNK for _ in range(_FLOOD // _CHUNK)]
    return Outcome(memory=len(kept))


def _print_much(_: object) -> Any:
    for _number in range(64):
        sys.stdout.write("x" * 2**20 + "\n")
        sys.stderr.write("y" * 2**20 + "\n")
    return Outcome()


def _print_much_below(_: object) -> Any:
    """Print by a child, and past Python's own streams."""
    subprocess.run(["head", "-c", "32M", "/dev/zero"], check=True)
    for number in (1, 2):
        os.write(number, b"{}\n" * 2**20)
    return Outcome()


def _print_forever(_: object) -> Any:
    while True:
        os.write(2, b"z" * 2**16)


def _print_a_line(_: object) -> Any:
    sys.stdout.write("a line for its author\n")
    sys.stderr.write('{"writes": {}}\n')
    os.write(1, b"{}\n")
    return Outcome(memory="good")


def _close_all(_: object) -> Any:
    os.closerange(0, 1024)
    return Outcome(memory="good")


def _fork(_: object) -> Any:
    """Have two processes that go on as this one."""
    os.fork()
    return Outcome(memory="good")


def _answer_itself(_: object) -> Any:
    """Write into all that is open: also where the answer is to be written."""
    answer = json.dumps({"writes": {"k": {"text": "x"}}, "memory": 1, "notes": {}, "revision": 0})
    for path in [*Path("/proc/self/fd").iterdir()]:
        number = int(path.name)
        if number > 2 and stat.S_ISFIFO(_mode(number)):
            with suppress(OSError):
                os.write(number, f"{answer}\n[]\n".encode())
    return Outcome(memory="good")


def _mode(number: int) -> int:
    try:
        return os.fstat(number).st_mode
    except OSError:
        return 0


def _deep() -> Any:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


def _cycle() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


def _contend(view: DeciderView) -> Any:
    """Have another decide each time between the look and the write."""
    del view
    with Site(Path(os.environ["WATCH_SITE"])) as site:
        while True:
            now = site.decisions("bandit").revision
            try:
                site.decide("bandit", now, {"other": {"text": str(now)}}, "ann", "she can")
            except ConflictError:
                continue
            return Outcome(writes={"own": {"text": "own"}})


MISDEEDS: Mapping[str, Callable[[Any], Any]] = {
    "observe raises": lambda _: _raise(RuntimeError("no\nthis \x1b[31mis\x07 bad")),
    "observe exits": lambda _: sys.exit(0),
    "observe ends": lambda _: os._exit(0),
    "observe is killed": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "observe is stopped": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "observe crashes": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "observe loops": _loop,
    "observe holds the lock": lambda _: sum(range(10**13)),  # of the interpreter
    "observe floods memory": _flood_memory,
    "observe sees no JSON": lambda _: {"a": object()},
    "observe sees a cycle": lambda _: _cycle(),
    "observe prints much": lambda _: _print_much(_) and {},
    "observe reads its input": lambda _: {"read": sys.stdin.read()},
    "observe reads by a child": lambda _: subprocess.run(["cat"], check=True).args,
    "observe has a child": _loop_with_child,
    "observe has a child apart": lambda _: _loop_with_child(_, in_session=True),
    "decide raises": lambda _: _raise(ValueError("x" * 2**22)),
    "decide raises nonsense": lambda _: _raise(type("E", (Exception,), {"__str__": _deep_text})()),
    "decide exits": lambda _: sys.exit("well"),
    "decide interrupts": lambda _: _raise(KeyboardInterrupt()),
    "decide ends": lambda _: os._exit(3),
    "decide loops": _loop,
    "decide loops deaf": _loop_deaf,
    "decide floods memory": _flood_memory,
    "decide recurses": _recurse,
    "decide floods writes": lambda _: Outcome(
        writes={f"k{number}": {"text": "x"} for number in range(200_000)}
    ),
    "decide floods one write": lambda _: Outcome(writes={"k": {"text": "x" * 2**26}}),
    "decide floods a key": lambda _: Outcome(writes={"k" * 2**24: {"text": "x"}}),
    "decide floods its memory": lambda _: Outcome(memory="x" * 2**26),
    "decide floods notes": lambda _: Outcome(notes={"n1": "x" * 2**26}),
    "decide writes no JSON": lambda _: Outcome(writes={"k": {"text": "x", "more": object()}}),
    "decide writes no number": lambda _: Outcome(writes={"k": {"text": "x", "n": math.nan}}),
    "decide writes a long number": lambda _: Outcome(writes={"k": {"text": "x", "n": 10**9999}}),
    "decide writes half a letter": lambda _: Outcome(writes={"k": {"text": "\ud800"}}),
    "decide writes a number": lambda _: Outcome(writes={1: {"text": "x"}}),  # type: ignore[dict-item]  # it is bad
    "decide writes a cycle": lambda _: Outcome(writes={"k": {"text": "x", "c": _cycle()}}),
    "decide writes deep": lambda _: Outcome(writes={"k": {"text": "x", "c": _deep()}}),
    "decide writes no key": lambda _: Outcome(writes={"": {"text": "x"}}),
    "decide writes two lines": lambda _: Outcome(writes={"a\nb": {"text": "x"}}),
    "decide breaks the schema": lambda _: Outcome(writes={"k": {"tex": "x"}}),
    "decide leaves no site": lambda _: Outcome(writes={"k": {"text": "no site"}}),
    "decide takes back nothing": lambda _: Outcome(writes={"k": None}),
    "decide remembers a set": lambda _: Outcome(memory={1, 2}),
    "decide remembers a zero": lambda _: Outcome(
        writes={}, memory={"a\0": "\0"}, notes={"n1": "\0"}
    ),
    "decide notes a number": lambda _: Outcome(notes={"n1": 1}),  # type: ignore[dict-item]  # it is bad
    "decide writes a list": lambda _: Outcome(writes=[("k", {})]),  # type: ignore[arg-type]  # it is bad
    "decide returns nothing": lambda _: None,
    "decide returns a mapping": lambda _: {"writes": {}, "memory": None, "notes": {}},
    "decide returns its class": lambda _: Outcome,
    "decide prints much": _print_much,
    "decide prints much below": _print_much_below,
    "decide prints forever": _print_forever,
    "decide prints a line": _print_a_line,
    "decide closes all": _close_all,
    "decide leaves a child": _leave_child,
    "decide leaves a thread": _leave_thread,
    "decide forks": _fork,
    "decide answers itself": _answer_itself,
    "decide stops later": _stop_later,
    "decide contends": _contend,
}


def _deep_text(_: object) -> str:
    raise RuntimeError("it has no text")


@hookimpl
def cobweb_register_sections() -> list[type[Any]]:
    """Register `counter` and `bandit`."""
    return [Counter, Bandit]


@hookimpl
def cobweb_register_extensions() -> list[type[Any]]:
    """Register their deciders; the bad one comes first."""
    return [BanditDecider, CounterDecider]


def _home() -> Path:
    return Path(os.environ["WATCH_HOME"])


def _deed() -> str:
    file = _home() / "does"
    return file.read_text(encoding="utf-8") if file.exists() else "nothing"


def _note(name: str, step: str, *more: Any) -> None:
    """Add a line, in one write."""
    descriptor = os.open(_home() / "turns", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, (json.dumps([name, step, os.getpid(), *more]) + "\n").encode())
    os.close(descriptor)


def _pass(step: str, *more: Any) -> None:
    """Tell that a step of `counter` begins, then wait as the test has it."""
    _note("counter", step, *more)
    pause, at = _home() / "pause" / step, _home() / "at" / step
    if not pause.exists():
        return
    at.write_text(str(os.getpid()), encoding="utf-8")
    until = time.monotonic() + _PAUSE_S
    while pause.exists():
        if time.monotonic() > until:
            raise RuntimeError("the test has this decider wait for too long")
        time.sleep(_POLL_S)
    at.unlink(missing_ok=True)


def _pause_after(function: Callable[..., Any]) -> None:
    """Have this thread pass the step `decided` when its caller has got what `function` returns."""
    if not (_home() / "pause" / "decided").exists():
        return
    has_returned = False

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal has_returned
        if has_returned:
            sys.setprofile(None)
            _pass("decided")
        has_returned = event == "return" and frame.f_code is function.__code__

    sys.setprofile(look)
