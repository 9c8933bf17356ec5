"""Edits of a site's files that keep comments and order, and are undone as one."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from cobweb.errors import CobwebError

__all__ = ["SiteEdit"]

_WIDTH = 100
_DRAFT = ".cobweb-draft"


class SiteEdit:
    """Changes files of a site; what it changed is put back where its block ends with an error.

    Each file is replaced whole, by a draft beside it; of a link that is the file that it leads to.
    """

    def __init__(self, site_dir: Path) -> None:
        self._dir = site_dir
        self._before: dict[Path, bytes | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_more: object) -> None:
        if kind is not None:
            self.undo()

    def undo(self) -> None:
        """Put back all files as they were."""
        while self._before:
            path, data = self._before.popitem()
            if data is None:
                with suppress(FileNotFoundError):
                    path.unlink()
            else:
                _replace(path, data)

    def write(self, name: str, text: str) -> bool:
        """Write a file of the site, by its name there; say whether that changed it."""
        path = (self._dir / name).resolve()
        data = text.encode()
        try:
            before = path.read_bytes() if path.exists() else None
            if data == before:
                return False
            _replace(path, data)
        except OSError as error:
            raise CobwebError(f"cannot write {name}: {error.strerror or error}") from error
        self._before.setdefault(path, before)
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
        return self.write(name, stream.getvalue())


class _RoundTrip:
    """ruamel.yaml with our settings; imported when it is needed."""

    def __init__(self) -> None:
        try:
            from ruamel.yaml import YAML
            from ruamel.yaml.error import YAMLError
        except ImportError as error:
            hint = "pip install 'cobweb[cluster]'"
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
