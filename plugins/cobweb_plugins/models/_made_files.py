"""Files of a site that are made from a data model: what would change, and the writing of it.

A made file says so in its first line, and names the digest of its model in the second. Only such
files are replaced or removed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from cobweb.errors import CobwebError
from cobweb_plugins.models._models import Model

VAULT_MARK = "__ansible_vault"
"""The only key of a vaulted value in plain data; its value is the ciphertext."""

_FIRST = "# Made by `cobweb generate` from "
_DIGEST = "# model: sha256:"
_WIDTH = 100
_DRAFT = ".cobweb-draft"


class FileChange(StrEnum):
    """What writing a made file does to the one that is there."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFile:
    """A made file; `text` is what is wanted and `before` what is there, "" for no file."""

    path: Path
    text: str
    before: str

    @property
    def change(self) -> FileChange:
        """What writing it does."""
        if self.text == self.before:
            return FileChange.SAME
        if not self.before:
            return FileChange.NEW
        return FileChange.CHANGED if self.text else FileChange.GONE

    def diff(self, name: str) -> list[str]:
        """Return a unified diff from what is there to what is wanted, without line ends."""
        lines = (self.before.splitlines(), self.text.splitlines())
        return list(difflib.unified_diff(*lines, f"{name} (now)", f"{name} (made)", lineterm=""))


def made_files(
    model: Model, digest: str, made: Mapping[str, Mapping[str, Any]]
) -> tuple[MadeFile, ...]:
    """Return the files to write for a model, by name, and those made before that are gone.

    CobwebError where a file in the way was not made by us, or cannot be read.
    """
    head = (
        f"{_FIRST}{model.name} (adapter {model.adapter});\n"
        f"# edit that file and run it again.\n{_DIGEST}{digest}\n"
    )
    texts = {name: head + _yaml(made[name]) for name in sorted(made)}
    known = {path.name for path in model.into.glob("*.yml") if _made_from(_read(path), model)}
    return tuple(
        _made_file(model.into / name, texts.get(name, "")) for name in sorted({*texts, *known})
    )


def write_made(changed: Sequence[MadeFile]) -> None:
    """Write and remove files; drafts of all of them are whole before one is replaced.

    CobwebError where that cannot be done.
    """
    drafts = {it.path: it.path.with_name(it.path.name + _DRAFT) for it in changed if it.text}
    try:
        for it in changed:
            if it.text:
                it.path.parent.mkdir(parents=True, exist_ok=True)
                drafts[it.path].unlink(missing_ok=True)  # it may be a link
                drafts[it.path].write_text(it.text, encoding="utf-8")
        for it in changed:
            if it.text:
                drafts[it.path].replace(it.path)
            else:
                it.path.unlink()
    except OSError as error:
        raise CobwebError(f"cannot write {error.filename}: {error.strerror}") from error
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink()


def written_digest(model: Model) -> str | None:
    """Return the digest of the model that the made files are from; None if there are none.

    Files of several digests (a merge of two branches) give "".
    """
    texts = (_read(path) for path in sorted(model.into.glob("*.yml")))
    found = {_digest_in(text) for text in texts if _made_from(text, model)}
    return next(iter(found)) if len(found) == 1 else ("" if found else None)


def _made_from(text: str, model: Model) -> bool:
    return text.startswith(f"{_FIRST}{model.name} (")


def _digest_in(text: str) -> str:
    lines = text.split("\n", 3)[:3]
    return next((it.removeprefix(_DIGEST) for it in lines if it.startswith(_DIGEST)), "")


def _made_file(path: Path, text: str) -> MadeFile:
    before = _read(path)
    if before and not before.startswith(_FIRST):
        raise CobwebError(
            f"{path} is in the way: it was not made by `cobweb generate`",
            hint="move it away, or choose another folder with `into`",
        )
    return MadeFile(path=path, text=text, before=before)


def _read(path: Path) -> str:
    if path.is_symlink():  # which may lead to anywhere
        hint = "remove it; `cobweb generate` makes the files of this folder"
        raise CobwebError(f"{path} is a symbolic link, and so not a made file", hint=hint)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CobwebError(f"cannot read {path}: {error}") from error


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, vaulted values with their tag, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value that comes twice twice: people read it."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _mapping(dumper: yaml.SafeDumper, value: dict[str, Any]) -> yaml.Node:
    if set(value) == {VAULT_MARK}:
        return dumper.represent_scalar("!vault", value[VAULT_MARK], style="|")
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items())


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _mapping)


def _yaml(data: Mapping[str, Any]) -> str:
    plain = _plain(data)
    try:
        return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
    except yaml.YAMLError as error:
        raise CobwebError(f"what was made is no plain data: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
