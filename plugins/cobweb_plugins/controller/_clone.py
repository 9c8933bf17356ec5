"""The controller's own clone of a Git repository: a bare one, and a folder for each commit.

    FOLDER/repository.git   the bare clone; `refs/heads/served` is the branch as it was fetched last
    FOLDER/commits/COMMIT   a clone of that one (hard links) with the files of a commit
    FOLDER/**/.new-*, .old-*  what is being made, or taken away

What is in its place is whole: it is made under another name and renamed, and renamed before it is
taken away, so that kill -9 leaves nothing half. Nothing that was ever fetched is lost, for a commit
may be wanted that is on no branch any more (admitted before a force-push, or pinned): commits that
a force-push leaves behind get a ref `refs/cobweb/COMMIT`, so that also a `git gc` by hand spares
them. Git collects garbage by itself no more (`gc.auto=0`); `keep` has it pack what there is, and
that deletes no object.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from cobweb.errors import CobwebError, UsageError
from cobweb.plugin import plain, shortened

TIMEOUT_S = 120.0
"""How long one call of Git may take; then it is ended with all that it has started."""
STALE_S = 600.0
"""What is older, and only there while Git is at work, was left by one that was killed."""

_CHUNK_S = 1.0
_MOST_BYTES = 65536
_MOST_TEXT = 200
_SHORTEST_PASSWORD = 3
_SHORTEST_TOKEN = 8
"""Names such as `git` are none."""

_LOCKS = ("*.lock", "refs/**/*.lock", "objects/info/**/*.lock")
_UNFINISHED = ("objects/??/tmp_*", "objects/pack/tmp_*")
_SERVED = "refs/heads/served"
_LEFT_BEHIND = "refs/cobweb"
_DIGITS = 40
_COMMIT = re.compile(f"[0-9a-f]{{{_DIGITS}}}")
_BRANCH = re.compile(
    r"(?!-)(?!.*(?:\.\.|//|/\.|@\{|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![./])", re.DOTALL
)
"""What `git check-ref-format` lets pass."""
_DAMAGED = re.compile(
    r"(?m)^(?!remote: ).*(?:not a git repository: |corrupt|bad object|object file .* is empty"
    r"|inflate|unable to (?:read|parse|unpack) |missing (?:blob|tree|commit)|packfile .* cannot"
    r"|invalid gitfile|null OID|index file .* (?:is too small|smaller)|bad config|not a valid"
    r"|did not send all necessary"
    r"|invalid object|reference broken|non-existing (?:ref|object)|reference is not a tree"
    r"|nonexistent object)"
)
_UNTOLD = re.compile(
    r"fatal: Could not read from remote repository\.|Please make sure you have the correct access"
    r"|and the repository exists\."
)

# Where a Git that has started this process works, and what would fill the messages of this one.
_NOT_INHERITED = re.compile(
    "GIT_(?:DIR|WORK_TREE|IMPLICIT_WORK_TREE|INDEX_FILE|PREFIX|COMMON_DIR|OBJECT_DIRECTORY"
    "|ALTERNATE_OBJECT_DIRECTORIES|CONFIG|CONFIG_PARAMETERS|GRAFT_FILE|SHALLOW_FILE|NAMESPACE"
    "|NO_REPLACE_OBJECTS|REPLACE_REF_BASE|INTERNAL_.*|QUARANTINE_PATH|TEMPLATE_DIR|TRACE.*"
    "|CURL_VERBOSE)|LANGUAGE"
)
_SETTINGS = (
    ("protocol.ext.allow", "never"),  # a URL that is a command
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("log.showSignature", "false"),
    ("i18n.logOutputEncoding", "UTF-8"),
)
_HINTS = (
    ("No space left on device|Disk quota exceeded", "make room in {folder}"),
    ("couldn't find remote ref", "`git ls-remote --heads {url}` lists its branches"),
    (
        r"Authentication failed|could not read (?:Username|Password)|Permission denied|denied to",
        "let the controller's user read it: by a key without passphrase, or a credential helper",
    ),
    ("Host key verification failed", "add the host to `known_hosts` of the controller's user"),
    (
        r"Unable to create '.*\.lock'|cannot lock ref",
        "if no other Git is at work in {folder}, it goes on by itself in 10 minutes",
    ),
    ("mismatched algorithms", "Cobweb knows repositories with SHA-1 only"),
    ("dubious ownership", "see `safe.directory` in `git help config`"),
)
_TRY = "`git ls-remote {url}` tries whether it can be read"


class CloneError(CobwebError):
    """The repository cannot be fetched, or the clone not be used; holds no secret of the URL."""


class _DamagedError(CloneError):
    """The clone itself seems to be damaged."""


class Clone:
    """A clone of one branch of a repository, kept by one process at a time.

    `beat` is called at least each 2 seconds while something takes long; what it raises ends that.
    All methods but `has` raise CloneError for what cannot be done.
    """

    def __init__(
        self, folder: Path, url: str, branch: str, *, beat: Callable[[], None] = lambda: None
    ) -> None:
        if not url or url.startswith("-"):  # Git would take it for an option
            raise UsageError(f"`{plain(url)}` is no URL of a repository")
        if not _BRANCH.fullmatch(branch):
            raise UsageError(f"a branch cannot be called `{plain(branch)}`")
        self._folder, self._url, self._branch, self._beat = folder.absolute(), url, branch, beat
        self._repository = self._folder / "repository.git"
        self._commits = self._folder / "commits"
        self._shown, self._secrets = _shown(url)

    def fetch(self) -> str:
        """Fetch the branch and return its commit; the clone is made where there is none."""
        with self._writing():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._commits.mkdir(exist_ok=True)
            self._clean()
            try:
                if not self._repository.exists():
                    self._make(self._repository)
                return self._fetched(self._repository)
            except _DamagedError:
                return self._renew()

    def has(self, commit: str) -> bool:
        """Say whether a commit was fetched."""
        if not (_COMMIT.fullmatch(commit) and self._repository.is_dir()):
            return False
        try:
            self._in(self._repository, "cat-file", "-e", f"{commit}^{{commit}}")
        except CloneError:
            return False
        return True

    def subject(self, commit: str) -> str:
        """Return who has made a commit, and the first line of its message: `Ann: message`."""
        self._refuse_unknown(commit)
        words = ("show", "--no-patch", "--format=%an: %s", commit)
        text = self._in(self._repository, *words, what=f"cannot read the commit {commit}")
        return shortened(plain(text.strip()), _MOST_TEXT)

    def submodules(self, commit: str) -> list[str]:
        """Return the folders that are other repositories: a checkout has them, without files."""
        self._refuse_unknown(commit)
        what = f"cannot read the commit {commit}"
        # All files are listed only where there is something to find.
        if not self._in(self._repository, "ls-tree", commit, ".gitmodules", what=what):
            return []
        listed = self._in(self._repository, "ls-tree", "-r", "-z", commit, what=what).split("\0")
        return [plain(it.partition("\t")[2]) for it in listed if it.startswith("160000 ")]

    def made(self, commit: str) -> Path | None:
        """Return the folder with the files of a commit, if it is there."""
        place = self._commits / commit
        return place if _COMMIT.fullmatch(commit) and place.is_dir() else None

    def checkout(self, commit: str) -> Path:
        """Return the folder with the files of a commit, made once; without those of submodules."""
        if (made := self.made(commit)) is not None:
            return made
        place = self._commits / commit
        self._refuse_unknown(commit)
        with self._writing():
            try:
                self._check_out(commit, place)
            except _DamagedError:
                self._renew()
                self._refuse_unknown(commit)
                self._check_out(commit, place)
        return place

    def keep(self, commits: Iterable[str]) -> None:
        """Remove the checkouts of all other commits; pack what the clone has, now and then."""
        kept = set(commits)
        with self._writing():
            for place in self._checkouts():
                if place.name not in kept:
                    self._remove(place)
            self._clean()
        if self._repository.is_dir():
            # It packs only if there is much to pack, and may be ended at any time.
            packing = ("-c", "gc.auto=6700", "-c", "gc.autoDetach=false")
            with suppress(CloneError):
                self._in(
                    self._repository, *packing, "-c", "gc.pruneExpire=never", "gc", "--auto", "-q"
                )

    def _refuse_unknown(self, commit: str) -> None:
        if not self.has(commit):
            message = f"the clone of {self._shown} has no commit {plain(commit)[:64]}"
            raise CloneError(message, hint="was it fetched from another URL, or another branch?")

    def _make(self, place: Path) -> None:
        new = self._new(self._folder)
        what = f"cannot make a clone in {self._folder}"
        self._git("init", "-q", "--bare", "--template=", "-b", "served", str(new), what=what)
        new.rename(place)

    def _fetched(self, repository: Path) -> str:
        """Fetch the branch into a bare repository, and see to it that nothing gets lost."""
        what = f"cannot fetch the branch `{self._branch}` of {self._shown}"
        words = ("for-each-ref", "--format=%(objectname)", _SERVED)
        old = self._in(repository, *words, what=f"cannot read {repository}").strip()
        if old:  # before it is overwritten: kill -9 at any point leaves a ref too many at worst
            self._in(repository, "update-ref", f"{_LEFT_BEHIND}/{old}", old)
        self._in(
            repository,
            *("fetch", "--quiet", "--no-tags", "--no-recurse-submodules"),
            *("served", f"+refs/heads/{self._branch}:{_SERVED}"),
            what=what,
        )
        # Of a shallow repository Git takes nothing, and calls that a success.
        new = (repository / "FETCH_HEAD").read_text(encoding="utf-8", errors="replace")[:_DIGITS]
        if not new:
            hint = "of a shallow one nothing can be fetched: `git fetch --unshallow` there"
            raise CloneError(f"{what}: the repository does not have all of it", hint=hint)
        if old and self._is_ancestor(repository, old, new):
            self._in(repository, "update-ref", "-d", f"{_LEFT_BEHIND}/{old}")
        return new

    def _is_ancestor(self, repository: Path, old: str, new: str) -> bool:
        if old == new:
            return True
        try:
            self._in(repository, "merge-base", "--is-ancestor", old, new)
        except CloneError:
            return False
        return True

    def _renew(self) -> str:
        """Make the clone anew and put it in the place of a damaged one; return its commit.

        What checkouts have of commits that are on no branch is saved, as far as it can be read.
        """
        new = self._folder / f"{self._new(self._folder).name}.git"
        try:
            self._make(new)
            commit = self._fetched(new)
            for place in self._checkouts():
                words = ("fetch", "-q", "--no-tags", "--no-write-fetch-head", str(place))
                with suppress(CloneError):
                    self._in(new, *words, f"+{place.name}:{_LEFT_BEHIND}/{place.name}")
        except CloneError as error:
            self._remove(new)
            message = f"the clone in {self._folder} is damaged, and no new one can be made"
            raise CloneError(f"{message}: {error.message}", hint=error.hint) from error
        if self._repository.exists():
            self._remove(self._repository, new)
        else:
            new.rename(self._repository)
        return commit

    def _check_out(self, commit: str, place: Path) -> None:
        self._commits.mkdir(parents=True, exist_ok=True)
        new, what = self._new(self._commits), f"cannot check out the commit {commit}"
        options = ("--quiet", "--local", "--no-checkout", "--no-tags", "--template=")
        try:
            self._git("clone", *options, "--", str(self._repository), str(new), what=what)
            self._git("-C", str(new), "checkout", "--quiet", "--detach", commit, what=what)
            new.rename(place)
        finally:
            self._remove(new)

    def _checkouts(self) -> list[Path]:
        if not self._commits.is_dir():
            return []
        return sorted(it for it in self._commits.iterdir() if _COMMIT.fullmatch(it.name))

    def _clean(self) -> None:
        """Remove what a killed Git or a killed controller has left some time ago."""
        self._unlock(STALE_S)
        for folder in (self._folder, self._commits):
            for path in (*folder.glob(".new-*"), *folder.glob(".old-*")):
                if _is_older(path, STALE_S):
                    self._run(["rm", "-rf", "--", str(path)], f"cannot remove {path}")

    def _unlock(self, stale_s: float, patterns: Sequence[str] = _LOCKS + _UNFINISHED) -> None:
        """Remove locks and unfinished files of the bare clone that are older."""
        for path in (it for pattern in patterns for it in self._repository.glob(pattern)):
            if _is_older(path, stale_s):
                path.unlink(missing_ok=True)

    def _remove(self, path: Path, successor: Path | None = None) -> None:
        """Take away a folder, if it is there; put another one in its place first."""
        if path.exists():
            old = path.parent / f".old-{secrets.token_hex(8)}"
            path.rename(old)
            if successor:
                successor.rename(path)
            self._run(["rm", "-rf", "--", str(old)], f"cannot remove {old}")

    @staticmethod
    def _new(folder: Path) -> Path:
        return folder / f".new-{secrets.token_hex(8)}"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = f"make room in {self._folder}, or say another folder"
            message = f"cannot write into {self._folder}: {error.strerror or error}"
            raise CloneError(message, hint=hint) from error

    def _in(self, repository: Path, *words: str, what: str = "") -> str:
        return self._git(f"--git-dir={repository}", *words, what=what)

    def _git(self, *words: str, what: str = "") -> str:
        """Return what Git says; `what` is the beginning of the error where it fails."""
        return self._run(["git", *words], what or f"`git {words[0]}` has failed")

    @cached_property
    def _environment(self) -> Mapping[str, str]:
        """Return the environment of Git: by it the URL is in no list of processes."""
        made = {name: it for name, it in os.environ.items() if not _NOT_INHERITED.fullmatch(name)}
        settings = (*_SETTINGS, ("remote.served.url", self._url))
        count = made.get("GIT_CONFIG_COUNT", "")  # by these a service may be given its credentials
        first = int(count) if count.isdecimal() else 0
        for number, (key, value) in enumerate(settings, start=first):
            made |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        made |= {"GIT_CONFIG_COUNT": str(first + len(settings))}
        made |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        if not ({"GIT_SSH", "GIT_SSH_COMMAND"} & made.keys() or _has_ssh_command()):
            made["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes"
        return made

    def _run(self, words: Sequence[str], what: str) -> str:
        """Run a command and return what it says; files, for a helper may keep a pipe open."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                code = self._waited(words, out, err)
            except (FileNotFoundError, PermissionError) as error:
                message, hint = f"{what}: there is no program `{words[0]}`", f"install {words[0]}"
                raise CloneError(message, hint=hint) from error
            if code != 0:
                err.seek(0)
                said = err.read(_MOST_BYTES).decode(errors="replace")
                is_far = "fetch" in words
                if is_far:
                    self._unlock(0, _UNFINISHED)
                raise self._error(what, said, code, is_far=is_far)
            out.seek(0)
            return out.read().decode(errors="replace")

    def _waited(self, words: Sequence[str], out: IO[bytes], err: IO[bytes]) -> int | None:
        """Return the exit code of a command; None where it took too long, and was ended."""
        self._beat()
        end_s = time.monotonic() + TIMEOUT_S
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=self._environment,
            start_new_session=True,
        )
        try:
            while (left_s := end_s - time.monotonic()) > 0:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(min(_CHUNK_S, left_s))
                self._beat()
            return None
        finally:
            if process.returncode is None:
                self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End a command with all of its session, and take away what it has left locked."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # Git takes its unfinished files away
        with suppress(subprocess.TimeoutExpired):
            process.wait(_CHUNK_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._unlock(0)

    def _error(self, what: str, said: str, code: int | None, *, is_far: bool) -> CloneError:
        """Return the error of a command, without secrets; `is_far` where it asks the URL."""
        for secret in self._secrets:
            said = said.replace(secret, "***")
        if code is None:
            by_hand = f"`git --git-dir={self._repository} fetch {self._shown} {self._branch}`"
            hint = f"{by_hand} takes as long as it must, and what it has fetched counts"
            message = f"{what}: it took longer than {TIMEOUT_S:g} s, and was ended"
            return CloneError(message, hint=hint if is_far else "")
        lines = [plain(it.strip()) for it in said.splitlines() if it.strip()]
        lines = [it for it in lines if not _UNTOLD.match(it)] or lines
        last, hint = lines[-1] if lines else f"it ended with {code}", _TRY if is_far else ""
        for pattern, known in _HINTS:
            if causes := [it for it in lines if re.search(pattern, it)]:
                last, hint = causes[-1], known
                break
        kind = _DamagedError if _DAMAGED.search(said) else CloneError
        return kind(
            f"{what}: {shortened(re.sub('^(?:fatal|error): ', '', last), _MOST_TEXT)}",
            hint=hint.format(folder=self._folder, url=self._shown),
        )


def _has_ssh_command() -> bool:
    """Say whether the user's own settings of Git name an ssh, which the environment would hide."""
    words = ("git", "config", "--get", "core.sshCommand")
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(words, cwd="/", capture_output=True, timeout=_CHUNK_S, check=False)
        return asked.returncode == 0
    return False


def _is_older(path: Path, age_s: float) -> bool:
    try:
        return path.lstat().st_mtime <= time.time() - age_s
    except FileNotFoundError:  # Git itself was quicker
        return False


def _shown(url: str) -> tuple[str, Sequence[str]]:
    """Return a URL as it may be told, and what must not be told, the longest first.

    The user of `https` may be a token; that of `ssh` is none.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return plain(url), ()
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    name, colon, password = user.partition(":")
    path, question, query = path.partition("?")
    is_ssh = "ssh" in scheme
    hidden = f"{name}{':***' if colon else ''}" if is_ssh else "***"
    shown = f"{scheme}://{hidden + at if at else ''}{host}{slash}{path}{question and '?***'}"
    found = {user} if colon or not is_ssh else set()
    told = (password, query, *(it.partition("=")[2] for it in query.split("&")))
    found |= {
        it for word in told if len(word) >= _SHORTEST_PASSWORD for it in (word, unquote(word))
    }
    if not is_ssh and len(name) >= _SHORTEST_TOKEN:
        found |= {name, unquote(name)}
    return plain(shown), sorted(found - {""}, key=lambda it: (-len(it), it))
