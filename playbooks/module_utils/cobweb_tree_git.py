# SPDX-License-Identifier: GPL-3.0-or-later
"""The Git repository underneath a `tree`: every version that was applied, found, or there before.

A bare repository without a work tree, hooks, filters or anybody's configuration. Its branches:
`applied` has what the site wanted, `host` what was found and what was written, `original` what was
there before us; `trees/DIGEST` are the trees as they came. A commit holds the files and links
below `tree/`, and `manifest.json`, which knows what Git does not: modes, owners, empty folders. A
name that Git does not take (`.git`) has a `%` before it there.

Needs git 2.20 or newer. Python 3.8, standard library.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import (
    IO,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_tree_merge import FILE, FOLDER, HOST, LINK, SITE, Entry

VERSION = 1
MANIFEST = "manifest.json"
EXECUTABLE = 0o100
CONFLICTS = range(1, 128)
BINARY_WINDOW = 8_000
PACKS = 50
"""Each version is a pack of its own; so many are one after another."""

_RESERVED = re.compile(r"%*\.git(modules)?", re.IGNORECASE)
_IMPORT = ("fast-import", "--quiet", "--done", "--force", "--date-format=raw")
_SIDES = {SITE: ["--theirs"], HOST: ["--ours"]}


class Commit(NamedTuple):
    """One version to store on a branch."""

    branch: str
    entries: Mapping[str, Optional[Entry]]
    message: str


def blob_of(content: bytes) -> str:
    """Name a content as Git does."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - Git's


def raw(path: str) -> bytes:
    """Return the bytes of a path; what is no UTF-8 is kept as surrogates in texts."""
    return path.encode("utf-8", "surrogateescape")


def packed_entries(entries: Mapping[str, Optional[Entry]]) -> Dict[str, Optional[List[Any]]]:
    """Return entries as JSON has them."""
    return {path: None if entry is None else list(entry) for path, entry in entries.items()}


def unpacked_entries(data: Mapping[str, Optional[List[Any]]]) -> Dict[str, Optional[Entry]]:
    """Turn `packed_entries` back."""
    return {path: None if entry is None else Entry(*entry) for path, entry in data.items()}


class Repository:
    """The repository in a folder, which is made by the first version that is stored.

    To be closed: one process answers all questions for contents.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reader: Optional[subprocess.Popen[bytes]] = None
        self._tips: Optional[Dict[str, str]] = None

    def make(self) -> None:
        """Make the repository if it is not there."""
        if (self.folder / "HEAD").exists():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._run("init", "--quiet", "--bare", "--template=")
        self._run("symbolic-ref", "HEAD", "refs/heads/host")

    def tip(self, branch: str) -> Optional[str]:
        """Return the commit at the end of a branch."""
        return self._refs().get(f"refs/heads/{branch}")

    def entries(self, commit: str) -> Dict[str, Optional[Entry]]:
        """Return all entries of a version."""
        return unpacked_entries(json.loads(self.content(f"{commit}:{MANIFEST}"))["entries"])

    def content(self, name: str) -> bytes:
        """Return what a blob holds."""
        reader = self._reading()
        reader.stdin.write(name.encode() + b"\n")
        reader.stdin.flush()
        head = reader.stdout.readline().split()
        if len(head) != 3 or head[1] != b"blob":  # noqa: PLR2004 - id, type, size
            raise Failed(f"the repository {self.folder} is damaged: it has no {name}")
        content = reader.stdout.read(int(head[2]))
        reader.stdout.read(1)
        return content

    def sizes(self, blobs: Iterable[str]) -> List[int]:
        """Return how many bytes blobs hold."""
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        done = self._run("cat-file", "--batch-check=%(objectsize)", given=asked)
        try:
            return [int(line) for line in done.split()]
        except ValueError:
            raise Failed(f"the repository {self.folder} is damaged: blobs are missing") from None

    @contextlib.contextmanager
    def storing(self) -> Iterator[Store]:
        """Store contents and versions; nothing is kept unless the block ends well."""
        self.close()
        with tempfile.TemporaryFile() as errors:
            process = self._start(_IMPORT, stdout=subprocess.DEVNULL, stderr=errors)
            try:
                store = Store(process.stdin)
                yield store
                store.end()
            except BrokenPipeError:
                process.wait()
            except BaseException:
                process.kill()
                raise
            finally:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                process.wait()
                self._tips = None
                self._remove_crash_reports()
            if process.returncode != 0:
                errors.seek(0)
                raise Failed(_git_said(errors.read()))

    def commit(self, contents: Iterable[bytes], commits: List[Commit]) -> List[str]:
        """Store contents, then versions, each on top of its branch; return their commits."""
        marks: Dict[str, str] = {}
        with self.storing() as store:
            for content in contents:
                store.add(content)
            for number, commit in enumerate(commits):
                tip = marks.get(commit.branch) or self.tip(commit.branch)
                store.commit(commit, tip, number + 1)
                marks[commit.branch] = f":{number + 1}"
        refs = self._refs()
        return [refs[f"refs/cobweb/{number + 1}"] for number in range(len(commits))]

    def merge_file(self, policy: str, contents: Tuple[bytes, bytes, bytes]) -> Tuple[bytes, bool]:
        """Merge base, ours and theirs; return the result and whether nothing collides in it."""
        if any(b"\0" in content[:BINARY_WINDOW] for content in contents):
            return b"", False
        with tempfile.TemporaryDirectory(dir=str(self.folder)) as folder:
            base, ours, theirs = (str(Path(folder) / name) for name in ("base", "ours", "theirs"))
            for name, content in ((base, contents[0]), (ours, contents[1]), (theirs, contents[2])):
                Path(name).write_bytes(content)
            labels = ["-L", "host", "-L", "applied before", "-L", "site"]
            sides = _SIDES.get(policy, ["--diff3"])
            done = self._attempt("merge-file", "-p", "-q", *sides, *labels, ours, base, theirs)
        if done.returncode != 0 and done.returncode not in CONFLICTS:
            raise Failed(_git_said(done.stderr))
        return done.stdout, done.returncode == 0

    def tidy(self) -> None:
        """Let Git pack what has become much."""
        self.close()
        if len(list(self.folder.glob("objects/pack/*.pack"))) > PACKS:
            self._attempt("gc", "--quiet")

    def _refs(self) -> Dict[str, str]:
        if self._tips is None and self.folder.is_dir():
            listed = self._run("for-each-ref", "--format=%(objectname) %(refname)").decode()
            lines = (line.split(" ") for line in listed.splitlines())
            self._tips = {name: commit for commit, name in lines}
        return self._tips or {}

    def _remove_crash_reports(self) -> None:
        for report in self.folder.glob("fast_import_crash_*"):
            report.unlink()

    def _reading(self) -> Any:
        if self._reader is None:
            asked = ("cat-file", "--batch")
            self._reader = self._start(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return self._reader

    def close(self) -> None:
        """End the process that answers questions."""
        if self._reader is not None:
            with contextlib.suppress(BrokenPipeError):
                self._reader.communicate()
            self._reader = None

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        done = self._attempt(*arguments, given=given)
        if done.returncode != 0:
            raise Failed(_git_said(done.stderr))
        return bytes(done.stdout)

    def _attempt(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                self._command(arguments),
                input=given,
                capture_output=True,
                env=self._environment(),
                check=False,
            )
        except FileNotFoundError:
            raise _no_git() from None

    def _start(self, arguments: Iterable[str], *, stdout: int, stderr: Any) -> Any:
        try:
            return subprocess.Popen(
                self._command(arguments),
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env=self._environment(),
            )
        except FileNotFoundError:
            raise _no_git() from None

    def _command(self, arguments: Iterable[str]) -> List[str]:
        # Hosts may have settings for all users; Git before 2.32 knows no variable against them.
        settings = {
            "core.hooksPath": "/dev/null",
            "core.attributesFile": "/dev/null",
            "core.protectHFS": "false",
            "core.protectNTFS": "false",
            "gc.autoDetach": "false",
            "fastimport.unpackLimit": "1",
            "core.fsync": "all",
        }
        options = [word for item in settings.items() for word in ("-c", "=".join(item))]
        return ["git", f"--git-dir={self.folder}", *options, *arguments]

    def _environment(self) -> Dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "LC_ALL": "C",
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }


class Store:
    """What is being stored: a stream for `git fast-import`."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._known: Set[str] = set()

    def add(self, content: bytes) -> str:
        """Store a content once, and name it."""
        blob = blob_of(content)
        if blob not in self._known:
            self._known.add(blob)
            self._stream.write(b"blob\ndata %d\n" % len(content))
            self._stream.write(content)
            self._stream.write(b"\n")
        return blob

    def commit(self, commit: Commit, tip: Optional[str], mark: int) -> None:
        """Store a version on top of a branch; `refs/cobweb/MARK` names it too."""
        said = commit.message.encode()
        lines = [
            b"commit refs/heads/%s" % commit.branch.encode(),
            b"mark :%d" % mark,
            b"committer Cobweb <cobweb@localhost> %d +0000" % time.time(),
            b"data %d" % len(said),
            said,
            *([b"from %s" % tip.encode()] if tip else []),
            b"deleteall",
        ]
        self._stream.write(b"\n".join(lines) + b"\n")
        for path, entry in commit.entries.items():
            if entry is not None and entry.kind != FOLDER:
                self._stream.write(
                    b"M %s %s %s\n" % (_git_mode(entry), entry.blob.encode(), _quoted(path))
                )
        manifest = {"version": VERSION, "entries": packed_entries(commit.entries)}
        content = json.dumps(manifest).encode()
        self._stream.write(b"M 100644 inline %s\n" % MANIFEST.encode())
        self._stream.write(b"data %d\n%s\n" % (len(content), content))
        self._stream.write(b"\nreset refs/cobweb/%d\nfrom :%d\n\n" % (mark, mark))

    def end(self) -> None:
        """Say that all has been said."""
        self._stream.write(b"done\n")
        self._stream.flush()


def git_path(path: str) -> str:
    """Return where a commit has the file of a path."""
    names = ["%" + name if _RESERVED.fullmatch(name) else name for name in path.split("/")]
    return "/".join(["tree", *names])


def _git_mode(entry: Entry) -> bytes:
    if entry.kind == LINK:
        return b"120000"
    assert entry.kind == FILE, "folders are in the manifest only"
    return b"100755" if entry.mode & EXECUTABLE else b"100644"


def _quoted(path: str) -> bytes:
    plain = range(0x20, 0x7F)
    letters = [
        chr(byte) if byte in plain and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in raw(git_path(path))
    ]
    return ('"' + "".join(letters) + '"').encode()


def _git_said(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines() or ["no reason"]
    return f"git: {lines[0]}"


def _no_git() -> Failed:
    return Failed(
        "this host has no git, which keeps the versions of a tree; install the package git"
    )
