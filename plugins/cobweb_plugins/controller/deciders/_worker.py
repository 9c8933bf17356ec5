"""The process in which deciders look and decide; a controller starts it, and kills it.

It answers requests, each a line of JSON, over a pipe that the controller hands it. What deciders
print goes there as noise. It only reads the state database, and ends as the controller does.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import secrets
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobweb.api import Site
from cobweb.errors import CobwebError
from cobweb.model import Action
from cobweb.plugin import Answer, Question
from cobweb_plugins.controller.deciders._values import (
    Decider,
    DeciderView,
    ObjectState,
    Outcome,
    outcome_problems,
    parts_of,
)

POINT = "decider"

MOST_MEMORY_BYTES = 4 << 30
"""How much memory the process may have: what wants more gets a MemoryError."""

MOST_OBSERVED_BYTES = 8 << 20
"""How long the JSON text of observations may be."""

_PR_SET_PDEATHSIG = 1
"""Of prctl(2): which signal comes when the parent ends."""

_LOOKED_AT = 20
"""In how many of the last runs one is looked for that has ended."""

_NO_CHANGE = frozenset({"drift", "keep"})


class TurnError(Exception):
    """A decider breaks its contract."""


@dataclass(slots=True, kw_only=True)
class _Context:
    """What a decider looks with."""

    view: DeciderView
    site: Site
    executor: str

    def ask(
        self,
        hosts: Collection[str],
        action: Action,
        timeout_s: float | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> dict[str, Answer]:
        """Ask hosts one question."""
        return self.site.ask(hosts, action, timeout_s, spec, executor=self.executor)

    def ask_all(self, questions: Mapping[Any, Question]) -> dict[Any, Answer]:
        """Ask hosts all questions at once."""
        return self.site.ask_all(questions, self.executor)


class _Desk:
    """The site of the controller, and what deciders have seen of it."""

    def __init__(self) -> None:
        self._admitted: Mapping[str, Any] = {}
        self._home = Path.cwd()
        self._site: Site | None = None
        self._deciders: dict[str, Decider] = {}
        self._seen: dict[str, str] = {}

    def open(self, request: Mapping[str, Any], _tell: Callable[[str], None]) -> dict[str, Any]:
        """Have the site as it is now; return which sections it has."""
        admitted = {name: request[name] for name in ("files", "at")}
        if self._site is None or self._admitted != admitted:
            if self._site is not None:
                self._site.close()
            self._site = Site(
                Path(request["folder"]),
                allow_outside=request["allow_outside"],
                trust_inventory=True,
                decisions=request["at"],  # not those now, of which no valid site may follow
            )
            self._admitted = admitted
        self._site.refresh()
        return {"sections": sorted(self._site.evaluated.sections)}

    def turn(self, request: Mapping[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
        """Have a decider look, but for another time of the same turn, and decide.

        `tell` hears which step begins.
        """
        assert self._site is not None, "it is opened first"
        os.chdir(self._home)
        name, site = request["decider"], self._site
        decider = self._decider(site, name)
        view, revision = _view(site, name, is_busy=request["is_busy"])
        if not request["again"]:
            context = _Context(view=view, site=site, executor=request["executor"])
            tell("observe")
            self._seen[name] = _text(decider.observe(context))
        seen, memory, now_s = json.loads(self._seen[name]), request["memory"], request["now_s"]
        given = {"view": view, "observations": seen, "memory": memory}
        record = _Record(request["record"], name, now_s, given)
        tell("decide")
        try:
            found = _outcome_data(decider.decide(view, seen, memory, now_s))
        except BaseException as error:
            record.end({"error": _said(error)})
            raise
        record.end({"outcome": found})
        return {**found, "revision": revision, "unrecorded": record.problem}

    def _decider(self, site: Site, name: str) -> Decider:
        if name not in self._deciders:
            made: Any = site.plugins.extensions_at(POINT)[name]
            self._deciders[name] = made()
        return self._deciders[name]


class _Record:
    """Writes what a decider is given, and what it made of that, to a file of JSON Lines."""

    def __init__(
        self, path: str | None, decider: str, now_s: float, given: Mapping[str, Any]
    ) -> None:
        self._path, self._turn = path, secrets.token_hex(8)
        self.problem = ""
        words = {"decider": decider, "turn": self._turn, "now_s": now_s}
        self._write(lambda: {**words, **given, "view": given["view"].as_data()})

    def end(self, words: Mapping[str, Any]) -> None:
        """Write how it ended."""
        self._write(lambda: {"turn": self._turn, **words})

    def _write(self, data: Any) -> None:
        if self._path is None:
            return
        line = f"{json.dumps(data(), separators=(',', ':'))}\n".encode()
        try:
            _append(self._path, line)
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror or error}"


def _append(path: str, line: bytes) -> None:
    """Add a line to a file, or nothing: half a line would spoil the next one."""
    with Path(path).open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            written = file.write(line)
        except OSError:
            written = 0
        if written < len(line):
            file.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _view(site: Site, name: str, *, is_busy: bool) -> tuple[DeciderView, int]:
    """Return what a decider knows, and the revision of its section."""
    store = site.history()
    decided = site.decisions(name)
    ended = (
        it
        for it in store.runs(_LOOKED_AT)
        if it.ended is not None and it.info.command.split()[0] not in _NO_CHANGE
    )
    last = next(ended, None)
    view = DeciderView(
        data=deepcopy(site.evaluated.sections[name]),
        decisions=decided.by_key,
        states={
            cob: ObjectState(state=str(it.state), since=it.since)
            for cob, it in store.states().items()
        },
        unsettled=tuple(last.waits) if last else (),
        is_busy=is_busy,
    )
    return view, decided.revision


def _text(observations: Any) -> str:
    """Return observations as JSON; TurnError where they are none, or too much."""
    try:
        text = json.dumps(observations, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TurnError(f"what it has observed is no plain JSON: {error}") from error
    if len(text) > MOST_OBSERVED_BYTES:
        most = f"{MOST_OBSERVED_BYTES >> 20} MiB"
        raise TurnError(f"it has observed {len(text)} bytes of JSON, which is more than {most}")
    return text


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    if problems := outcome_problems(outcome):
        raise TurnError(f"what it has decided cannot be kept: {'; '.join(problems[:3])}")
    return parts_of(outcome) or {}


def _said(error: BaseException) -> str:
    """Return in a line what was raised and, where it is nobody's to expect, by which line."""
    if isinstance(error, TurnError | CobwebError):
        return str(error)
    told = traceback.TracebackException.from_exception(error)
    text = " ".join(str(told).split())
    place = told.stack[-1] if told.stack else None
    where = f" at {place.filename}:{place.lineno}" if place else ""
    return f"raised {type(error).__name__}{f': {text}' if text else ''}{where}"


def serve(requests: int, answers: int) -> None:
    """Answer requests until there are no more."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, hard))
    desk = _Desk()
    calls = {"open": desk.open, "turn": desk.turn}
    with os.fdopen(requests, encoding="utf-8") as asked, os.fdopen(answers, "w") as out:
        for line in asked:
            request = json.loads(line)

            def say(answer: Mapping[str, Any], token: str = request["token"]) -> None:
                out.write(f"{json.dumps({**answer, 'token': token})}\n")
                out.flush()

            try:
                answer = calls[request["do"]](request, lambda step: say({"step": step}))
            except BaseException as error:  # noqa: BLE001 - the border to foreign code
                answer = {"error": _said(error)}
            say(answer)


def main(requests: int, answers: int, parent: int) -> None:
    """Have a child that answers requests, and end as it does.

    When the parent ends, however that is, the kernel tells this process, which kills all of its
    group: a decider may be in a loop, or stopped, or have children.
    """
    child = os.fork()
    if not child:
        serve(requests, answers)
        return
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.killpg(0, signal.SIGKILL)
    os.close(answers)  # so the parent sees that nobody is there who answers
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        with suppress(OSError):  # of one that nobody can catch
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
