"""The private folder of an install, and the one step that takes over what is in it.

Galaxy writes below SITE/.cobweb-install, so that a folder gets to its place by a rename. What is to
be moved is written into a journal there first: a killed install is either without journal, then its
folder is removed and nothing has happened, or the next install finishes it. No folder is ever seen
half made.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from cobweb.errors import CobwebError, RefusedError
from cobweb_plugins.ansible._install._lock import LOCK_FILE
from cobweb_plugins.ansible._install._requirements import Kind, Package
from cobweb_plugins.ansible._install._tree import tree_digest

FOLDER = ".cobweb-install"
_JOURNAL = "journal.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A folder that comes to its place in the site; without `source` one that leaves it.

    `source` is relative to the private folder, and `before` the digest of what is at the place now.
    """

    kind: Kind
    name: str
    source: str | None
    before: str | None

    @property
    def package(self) -> Package:
        """The role or collection that is moved."""
        return Package(kind=self.kind, name=self.name)


class Staging:
    """The private folder; in its block no one else edits the site.

    A block begins with what a killed install has left: it is finished or removed, and `tell` hears
    of the former. OSErrors are CobwebErrors.
    """

    def __init__(self, site_dir: Path, tell: Callable[[str], None]) -> None:
        self.folder = site_dir / FOLDER
        self._site_dir = site_dir
        self._tell = tell
        self._stack = ExitStack()
        self.held = -1

    def __enter__(self) -> Self:
        try:
            self.held = os.open(self._site_dir, os.O_RDONLY | os.O_DIRECTORY)
            self._stack.callback(os.close, self.held)
            self._lock()
            if self._journal.exists():
                self._finish()
                self._tell("an install that was cut off was finished first")
            self._clean()
            self.folder.mkdir(mode=0o700)
            (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        except BaseException as error:
            self._stack.close()
            if isinstance(error, OSError):
                raise CobwebError(f"cannot use {self.folder}: {error}") from error
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, *_more: object
    ) -> None:
        with self._stack:
            if not self._journal.exists():
                shutil.rmtree(self.folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise CobwebError(f"cannot install: {error}") from error

    def commit(self, moves: Sequence[Move], lock: str) -> None:
        """Move folders to their places and write the lock; all of it happens, or nothing.

        RefusedError where a place is not as it was, is a link that leads out of the site, or on
        another file system.
        """
        refuse_places([move.package for move in moves], self._site_dir)
        self._refuse_changed(moves)
        data = {"format": _FORMAT, "lock": lock, "moves": [asdict(move) for move in moves]}
        try:
            draft = self.folder / "journal.draft"
            draft.write_text(json.dumps(data), encoding="utf-8")
            draft.replace(self._journal)
            self._finish()
        except OSError as error:
            hint = "the next `cobweb install` goes on with it"
            raise CobwebError(f"cannot move into place: {error}", hint=hint) from error

    @property
    def _journal(self) -> Path:
        return self.folder / _JOURNAL

    def _lock(self) -> None:
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._tell("waiting for another edit of this site")
            fcntl.flock(self.held, fcntl.LOCK_EX)

    def _clean(self) -> None:
        if self.folder.is_symlink():
            raise CobwebError(f"{self.folder} is a link", hint="remove it")
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _finish(self) -> None:
        """Do what the journal says and was not done yet; the journal goes last."""
        data = json.loads(self._journal.read_text(encoding="utf-8"))
        moves = [Move(**{**each, "kind": Kind(each["kind"])}) for each in data["moves"]]
        pending = [move for move in moves if self._is_pending(move)]
        self._refuse_changed([it for it in pending if not self._is_away(it)])
        for move in pending:
            place = self._site_dir / move.package.path
            if os.path.lexists(place):
                away = self._away(move)
                away.parent.mkdir(parents=True, exist_ok=True)
                place.rename(away)
            if move.source is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                (self.folder / move.source).rename(place)
        lock = self._site_dir / LOCK_FILE
        draft = self.folder / "lock.draft"
        draft.write_text(data["lock"], encoding="utf-8")
        draft.replace(lock)
        self._journal.unlink()

    def _away(self, move: Move) -> Path:
        return self.folder / "before" / move.package.path

    def _is_away(self, move: Move) -> bool:
        return os.path.lexists(self._away(move))

    def _is_pending(self, move: Move) -> bool:
        if move.source is None:
            return not self._is_away(move)
        return (self.folder / move.source).exists()

    def _refuse_changed(self, moves: Sequence[Move]) -> None:
        reasons = [
            f"{move.package.path} was changed while it was installed; move it away"
            for move in moves
            if tree_digest(self._site_dir / move.package.path, move.kind) != move.before
        ]
        if reasons:
            raise RefusedError(reasons)


def refuse_places(packages: Sequence[Package], site_dir: Path) -> None:
    """Raise RefusedError where a folder above a package is a link out, or on another device."""
    root = site_dir.resolve()
    device = root.stat().st_dev
    above = {parent for it in packages for parent in Path(it.path).parents if parent.name}
    reasons = []
    for parent in sorted(above):
        path = site_dir / parent
        if not os.path.lexists(path):
            continue
        where = path.resolve()
        if where != root and root not in where.parents:
            reasons.append(
                f"{parent} leads out of the site, to {where}; nothing is installed there"
            )
        elif not where.is_dir():
            reasons.append(f"{parent} is no folder")
        elif where.stat().st_dev != device:
            reasons.append(f"{parent} is on another file system than the site")
    if reasons:
        raise RefusedError(reasons)
