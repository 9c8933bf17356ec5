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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from cobweb.errors import CobwebError, RefusedError
from cobweb.plugin import JsonError, json_file
from cobweb_plugins.ansible._install._lock import LOCK_FILE
from cobweb_plugins.ansible._install._requirements import NAMES, Kind, Package
from cobweb_plugins.ansible._install._tree import tree_digest

FOLDER = ".cobweb-install"
_JOURNAL = "journal.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A folder that comes to its place in the site, or else one that leaves it.

    It comes from the same path in the private folder. `before` is the digest of what is at its
    place until then.
    """

    package: Package
    arrives: bool
    before: str | None


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
            self._take_over()
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
        try:
            with (self.folder / "journal.draft").open("w", encoding="utf-8") as draft:
                draft.write(_journal_text(moves, lock))
                draft.flush()
                os.fsync(draft.fileno())
            Path(draft.name).replace(self._journal)
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

    def _take_over(self) -> None:
        """Finish or remove what an install has left that was cut off."""
        if self.folder.is_symlink():
            raise CobwebError(f"{self.folder} is a link", hint="remove it")
        if self._journal.exists():
            self._finish()
            self._tell("an install that was cut off was finished first")
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _finish(self) -> None:
        """Do what the journal says and was not done yet; the journal goes last."""
        moves, text = self._read_journal()
        pending = [move for move in moves if self._is_pending(move)]
        refuse_places([move.package for move in pending], self._site_dir)
        self._refuse_changed(pending)
        for move in pending:
            place, away = self._site_dir / move.package.path, self._away(move)
            if os.path.lexists(place):
                away.parent.mkdir(parents=True, exist_ok=True)
                place.rename(away)
            if move.arrives:
                place.parent.mkdir(parents=True, exist_ok=True)
                (self.folder / move.package.path).rename(place)
        draft = self.folder / "lock.draft"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self._site_dir / LOCK_FILE)
        self._journal.unlink()

    def _read_journal(self) -> tuple[list[Move], str]:
        """Return moves and the lock's text; CobwebError for a journal that is none of ours.

        A repository may bring a folder of this name: nothing of it leads out of the site.
        """
        try:
            data = json_file(self._journal)
            moves, text, known = (
                [*map(_read_move, data["moves"])],
                str(data["lock"]),
                data["format"],
            )
        except (KeyError, TypeError, ValueError, JsonError) as error:
            raise self._damaged(str(error)) from error
        if known != _FORMAT:
            raise self._damaged(f"its format is not {_FORMAT}")
        paths = [self.folder / move.package.path for move in moves] + [*map(self._away, moves)]
        above = {
            parent for path in paths for parent in path.parents if self.folder in parent.parents
        }
        if any(parent.is_symlink() for parent in above):
            raise self._damaged("there are links beside it")
        return moves, text

    def _damaged(self, why: str) -> CobwebError:
        hint = f"remove {FOLDER} if no install of yours was cut off"
        return CobwebError(f"{self._journal} is damaged: {why}", hint=hint)

    def _away(self, move: Move) -> Path:
        return self.folder / "before" / move.package.path

    def _is_pending(self, move: Move) -> bool:
        if move.arrives:
            return (self.folder / move.package.path).exists()
        return not os.path.lexists(self._away(move))

    def _refuse_changed(self, moves: Sequence[Move]) -> None:
        """Refuse moves to places that are not as they were, or were emptied by the move itself."""
        reasons = []
        for move in moves:
            before = None if os.path.lexists(self._away(move)) else move.before
            if tree_digest(self._site_dir / move.package.path, move.package.kind) != before:
                path = move.package.path
                reasons.append(f"{path} was changed while it was installed; move it away")
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


def _journal_text(moves: Sequence[Move], lock: str) -> str:
    written = [
        {
            "kind": move.package.kind,
            "name": move.package.name,
            "arrives": move.arrives,
            "before": move.before,
        }
        for move in moves
    ]
    return json.dumps({"format": _FORMAT, "lock": lock, "moves": written})


def _read_move(data: Mapping[str, Any]) -> Move:
    """Return a move; ValueError for a name that is none."""
    kind, name = Kind(data["kind"]), str(data["name"])
    if not NAMES[kind].fullmatch(name):
        raise ValueError(f"{name} is no name of a {kind}")
    package = Package(kind=kind, name=name)
    return Move(package=package, arrives=bool(data["arrives"]), before=data["before"])
