"""What a controller reads and writes: its memory, the journal, and the files of the site."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from cobweb.errors import ConflictError
from cobweb.plugin import shortened
from cobweb_plugins.controller._clone import CloneError
from cobweb_plugins.controller._memory import KEY, SECTION, Memory, Seen, digest_of

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb_plugins.controller._clone import Clone

_NO_FILES = frozenset({".git", ".cobweb", "__pycache__"})
"""Folders in that of a site which say nothing of it."""

_BESIDE = ("", "-wal", "-shm", "-journal", "-reserve")
"""How the files are named that SQLite and Cobweb keep beside a database."""

_TRY_S = 0.1

_ALONE_S = 30.0
"""How long another process may change the clone until that is an error of this round."""

_SQLITE = "sqlite:///"

_MOST_REASON = 2000

_RUNS = ("apply", "rollback")
_LOOKED_AT = 100


class Source(Protocol):
    """Where the files of the site come from."""

    uses_git: bool

    def newest(self) -> str:
        """Return the newest files: a commit, or what tells a folder's files from others."""

    def has(self, files: str) -> bool:
        """Say whether such files can be read."""

    def folder(self, files: str) -> Path:
        """Return the folder of the site with such files."""

    def what(self, files: str) -> str:
        """Return for people what these files are."""


class Folder:
    """A folder that people edit: its files are there only as they are now."""

    uses_git = False

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        file = folder / url.removeprefix(_SQLITE)
        self._database = {f"{file}{end}" for end in _BESIDE}
        self._now = ""

    def newest(self) -> str:
        """Return a digest of the names, sizes and times of all files."""
        self._now = digest_of(sorted(self._looks()))
        return self._now

    def has(self, files: str) -> bool:
        """Say whether the files are these."""
        return files == (self._now or self.newest())

    def folder(self, _files: str) -> Path:
        """Return the folder."""
        return self._folder

    def what(self, _files: str) -> str:
        """Return that it is the folder."""
        return f"the files in {self._folder}"

    def _looks(self) -> Iterator[tuple[str, int, int]]:
        for path, folders, names in os.walk(self._folder):
            folders[:] = [it for it in folders if it not in _NO_FILES]
            for name in names:
                full = os.path.join(path, name)  # noqa: PTH118 - many files, each half a minute
                if full in self._database:
                    continue
                with suppress(OSError):
                    found = os.stat(full)  # noqa: PTH116
                    yield full, found.st_size, found.st_mtime_ns


class Branch:
    """A branch of a repository: each of its commits can be read."""

    uses_git = True

    def __init__(self, clone: Clone, path: str, lock: Path, beat: Callable[[], None]) -> None:
        self._clone = clone
        self._path = path
        self._lock = lock
        self._beat = beat

    def newest(self) -> str:
        """Fetch the branch and return its commit; CloneError where it cannot be fetched."""
        with self._alone():
            return self._clone.fetch()

    def has(self, files: str) -> bool:
        """Say whether there is such a commit."""
        return self._clone.has(files)

    def folder(self, files: str) -> Path:
        """Return the folder of the site as a commit has it."""
        made = self._clone.made(files)
        if made is None:
            with self._alone():
                made = self._clone.checkout(files)
        return made / self._path

    def what(self, files: str) -> str:
        """Return the beginning of a commit, and who says what in it."""
        return f"commit {files[:8]}, {self._clone.subject(files)}"

    def keep(self, commits: Iterable[str]) -> None:
        """Remove the files of all other commits."""
        with self._alone():
            self._clone.keep(commits)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only process that changes the clone: who does not lead yet may have one as well.

        CloneError where another does so for long: it may be frozen.
        """
        end_s = time.monotonic() + _ALONE_S
        with self._lock.open("w") as file:
            while not _locked(file):
                if time.monotonic() > end_s:
                    message = f"another process has {self._lock}"
                    raise CloneError(message, hint="end it, or serve with another --work")
                self._beat()
                time.sleep(_TRY_S)
            yield


@dataclass(slots=True, kw_only=True)
class Desk:
    """The state database of a controller, through a session of its site.

    `me` is who writes. Each raises StoreError where the database fails, and each write LockedError
    where another controller leads meanwhile.
    """

    site: Site
    me: str
    clock: Callable[[], float] = time.time

    def read(self) -> Seen:
        """Return the memory."""
        found = self.site.memory(SECTION)
        body = found.by_key[KEY].body if KEY in found.by_key else None
        return Seen(memory=Memory.of(body), revision=found.revision)

    def write(self, seen: Seen, memory: Memory, reason: str) -> Seen:
        """Write the memory in the place of the one that was seen; ConflictError if that is gone."""
        if memory == seen.memory:
            return seen
        bodies = {KEY: memory.as_data()}
        revision = self.site.remember(SECTION, seen.revision, bodies, self.me, reason)
        return Seen(memory=memory, revision=revision)

    def revisions(self) -> dict[str, int]:
        """Return at which revision the decisions of each section are."""
        names = dict.fromkeys(self.site.plugins.decision_schemas)
        found = self._history.decisions_of(names)
        return {name: it.revision for name, it in found.items()}

    def decided(self, section: str, after: int) -> str:
        """Return for people what was decided in a section after a revision."""
        found = [it for it in self._history.decision_history(section) if it.revision > after]
        keys = sorted({it.key for it in found})
        if len(keys) > 1:
            what = f"decisions {section}/{', '.join(keys)} up to revision {found[0].revision}"
            return f"{what}, by {found[0].author}: {' '.join(found[0].reason.split())}"
        return str(found[0]) if found else f"decisions of {section}"

    def turn(self, section: str, key: str) -> tuple[Mapping[str, Any] | None, int]:
        """Return what is remembered of a decider, None if nothing, and at which revision."""
        found = self.site.memory(section)
        return (found.by_key[key].body if key in found.by_key else None), found.revision

    def remember(self, section: str, expected: int, bodies: Mapping[str, Any], reason: str) -> None:
        """Remember something in the name of a section; ConflictError if its revision is another."""
        self.site.remember(section, expected, bodies, self.me, reason)

    def decide(
        self, section: str, outcome: Mapping[str, Any], remembers: Mapping[str, Any]
    ) -> None:
        """Decide in the name of a section's decider what is not so already, and remember the rest.

        ConflictError where the section is at another revision than the one that `outcome` relies
        on, UsageError where it does not take that.
        """
        known, expected = self.site.decisions(section), outcome["revision"]
        if known.revision != expected:
            raise ConflictError(section, expected, known.revision)
        before = {key: it.body for key, it in known.by_key.items()}
        writes = {key: it for key, it in outcome["writes"].items() if before.get(key) != it}
        why = _why(section, outcome["notes"], sorted(writes))
        self.site.decide(section, expected, writes, section, why, remembers=remembers)

    def database(self, folder: Path) -> str:
        """Return the URL of the state database that the site in a folder has."""
        with type(self.site)(folder, allow_outside=self.site.allow_outside) as site:
            return site.state

    @property
    def generation(self) -> int:
        """The number of the current generation, 0 before the first."""
        return int(self._history.current_generation_id())

    def made(self, generation: int) -> Any:
        """Return what is known of a generation, None where it is gone."""
        return next((it for it in self._history.generations() if it.id == generation), None)

    @property
    def last_run(self) -> str:
        """The id of the last run, "" before the first."""
        last = self._history.last_run()
        return last.info.id if last else ""

    def run_after(self, run: str, tokens: Collection[str]) -> Any:
        """Return the newest run after another that brought about what a controller wants, or None.

        The message of its generation begins with one of the tokens.
        """
        ours = {it.id for it in self._history.generations() if is_of(it.message, tokens)}
        for it in self._history.runs(_LOOKED_AT):
            if it.info.id == run:
                return None
            if it.info.command in _RUNS and it.info.generation in ours:
                return it
        return None

    def mark(self) -> str:
        """Return what is another text when runs, generations or given-up hosts have changed."""
        last = self._history.last_run()
        run = [last.info.id, last.ended is not None] if last else []
        return digest_of([run, self.generation, sorted(self._history.given_up())])

    def hosts(self) -> list[str]:
        """Return the hosts that the journal knows of, sorted."""
        return sorted(self._history.host_generations())

    def at_work(self) -> str:
        """Return who holds the site and lives, less an age that is new each time; "" if nobody."""
        lock = self._history.site_lock(clock=self.clock)
        if (owner := lock.show()) is None:
            return ""
        held = owner.until is not None and owner.until > self.clock()
        line = owner.line(self.clock()).partition(", seen ")[0]
        return line if held or lock.why_alive(owner) else ""

    def is_held(self) -> bool:
        """Say whether the site is held without a process."""
        owner = self._history.site_lock(clock=self.clock).show()
        return owner is not None and owner.until is not None and owner.until > self.clock()

    @property
    def _history(self) -> Any:
        return self.site.history()


def _why(section: str, notes: Mapping[str, str], keys: Sequence[str]) -> str:
    """Return why these keys are decided: what their notes say."""
    said = [(key, " ".join(notes[key].split())) for key in keys if key in notes]
    texts = [note if len(keys) == 1 else f"{key}: {note}" for key, note in said if note]
    return shortened("; ".join(texts), _MOST_REASON) or f"decided by {section}"


def _locked(file: IO[str]) -> bool:
    """Lock a file until it is closed, and say whether that could be."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def identity_of(url: str, folder: Path) -> tuple[int, ...]:
    """Return what tells the file of a state database from another in its place.

    () where it is gone, or in no file.
    """
    if not url.startswith(_SQLITE):
        return ()
    try:
        found = (folder / url.removeprefix(_SQLITE)).stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino


def is_of(message: str, tokens: Collection[str]) -> bool:
    """Say whether a generation with this message was made by one of these attempts."""
    return any(message.startswith(f"serve {token}:") for token in tokens)


def is_relative(url: str) -> bool:
    """Say whether the URL of a state database is one of a file beside the site."""
    return url.startswith(_SQLITE) and not url.startswith(f"{_SQLITE}/")


def all_of(revisions: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Return revisions of all known sections: of those that were not decided in, the first."""
    return {name: revisions.get(name, 0) for name in known}
