"""`cobweb serve`: rounds, one after the other, by the one controller that leads."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb.errors import CobwebError, LockedError, StoreError, UsageError
from cobweb.plugin import SiteAccess, Tone, plain
from cobweb_plugins.controller._children import Children
from cobweb_plugins.controller._clone import Clone
from cobweb_plugins.controller._context import Context, RelativeStateError
from cobweb_plugins.controller._desk import Branch, Desk, Folder, Source, identity_of, is_relative
from cobweb_plugins.controller._memory import Memory, digest_of
from cobweb_plugins.controller._rounds import Rounds, code_of
from cobweb_plugins.controller._views import goal_line, is_reached, status_data
from cobweb_plugins.controller.deciders._turns import Deciders

if TYPE_CHECKING:
    from cobweb.api import Site

_FROZEN_S = 20.0
"""How long the heartbeat of a leader may stand still until another takes its place."""

_LOOK_S = 1.0
"""How often it is looked whether a run, or a leader, has ended."""

_LEFT_S = 3600.0
"""How old a plan is that no run begins with any more."""

_LOCKED, _INTERRUPTED = 5, 130


class _Terminated(KeyboardInterrupt):
    """SIGTERM: who serves is asked to end, as a service manager does."""


class LeaderError(LockedError):
    """Another controller leads."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.args = (f"another controller leads: {owner}",)
        self.message, self.hint = self.args[0], "it does what is to be done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What is served: a folder, or a branch of a repository with the site at `path` in it.

    `work` is the folder for clones and plans, `record` the file for what deciders do.
    """

    url: str | None
    branch: str
    path: str
    work: Path | None
    record: Path | None = None

    @property
    def words(self) -> str:
        """What is served, but for a folder."""
        return f"{self.branch} of a Git repository" if self.url else ""


def serve_site(access: SiteAccess, where: Where, every_s: float, *, once: bool) -> int:
    """Keep a site as it should be until a signal comes, or `once`; return the exit code."""
    if where.url is None and where.path != ".":
        raise UsageError("--path is for --git", hint="name the folder of the site with -C")
    if Path(where.path).is_absolute() or ".." in Path(where.path).parts:
        raise UsageError("--path leads out of the repository", hint="it is a folder in it")
    if where.record is not None:
        try:
            where.record.open("a").close()
        except OSError as error:
            message = f"{where.record} cannot be written: {error.strerror or error}"
            raise UsageError(message, hint="name another file with --record") from error
    with _terminations():
        try:
            while (code := _served(access, where, every_s, once=once)) is None:
                pass
        except _Terminated:
            code = _INTERRUPTED if once else 0
        except KeyboardInterrupt:
            code = _INTERRUPTED
    return code


def _served(access: SiteAccess, where: Where, every_s: float, *, once: bool) -> int | None:
    """Serve a site until its state database moves (None), or to the end; return the exit code."""
    say = _saying(access, once=once)
    beat = _Beat()
    with _opened(access, where, beat) as (site, source, work):
        url, folder = site.state, site.path  # now: whoever leads may remove the folder
        while True:
            with _led(site, say, once=once) as held:
                beat.held, file = held, identity_of(url, folder)  # of the one it leads in
                context = Context(
                    desk=Desk(site=site, me=me()),
                    source=source,
                    children=Children(beat=beat, shared=_shared(site), forwards=once),
                    work=work,
                    say=say,
                    database=digest_of(url),
                )
                if not once:
                    say(f"leads, and serves {where.words or access.dir}", Tone.NONE)
                _clean(work)
                deciders = Deciders(context, beat, where.record)
                if not once:  # where each has one turn
                    meanwhile = deciders.turn_meanwhile
                    context.children = replace(context.children, meanwhile=meanwhile)
                server = _Server(
                    context=context, deciders=deciders, beat=beat, every_s=every_s, once=once
                )
                try:
                    ended = server.serve(url, folder, file)
                except LockedError as error:
                    if once:
                        raise LeaderError(error.owner) from error
                    say(f"leads no more: {error.owner}", Tone.CAREFUL)
                    continue
                except KeyboardInterrupt:
                    line = context.desk.at_work()
                    say(f"ends; {line} goes on" if line else "ends", Tone.CAREFUL)
                    raise
                finally:
                    deciders.end()
                if once and ended is not None:
                    _tell_end(access, context, ended)
                return ended


@dataclass(slots=True, kw_only=True)
class _Server:
    """The rounds of a controller while it leads, and the rests between them."""

    context: Context
    deciders: Deciders
    beat: _Beat
    every_s: float
    once: bool

    def serve(self, url: str, folder: Path, file: tuple[int, ...]) -> int | None:
        """Carry out rounds; return the exit code of the only one, or None where the state moves.

        `url` in the site of a folder is where the state is now, in the file of this identity.
        """
        it, rounds = self.context, Rounds(self.context, self.deciders)
        while identity_of(url, folder) == file:
            try:
                rounds.round()
                _tidy(it)
            except LockedError:
                raise
            except (CobwebError, OSError) as error:
                if self.once:
                    raise
                it.tell("round", str(error), Tone.BAD)
            else:
                it.untell("round")
                goal = it.memory.goal
                if goal is not None and goal.database != it.database:
                    break
                if (code := self._code()) is not None:
                    return code
            self._rest(_LOOK_S if it.is_busy else self._rest_s())
        it.say("the state database is another one now", Tone.CAREFUL)
        return None

    def _code(self) -> int | None:
        """Return the exit code if this was the only round."""
        it = self.context
        if not self.once:
            return None
        if it.is_busy:
            return _LOCKED if it.is_locked or it.desk.is_held() else None
        return 1 if it.troubles else code_of(it.memory)

    def _rest_s(self) -> float:
        """Return how long it is to the next round, or to the next turn of a decider."""
        next_s = self.deciders.next_s
        if next_s is None:
            return self.every_s
        return min(self.every_s, max(0.0, next_s - self.context.desk.clock()))

    def _rest(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _LOOK_S))
            with suppress(StoreError):
                self.beat()


class _Beat:
    """Says that a controller lives, once it leads."""

    def __init__(self) -> None:
        self.held: Any = None

    def __call__(self) -> None:
        if self.held is not None:
            self.held.heartbeat()


class _Rival:
    """The leader that a controller waits for; it loses its place where it says nothing for long."""

    def __init__(self, lock: Any, say: Callable[[str, Tone], None]) -> None:
        self._lock, self._say = lock, say
        self._looked: tuple[str, float] | None = None
        self._since_s = 0.0

    @property
    def is_known(self) -> bool:
        """Say whether there was one."""
        return self._looked is not None

    def look(self, line: str) -> None:
        """Look whether it lives; `line` says who it is."""
        owner = self._lock.show()
        if owner is None:
            return
        found = (owner.run, owner.heartbeat)
        if found != self._looked:
            if not self.is_known:
                self._say(f"waits: another controller leads: {line}", Tone.CAREFUL)
            self._looked, self._since_s = found, time.monotonic()
        elif time.monotonic() - self._since_s >= _FROZEN_S:
            self._say(f"takes the place of a leader that says nothing: {line}", Tone.CAREFUL)
            with suppress(UsageError):  # another one was faster
                self._lock.break_lock(owner.run)


@contextmanager
def _led(site: Site, say: Callable[[str, Tone], None], *, once: bool) -> Iterator[Any]:
    """Lead, after waiting for another leader; with `once` LeaderError where there is one."""
    rival = _Rival(site.history(create=True).site_lock(clock=time.time, leads=True), say)
    held = None
    while held is None:
        try:
            held = site.lead("serve")
        except LockedError as error:
            if once:
                raise LeaderError(error.owner) from error
            with suppress(StoreError):
                rival.look(error.owner)
        except StoreError:
            if not rival.is_known:
                raise
        if held is None:
            time.sleep(_LOOK_S)
    try:
        for notice in held.notices:
            say(notice, Tone.CAREFUL)
        yield held
    finally:
        with suppress(StoreError):  # where the database is gone nobody follows this one there
            held.release()


@contextmanager
def _opened(
    access: SiteAccess, where: Where, beat: Callable[[], None]
) -> Iterator[tuple[Site, Source, Path]]:
    """Open what is served: a session of the site, where its files come from, a folder for work."""
    if where.url is None:
        with access.site() as site:
            work = _work(where, [str(access.dir), site.state])
            yield site, Folder(access.dir, site.state), work
        return
    from cobweb.api import Site

    work = _work(where, [where.url, where.branch, where.path])
    clone = Clone(work / "clone", where.url, where.branch, beat=beat)
    source = Branch(clone, where.path, work / "clone.lock", beat)
    admitted = work / "admitted"
    known = admitted.readlink().name if admitted.is_symlink() else ""
    folder = source.folder(known if known and source.has(known) else source.newest())
    with Site(folder) as site:
        if is_relative(site.state):
            raise RelativeStateError
        yield site, source, work


def _work(where: Where, of: Sequence[str]) -> Path:
    """Return the folder for clones and plans, made if need be."""
    try:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        work = where.work or base / "cobweb" / "serve" / digest_of(list(of))[:16]
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise CobwebError(f"no folder for work: {error}", hint="name one with --work") from error
    return work.absolute()


def _clean(work: Path) -> None:
    """Remove what a controller that was killed has left, and no run can need any more."""
    for path in (*work.glob("plan-*.json"), *work.glob("hosts-*")):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFT_S:
                path.unlink()


def _tidy(context: Context) -> None:
    """Remember which commit is admitted, and remove the files of commits that are of no use."""
    memory, source = context.memory, context.source
    if not isinstance(source, Branch) or memory.goal is None:
        return
    link = context.work / "admitted"
    new = link.with_name("admitted.new")
    new.unlink(missing_ok=True)
    new.symlink_to(memory.goal.files)
    new.replace(link)
    source.keep([memory.goal.files, memory.newest])


def _shared(site: Site) -> Sequence[str]:
    return ("--allow-outside",) if site.allow_outside else ()


def _saying(access: SiteAccess, *, once: bool) -> Callable[[str, Tone], None]:
    """Return what tells people; who serves for days says when."""

    def say(text: str, tone: Tone) -> None:
        if once:
            width = shutil.get_terminal_size().columns
            for line in textwrap.wrap(plain(text), width, subsequent_indent="  "):
                access.summary(line, tone)
            return
        stamp = "" if "JOURNAL_STREAM" in os.environ else time.strftime("%F %T ")
        access.summary(f"{stamp}{text}", tone)

    return say


def _tell_end(access: SiteAccess, context: Context, code: int) -> None:
    memory: Memory = context.memory
    if access.data({**status_data(memory, context.desk.site), "exit_code": code}):
        return
    waiting = len(memory.open())
    if waiting:
        word = "input waits" if waiting == 1 else "inputs wait"
        context.say(f"{waiting} {word}: see `cobweb approvals`", Tone.CAREFUL)
    if context.troubles:
        context.say("not all could be looked at", Tone.BAD)
    elif is_reached(memory):
        context.say("all is as admitted", Tone.GOOD)
    elif memory.goal is not None:
        context.say(goal_line(memory), Tone.CAREFUL)


def me() -> str:
    """Return who calls, by name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


@contextmanager
def _terminations() -> Iterator[None]:
    """Take SIGTERM for an interrupt of its own kind meanwhile."""

    def end(_signal: int, _frame: object) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
