"""The controller's own clone of a repository, with real repositories on this disk."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cobweb.errors import UsageError
from cobweb_plugins.controller import _clone
from cobweb_plugins.controller._clone import Clone, CloneError
from tests.support.served import eventually

AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
LONG_AGO_S = 1_000_000_000
MINUTES_S = 60


class Origin:
    """A repository that others push into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        command = ["git", *AUTHOR, "-C", str(self.folder), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, text: str, message: str = "a change") -> str:
        """Commit a text as `site.yml`, and return the commit."""
        (self.folder / "site.yml").write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def force_push(self) -> None:
        """Throw away the last commit, for good."""
        self.git("reset", "-q", "--hard", "HEAD~1")
        self.git("reflog", "expire", "--expire=now", "--all")
        self.git("gc", "-q", "--prune=now")


FakeGit = Callable[[str], Path]


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin")


@pytest.fixture
def clone(tmp_path: Path, origin: Origin) -> Clone:
    return Clone(tmp_path / "work", str(origin.folder), "main")


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGit:
    """Return what puts a script of `sh` in the place of Git, which is `$GIT` there."""

    def make(script: str) -> Path:
        place = tmp_path / "bin" / "git"
        place.parent.mkdir(exist_ok=True)
        git = shutil.which("git", path=os.environ["PATH"].replace(f"{place.parent}:", ""))
        place.write_text(f"#!/bin/sh\nGIT={git}\n{script}\n", encoding="utf-8")
        place.chmod(0o755)
        if str(place.parent) not in os.environ["PATH"]:
            monkeypatch.setenv("PATH", f"{place.parent}:{os.environ['PATH']}")
        return place

    return make


def bare(tmp_path: Path) -> Path:
    return tmp_path / "work" / "repository.git"


def git_in(folder: Path, *words: str) -> str:
    command = ["git", f"--git-dir={folder}", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_each_commit_has_a_folder_of_its_own(clone: Clone, origin: Origin) -> None:
    first = origin.commit("one")
    assert clone.fetch() == first
    folder = clone.checkout(first)
    second = origin.commit("two", "Second\n\nwith a body")
    assert clone.fetch() == clone.fetch() == second
    assert [(clone.checkout(it) / "site.yml").read_text() for it in (first, second)] == [
        "one",
        "two",
    ]
    assert clone.checkout(first) == folder
    assert git_in(folder / ".git", "rev-parse", "HEAD") == first
    assert clone.subject(second) == "Ann: Second"
    clone.keep([second])
    assert not folder.exists()
    assert [it.name for it in folder.parent.iterdir()] == [second]
    assert (clone.checkout(first) / "site.yml").read_text() == "one"


def test_a_checkout_is_made_once(clone: Clone, origin: Origin, fake_git: FakeGit) -> None:
    commit = origin.commit("one")
    clone.fetch()
    folder = clone.checkout(commit)
    (folder / "mark").touch()
    fake_git("exit 1")
    assert (clone.checkout(commit) / "mark").exists()


def test_nothing_is_known_before_the_first_fetch(clone: Clone) -> None:
    commit = "0" * 40
    assert not clone.has(commit)
    clone.keep([])
    for ask in (clone.checkout, clone.subject):
        with pytest.raises(CloneError, match="has no commit"):
            ask(commit)


@pytest.mark.parametrize("commit", ["", "HEAD", "main", "../../x", "--all", "0" * 39, "0" * 41])
def test_only_commits_are_commits(clone: Clone, origin: Origin, commit: str) -> None:
    origin.commit("one")
    clone.fetch()
    assert not clone.has(commit)
    with pytest.raises(CloneError, match="has no commit"):
        clone.checkout(commit)


def test_a_force_push_takes_no_commit_away(clone: Clone, origin: Origin, tmp_path: Path) -> None:
    """Also not for somebody who collects garbage in the clone by hand."""
    first, second = origin.commit("one"), origin.commit("two")
    assert clone.fetch() == second
    folder = clone.checkout(second)
    origin.force_push()
    assert clone.fetch() == first
    third = origin.commit("three")
    assert clone.fetch() == third
    clone.keep([])
    git_in(bare(tmp_path), "gc", "-q", "--prune=now")
    assert not folder.exists()
    assert (clone.checkout(second) / "site.yml").read_text() == "two"


def test_what_is_on_the_branch_needs_no_ref_of_its_own(
    clone: Clone, origin: Origin, tmp_path: Path
) -> None:
    for text in ("one", "two", "three"):
        origin.commit(text)
        clone.fetch()
    assert git_in(bare(tmp_path), "for-each-ref", "--format=%(refname)") == "refs/heads/served"


@pytest.mark.gate("more objects than Git leaves unpacked")
def test_git_collects_no_garbage_by_itself_and_packs_when_told(
    clone: Clone, origin: Origin, tmp_path: Path, fake_git: FakeGit
) -> None:
    origin.commit("one")
    origin.git("config", "gc.auto", "1")
    clone.fetch()
    log = tmp_path / "log"
    fake_git(f'"$GIT" config --get gc.auto >>{log}; exec "$GIT" "$@"')
    clone = Clone(tmp_path / "work", str(origin.folder), "main")
    clone.fetch()
    clone.keep([])
    assert set(log.read_text().split()) == {"0"}  # `-c` of a call counts more
    loose = bare(tmp_path) / "objects"
    blobs = "".join(f"blob\nmark :{it}\ndata 5\n{it:05}\n" for it in range(1, 7500))
    unpack = ["git", f"--git-dir={bare(tmp_path)}", "-c", "fastimport.unpackLimit=100000"]
    subprocess.run([*unpack, "fast-import", "--quiet"], input=blobs, text=True, check=True)
    assert len(list(loose.glob("??/*"))) > 7000
    clone.keep([])
    assert list(loose.glob("pack/*.pack"))


def test_branch_and_url_that_are_not_there_are_told(
    clone: Clone, origin: Origin, tmp_path: Path
) -> None:
    url = str(origin.folder)
    with pytest.raises(CloneError) as empty:
        clone.fetch()
    assert f"the branch `main` of {url}: couldn't find remote ref" in str(empty.value)
    commit = origin.commit("one")
    with pytest.raises(CloneError) as missing:
        Clone(tmp_path / "other", url, "nope").fetch()
    assert missing.value.message.startswith(f"cannot fetch the branch `nope` of {url}: ")
    assert missing.value.hint == f"`git ls-remote --heads {url}` lists its branches"
    assert clone.fetch() == commit
    origin.folder.rename(tmp_path / "moved")
    with pytest.raises(CloneError) as gone:
        clone.fetch()
    assert "does not appear to be a git repository" in gone.value.message
    assert gone.value.hint == f"`git ls-remote {url}` tries whether it can be read"
    assert (clone.checkout(commit) / "site.yml").read_text() == "one"
    (tmp_path / "moved").rename(origin.folder)
    assert clone.fetch() == commit


def test_of_a_shallow_repository_nothing_is_taken_for_the_branch(
    clone: Clone, origin: Origin, tmp_path: Path
) -> None:
    """Git says no word of it: neither at first, nor where it could be fetched before."""
    origin.commit("one")
    shallow, url = tmp_path / "shallow", f"file://{origin.folder}"
    for seen in (False, True):
        if seen:
            clone.fetch()
        origin.commit(f"more, {seen}")
        shutil.rmtree(shallow, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--depth=1", url, str(shallow)], check=True)
        with pytest.raises(CloneError, match="does not have all of it") as raised:
            Clone(tmp_path / "work", str(shallow), "main").fetch()
        assert "--unshallow" in raised.value.hint


def test_a_repository_of_another_format_is_told(tmp_path: Path, clone: Clone) -> None:
    origin = tmp_path / "origin"
    shutil.rmtree(origin)
    origin.mkdir()
    command = ["git", *AUTHOR, "-C", str(origin)]
    init = ["init", "-q", "--object-format=sha256", "-b", "main"]
    subprocess.run([*command, *init], check=True)
    subprocess.run([*command, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    with pytest.raises(CloneError) as raised:
        clone.fetch()
    assert raised.value.hint == "Cobweb knows repositories with SHA-1 only"


@pytest.mark.parametrize("url", ["", "--upload-pack=touch x", "-x"])
def test_options_are_no_urls(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="is no URL"):
        Clone(tmp_path, url, "main")


@pytest.mark.parametrize(
    "branch",
    ["", "-x", "a b", "a..b", "a:b", "*", "a/", "a.lock", "a//b", "x\n", "a@{1}", ".", "^a"],
)
def test_what_can_be_no_branch_is_refused(tmp_path: Path, branch: str) -> None:
    with pytest.raises(UsageError, match="cannot be called"):
        Clone(tmp_path, "https://example.org", branch)


@pytest.mark.parametrize("branch", ["a/b", "release-1.x", "größe", "a@b", "HEAD", "v1"])
def test_branches_have_any_name_of_git(tmp_path: Path, origin: Origin, branch: str) -> None:
    commit = origin.commit("one")
    origin.git("update-ref", f"refs/heads/{branch}", commit)
    assert Clone(tmp_path / "work", str(origin.folder), branch).fetch() == commit


def test_a_url_that_is_a_command_is_refused(tmp_path: Path) -> None:
    url = f"ext::sh -c touch% {tmp_path}/begun"
    with pytest.raises(CloneError, match="not allowed"):
        Clone(tmp_path / "work", url, "main").fetch()
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(
    ("url", "shown", "secrets"),
    [
        ("https://ann:s3cret@host/x.git", "https://***@host/x.git", ["s3cret"]),
        ("https://ghp_0123456789@host/x", "https://***@host/x", ["ghp_0123456789"]),
        ("https://git:p%40ss@host/x", "https://***@host/x", ["p%40ss", "p@ss"]),
        ("https://host/x?token=abcdef", "https://host/x?***", ["abcdef"]),
        ("ssh://git:s3cret@host/x", "ssh://git:***@host/x", ["s3cret"]),
        ("ssh://git@host/x", "ssh://git@host/x", []),
        ("git@host:x.git", "git@host:x.git", []),
    ],
)
def test_no_error_tells_a_secret(
    tmp_path: Path, fake_git: FakeGit, url: str, shown: str, secrets: list[str]
) -> None:
    said = " ".join([url, *secrets])
    fake_git(
        f'case "$*" in *" fetch "*) echo fatal: cannot read {shlex.quote(said)} >&2; exit 128;;'
        ' esac; exec "$GIT" "$@"'
    )
    with pytest.raises(CloneError) as raised:
        Clone(tmp_path / "work", url, "main").fetch()
    assert raised.value.message.startswith(f"cannot fetch the branch `main` of {shown}: ")
    assert [it for it in secrets if it in str(raised.value)] == []


def test_the_url_is_in_no_list_of_processes(
    tmp_path: Path, origin: Origin, fake_git: FakeGit
) -> None:
    origin.commit("one")
    log = tmp_path / "log"
    fake_git(f'echo "$@" >>{log}; exec "$GIT" "$@"')
    Clone(tmp_path / "work", str(origin.folder), "main").fetch()
    assert "fetch" in log.read_text()
    assert str(origin.folder) not in log.read_text()


def test_git_works_in_the_clone_and_with_its_own_settings(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_git: FakeGit
) -> None:
    """As it is started from a hook, and with credentials that a service was given."""
    commit = origin.commit("one")
    templates = tmp_path / "templates"
    for name in ("post-checkout", "reference-transaction"):
        hook = templates / "hooks" / name
        hook.parent.mkdir(parents=True, exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n", encoding="utf-8")
        hook.chmod(0o755)
    log = tmp_path / "log"
    seen = '"$GIT_TERMINAL_PROMPT" "$GIT_SSH_COMMAND" $("$GIT" config --get http.extraHeader)'
    fake_git(f'echo {seen} $(readlink /proc/self/fd/0) >>{log}; exec "$GIT" "$@"')
    for name, text in {
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_WORK_TREE": str(tmp_path / "nowhere"),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"),
        "GIT_TEMPLATE_DIR": str(templates),
        "GIT_TRACE": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraHeader",
        "GIT_CONFIG_VALUE_0": "X-Who:me",
    }.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("GIT_SSH_COMMAND", raising=False)
    monkeypatch.delenv("GIT_SSH", raising=False)
    clone = Clone(tmp_path / "work", str(origin.folder), "main")
    assert (clone.checkout(clone.fetch()) / "site.yml").read_text() == "one"
    assert clone.subject(commit) == "Ann: a change"
    assert sorted(it.name for it in tmp_path.iterdir() if "hook" in it.name) == []
    lines = [it for it in log.read_text().splitlines() if "BatchMode" in it]
    assert set(lines) == {"0 ssh -o BatchMode=yes X-Who:me /dev/null"}
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -i key")
    Clone(tmp_path / "work", str(origin.folder), "main").fetch()
    assert log.read_text().splitlines()[-1] == "0 ssh -i key X-Who:me /dev/null"


def test_without_git_it_says_what_to_install(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CloneError) as raised:
        clone.fetch()
    assert str(raised.value).endswith("there is no program `git` (install git)")


def test_a_full_disk_is_told(
    clone: Clone, origin: Origin, fake_git: FakeGit, tmp_path: Path
) -> None:
    commit = origin.commit("one")
    unfinished = bare(tmp_path) / "objects" / "pack" / "tmp_pack_1"
    place = fake_git(
        'case "$*" in *" fetch "*) echo "fatal: write error: No space left on device" >&2;'
        f" touch {unfinished}; echo fatal: unpack-objects failed >&2; exit 128;;"
        ' esac; exec "$GIT" "$@"'
    )
    with pytest.raises(CloneError, match="write error: No space left on device") as raised:
        clone.fetch()
    assert raised.value.hint.startswith("make room in /")
    assert not unfinished.exists()
    place.unlink()
    assert clone.fetch() == commit


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, origin: Origin) -> None:
    (tmp_path / "work").touch()
    with pytest.raises(CloneError, match="cannot write into") as raised:
        Clone(tmp_path / "work", str(origin.folder), "main").fetch()
    assert "say another folder" in raised.value.hint


def test_the_caller_is_heard_while_git_works(
    tmp_path: Path, origin: Origin, fake_git: FakeGit
) -> None:
    commit, beats = origin.commit("one"), tmp_path / "beats"
    fake_git(
        'case "$*" in *" fetch "*) touch begun;'
        f" until [ -e {beats} ]; do read -t 0.05 x </dev/zero || sleep 0.05; done;; esac;"
        ' exec "$GIT" "$@"'.replace("begun", f"{tmp_path}/begun")
    )

    def beat() -> None:
        if (tmp_path / "begun").exists():
            beats.touch()

    assert Clone(tmp_path / "work", str(origin.folder), "main", beat=beat).fetch() == commit


class LedByAnother(Exception):  # noqa: N818  # no error
    """What a beat may raise."""


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize("is_timeout", [True, False])
def test_what_takes_too_long_or_is_of_no_use_any_more_is_ended(  # fixtures
    tmp_path: Path,
    origin: Origin,
    fake_git: FakeGit,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_timeout: bool,
) -> None:
    """With its helpers and without its locks, so that the next one goes on at once."""
    commit, helper = origin.commit("one"), tmp_path / "helper"
    clone = Clone(tmp_path / "work", str(origin.folder), "main")
    clone.fetch()
    lock = bare(tmp_path) / "refs" / "heads" / "served.lock"
    trap = 'trap "" TERM;' if is_timeout else ""
    place = fake_git(
        f'case "$*" in *" fetch "*) {trap} touch {lock}; sleep 600 & echo $! >{helper}.new;'
        f" mv {helper}.new {helper}; wait;"
        ' sleep 600;; esac; exec "$GIT" "$@"'
    )

    def beat() -> None:
        if helper.exists() and not is_timeout:
            raise LedByAnother

    if is_timeout:
        monkeypatch.setattr(_clone, "TIMEOUT_S", 0.5)
    clone = Clone(tmp_path / "work", str(origin.folder), "main", beat=beat)
    with pytest.raises(CloneError if is_timeout else LedByAnother) as raised:
        clone.fetch()
    if is_timeout:
        assert "it took longer than 0.5 s, and was ended" in str(raised.value)
        assert "takes as long as it must" in str(raised.value)
    helper_pid = int(helper.read_text())
    eventually(lambda: not _alive(helper_pid), "the end of the helper")
    place.unlink()
    monkeypatch.undo()
    assert Clone(tmp_path / "work", str(origin.folder), "main").fetch() == commit


def test_a_lock_that_a_killed_git_has_left_goes_after_a_while(
    clone: Clone, origin: Origin, tmp_path: Path
) -> None:
    origin.commit("one")
    clone.fetch()
    commit = origin.commit("two")
    lock = bare(tmp_path) / "refs" / "heads" / "served.lock"
    lock.touch()
    with pytest.raises(CloneError) as raised:
        clone.fetch()
    assert "it goes on by itself in 10 minutes" in raised.value.hint
    os.utime(lock, (LONG_AGO_S, LONG_AGO_S))
    assert clone.fetch() == commit


def test_unfinished_folders_of_long_ago_go(clone: Clone, origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit("one")
    clone.fetch()
    clone.checkout(commit)
    work = tmp_path / "work"
    old = [work / ".new-1", work / ".old-1", work / "commits" / ".new-2", work / "commits/.old-2"]
    for folder in old:
        (folder / "objects").mkdir(parents=True)
        os.utime(folder, (LONG_AGO_S, LONG_AGO_S))
    (young := work / ".new-3").mkdir()
    clone.fetch()
    assert [it for it in old if it.exists()] == []
    assert young.exists()
    assert clone.checkout(commit).is_dir()


def _no_repository(git: Path) -> None:
    shutil.rmtree(git)
    git.mkdir()


def _a_file(git: Path) -> None:
    shutil.rmtree(git)
    git.touch()


def _no_objects(git: Path) -> None:
    shutil.rmtree(git / "objects")
    (git / "objects").mkdir()


def _empty_objects(git: Path) -> None:
    for path in git.glob("objects/??/*"):
        path.chmod(stat.S_IWUSR | stat.S_IRUSR)
        path.unlink()  # a checkout has a hard link to it
        path.touch()


def _an_empty_ref(git: Path) -> None:
    (git / "refs" / "heads" / "served").write_text("")


def _a_strange_ref(git: Path) -> None:
    (git / "refs" / "heads" / "served").write_text("5" * 40 + "\n")


def _a_bad_config(git: Path) -> None:
    (git / "config").write_text("[[[\n")


@pytest.mark.parametrize(
    "damage",
    [
        _no_repository,
        _a_file,
        _no_objects,
        _empty_objects,
        _an_empty_ref,
        _a_strange_ref,
        _a_bad_config,
        shutil.rmtree,
    ],
)
def test_a_damaged_clone_is_made_anew(
    clone: Clone, origin: Origin, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """With what its checkouts have of commits that are on no branch any more."""
    first, second = origin.commit("one"), origin.commit("two")
    clone.fetch()
    folder = clone.checkout(second)
    origin.force_push()
    damage(bare(tmp_path))
    assert clone.fetch() == first
    assert (clone.checkout(first) / "site.yml").read_text() == "one"
    assert clone.checkout(second) == folder
    assert clone.subject(first) == "Ann: a change"
    if damage is not shutil.rmtree:
        assert clone.has(second)
    third = origin.commit("three")
    assert clone.fetch() == third
    assert sorted(it.name for it in (tmp_path / "work").iterdir()) == ["commits", "repository.git"]


def test_a_file_that_is_damaged_in_the_clone_is_fetched_again(
    clone: Clone, origin: Origin, tmp_path: Path
) -> None:
    commit = origin.commit("one")
    clone.fetch()
    blob = origin.git("rev-parse", "HEAD:site.yml")
    path = bare(tmp_path) / "objects" / blob[:2] / blob[2:]
    path.chmod(stat.S_IWUSR | stat.S_IRUSR)
    path.write_bytes(b"")
    assert (clone.checkout(commit) / "site.yml").read_text() == "one"


def test_a_damaged_clone_stays_while_no_new_one_can_be_made(
    clone: Clone, origin: Origin, tmp_path: Path
) -> None:
    commit = origin.commit("one")
    clone.fetch()
    _an_empty_ref(bare(tmp_path))
    origin.folder.rename(tmp_path / "moved")
    with pytest.raises(CloneError):
        clone.fetch()
    assert clone.has(commit)
    (tmp_path / "moved").rename(origin.folder)
    assert clone.fetch() == commit


def test_submodules_are_named_and_their_folders_empty(
    clone: Clone, origin: Origin, tmp_path: Path
) -> None:
    plain_commit = origin.commit("one")
    inner = Origin(tmp_path / "inner")
    inner.commit("inside")
    add = ("submodule", "--quiet", "add", str(inner.folder), "roles/inner")
    origin.git("-c", "protocol.file.allow=always", *add)
    commit = origin.commit("two")
    clone.fetch()
    folder = clone.checkout(commit)
    assert (folder / "site.yml").read_text() == "two"
    assert list((folder / "roles" / "inner").iterdir()) == []
    assert clone.submodules(commit) == ["roles/inner"]
    assert clone.submodules(plain_commit) == []


def test_a_subject_is_one_harmless_line(clone: Clone, origin: Origin) -> None:
    origin.git("config", "log.showSignature", "true")
    commit = origin.commit("one", "Red \x1b[31m\u202e größer\tand\rmore")
    clone.fetch()
    subject = clone.subject(commit)
    assert subject.startswith("Ann: Red \\x1b[31m\\u202e größer")
    assert subject.isprintable()
    long = origin.commit("two", "x" * 5000)
    clone.fetch()
    assert len(clone.subject(long)) <= 200


ROUND = """
import sys
from pathlib import Path
from cobweb_plugins.controller._clone import Clone
clone = Clone(Path(sys.argv[1]), sys.argv[2], "main")
commit = clone.fetch()
clone.checkout(commit)
clone.keep([commit])
"""


@pytest.mark.gate("a process for each call of Git, before and after which it is killed")
def test_killed_at_any_call_of_git_it_leaves_nothing_half(
    origin: Origin, tmp_path: Path, fake_git: FakeGit
) -> None:
    origin.commit("zero")
    origin.commit("one")
    number, work = tmp_path / "number", tmp_path / "work"
    seed = Clone(tmp_path / "seed", str(origin.folder), "main")
    seed.checkout(seed.fetch())
    origin.force_push()
    commit = origin.commit("two")
    killed = at = 0
    while True:
        at, killed_before = at + 1, killed
        for moment in ("before", "after"):
            number.write_text("")
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(tmp_path / "seed", work, symlinks=True)
            place = fake_git(
                f'echo >>{number}; [ $(wc -l <{number}) = {at} ] || exec "$GIT" "$@"\n'
                f'[ {moment} = before ] || "$GIT" "$@"; kill -9 $PPID'
            )
            command = [sys.executable, "-c", ROUND, str(work), str(origin.folder)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            place.unlink()
            assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
            killed += ran.returncode != 0
            clone = Clone(work, str(origin.folder), "main")
            assert clone.fetch() == commit
            assert (clone.checkout(commit) / "site.yml").read_text() == "two"
            git_in(work / "repository.git", "fsck", "--no-dangling")
            lost = git_in(tmp_path / "seed" / "repository.git", "rev-parse", "served")
            git_in(work / "repository.git", "gc", "-q", "--prune=now")
            assert clone.has(lost)
        if killed == killed_before:
            break
    assert killed >= 2 * 6
