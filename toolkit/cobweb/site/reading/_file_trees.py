"""A folder of the site as a file tree: what is in it, but for what globs leave out.

Files, links (as links, wherever they lead) and folders, hidden and empty ones included. What a tree
cannot hold is a problem, and so is a folder `.git`: nobody means to copy a repository.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from cobweb.generation import TreeEntry, TreeKind, in_order, tree_digest

MAX_FILES = 20_000
"""A tree with more entries is refused."""

MAX_BYTES = 64 * 2**20
"""A tree whose files hold more bytes is refused."""

_GIT = ".git"
_LINK_MODE = 0o777
_LEFT_OUT = "leave it out with `exclude`"
_TOKEN = re.compile(r"(\*\*/|\*\*|\*|\?|\[!?[^/\]]+\])")
_KINDS = {
    stat.S_IFREG: TreeKind.FILE,
    stat.S_IFLNK: TreeKind.LINK,
    stat.S_IFDIR: TreeKind.FOLDER,
}
_MEANINGS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class _Member(NamedTuple):
    """An entry of a folder that was found, and not read yet."""

    path: str
    kind: TreeKind
    mode: int
    size: int


class TreeFolder:
    """What is in a folder; `problems` are (message, hint), and become more while it is read."""

    def __init__(self, folder: Path, exclude: tuple[str, ...] = ()) -> None:
        self.problems: list[tuple[str, str]] = []
        self._members = self._found(str(folder), excluding(exclude))
        if sum(member.size for member in self._members.values()) > MAX_BYTES:
            self._say(f"it holds more than {MAX_BYTES} bytes", "leave out large files: `exclude`")

    def entries(self) -> Iterator[TreeEntry]:
        """Yield the entries in order, each read when its turn comes; none that cannot be read."""
        for name in in_order(self._members):
            member = self._members[name]
            try:
                yield _read(name, member)
            except OSError as error:
                self._say(f"cannot read `{name}`: {error.strerror or error}", _LEFT_OUT)

    def _found(self, top: str, is_left_out: Callable[[str], bool]) -> dict[str, _Member]:
        found: dict[str, _Member] = {}
        folders = [""]
        while folders:
            here = folders.pop()
            for name, entry in self._listed(top, here):
                if is_left_out(name):
                    continue
                member = self._member(name, entry)
                if member is not None:
                    found[name] = member
                    if member.kind is TreeKind.FOLDER:
                        folders.append(name)
                if len(found) > MAX_FILES:
                    self._say(f"it has more than {MAX_FILES} files", "leave some out: `exclude`")
                    return {}
        return found

    def _listed(self, top: str, here: str) -> list[tuple[str, os.DirEntry[str]]]:
        try:
            with os.scandir(os.path.join(top, here)) as entries:  # noqa: PTH118  names are no paths
                return [(f"{here}/{each.name}".lstrip("/"), each) for each in entries]
        except OSError as error:
            what = f"the folder `{here}`" if here else "the folder"
            self._say(f"cannot read {what}: {error.strerror or error}")
            return []

    def _member(self, name: str, entry: os.DirEntry[str]) -> _Member | None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._say(f"cannot read `{name}`: {error.strerror or error}", _LEFT_OUT)
            return None
        kind = _KINDS.get(stat.S_IFMT(status.st_mode))
        if kind is None:
            self._say(f"`{name}` is neither a file nor a folder nor a link", _LEFT_OUT)
            return None
        if kind is TreeKind.FOLDER and entry.name == _GIT:
            self._say(f"`{name}` is a Git repository", "leave it out: `exclude: [.git]`")
            return None
        size = status.st_size if kind is TreeKind.FILE else 0
        return _Member(entry.path, kind, stat.S_IMODE(status.st_mode), size)

    def _say(self, message: str, hint: str = "") -> None:
        self.problems.append((message, hint))


def digest_of_folder(folder: Path, exclude: tuple[str, ...]) -> str:
    """Return the digest of a folder as it is now."""
    return str(tree_digest(TreeFolder(folder, exclude).entries())["digest"])


def excluding(globs: tuple[str, ...]) -> Callable[[str], bool]:
    """Return what says of a name, relative to the tree, whether a glob matches it.

    A glob without `/` matches at any depth; any other one from the top. `*` and `?` stand for
    anything but `/`, `**` for anything.
    """
    if not globs:
        return lambda _name: False
    known = re.compile("|".join(f"(?:{_regex(glob)})" for glob in globs), re.DOTALL)
    return lambda name: known.fullmatch(name) is not None


def _regex(glob: str) -> str:
    inner = glob.strip("/")
    parts = (_MEANINGS.get(part) or _literal(part) for part in _TOKEN.split(inner))
    anywhere = "" if "/" in glob.rstrip("/") else "(?:.*/)?"
    return anywhere + "".join(parts)


def _literal(part: str) -> str:
    if part.startswith("[") and part.endswith("]"):
        inside = part[1:-1].replace("\\", r"\\")
        return f"[^/{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    return re.escape(part)


def _read(name: str, member: _Member) -> TreeEntry:
    if member.kind is TreeKind.LINK:
        target = os.readlink(member.path)  # noqa: PTH115  what it says, as it is
        return TreeEntry(name=name, kind=member.kind, mode=_LINK_MODE, target=target)
    data = Path(member.path).read_bytes() if member.kind is TreeKind.FILE else b""
    return TreeEntry(name=name, kind=member.kind, mode=member.mode, data=data)
