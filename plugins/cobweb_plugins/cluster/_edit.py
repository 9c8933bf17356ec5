"""Edits of a site's files: one at a time, with comments and order kept, and undone as one."""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from cobweb.errors import CobwebError

_WIDTH = 100
_DRAFT = ".cobweb-draft"


class SiteEdit:
    """Changes files of a site; what it changed is put back where its block ends with an error.

    In its block it alone edits the site, so all that an edit follows from is read there. Another
    one waits for its end, and `tell`s so; an edit ends with its process, however that ends. A
    person may write at the same time: what is not as it was read is not written, and what is not as
    the edit left it is not put back, which is told.

    Each file is replaced whole, by a draft beside it; of a link that is the file that it leads to.
    """

    def __init__(self, site_dir: Path, tell: Callable[[str], None] = lambda _text: None) -> None:
        self._dir = site_dir
        self._tell = tell
        self._done: dict[Path, tuple[bytes | None, bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            folder = os.open(self._dir, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise CobwebError(f"cannot edit {self._dir}: {error.strerror or error}") from error
        self._stack.callback(os.close, folder)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._tell("waiting for another edit of this site")
            fcntl.flock(folder, fcntl.LOCK_EX)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_more: object
    ) -> None:
        with self._stack:
            if error is not None:
                for path in self._undo():
                    error.add_note(f"{path.name} was edited by someone else meanwhile: look at it")

    def _undo(self) -> list[Path]:
        """Put back all files as they were; return those that somebody else has changed since."""
        left: list[Path] = []
        while self._done:
            path, (before, after) = self._done.popitem()
            if not path.exists() or path.read_bytes() != after:
                left.append(path)
            elif before is None:
                path.unlink()
            else:
                _replace(path, before)
        return left

    def write(self, name: str, text: str, was: str | None = None) -> bool:
        """Write a file of the site, by its name there; say whether that changed it.

        CobwebError where it is not what it `was` when it was read (None: it was not).
        """
        path = (self._dir / name).resolve()
        data = text.encode()
        try:
            before = path.read_bytes() if path.exists() else None
            if data == before:
                return False
            if was is not None and (before or b"") != was.encode():
                hint = "nothing was changed; run it again"
                raise CobwebError(f"{name} was edited by someone else meanwhile", hint=hint)
            _replace(path, data)
        except OSError as error:
            raise CobwebError(f"cannot write {name}: {error.strerror or error}") from error
        first, _ = self._done.get(path, (before, b""))
        self._done[path] = first, data
        return True

    def change(self, name: str, edit: Callable[[Any], None]) -> bool:
        """Have `edit` change the mapping of a YAML file in place; say whether that changed it."""
        yaml = _yaml()
        path = self._dir / name
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            data = yaml.load(text) if text.strip() else {}
        except (OSError, ValueError, yaml.error_kind) as error:
            raise CobwebError(f"cannot edit {name}: {error}") from error
        edit(data)
        stream = io.StringIO()
        yaml.dump(data, stream)
        return self.write(name, stream.getvalue(), text)


class _RoundTrip:
    """ruamel.yaml with our settings; imported when it is needed."""

    def __init__(self) -> None:
        try:
            from ruamel.yaml import YAML
            from ruamel.yaml.error import YAMLError
        except ImportError as error:
            hint = "install Cobweb with its extra `cluster`"
            raise CobwebError("editing a site needs ruamel.yaml", hint=hint) from error
        self.error_kind: type[Exception] = YAMLError
        self._yaml: Any = YAML()
        self._yaml.preserve_quotes = True
        self._yaml.width = _WIDTH
        self._yaml.indent(mapping=2, sequence=4, offset=2)

    def load(self, text: str) -> Any:
        return self._yaml.load(text)

    def dump(self, data: Mapping[str, Any], stream: io.StringIO) -> None:
        self._yaml.dump(data, stream)


def _yaml() -> _RoundTrip:
    return _RoundTrip()


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(path.name + _DRAFT)
    was = path.stat() if path.exists() else None
    try:
        draft.write_bytes(data)
        if was is not None:
            with suppress(PermissionError):  # who may not give files away keeps it
                os.chown(draft, was.st_uid, was.st_gid)
            draft.chmod(was.st_mode & 0o777)
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink()
