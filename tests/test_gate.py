"""`make gate` (.ci/gate) runs .ci/run of a clone: here of small repositories with their own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

GATE = Path(__file__).resolve().parents[1] / ".ci" / "gate"
JUNIT = """\
<testsuites><testsuite name="pytest">
<testcase classname="tests.site.test_load.TestDeep.TestDeeper" name="test_one[a.b]" time="2.5" />
<testcase classname="tests.test_text" name="test_two" time="0.1">
<failure message="AssertionError: no&#10;assert 1 == 2">1&#10;2&#10;3&#10;4&#10;5&#10;6</failure>
</testcase></testsuite></testsuites>
"""
TELL = f"mkdir -p build/tests; cat > build/tests/gate.xml <<'END'\n{JUNIT}END\n"
NAMES = [
    "tests/site/test_load.py::TestDeep::TestDeeper::test_one[a.b]",
    "tests/test_text.py::test_two",
]

Start = Callable[..., "subprocess.Popen[str]"]


def git(folder: Path, *words: str) -> str:
    """Run git as somebody whom this machine knows no name of."""
    who = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    command = ["git", *who, "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a repository on the branch `work`."""
    folder = tmp_path / "repository"
    (folder / ".ci").mkdir(parents=True)
    (tmp_path / "clones").mkdir()
    git(folder, "init", "--quiet", "--initial-branch=work")
    return folder


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """Make what a .ci/run waits at."""
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.fixture
def start(folder: Path) -> Start:
    """Return what starts the gate with the lines of a .ci/run."""

    def start(run: str, **settings: str) -> subprocess.Popen[str]:
        (folder / ".ci" / "run").write_text(f"set -e\n{run}\n", encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message=one")
        return subprocess.Popen(
            ["nohup", sys.executable, str(GATE)],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder.parent / "clones"), **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    return start


def passed(folder: Path) -> list[str]:
    """Return the commits that are noted."""
    noted = folder / ".git" / "gate-passed"
    return [line.split()[0] for line in noted.read_text().splitlines()] if noted.exists() else []


def test_a_commit_that_passed_is_noted_with_its_slowest_tests(folder: Path, start: Start) -> None:
    """Also where what .ci/run says cannot be printed here."""
    said, _ = start("echo für; " + TELL, PYTHONIOENCODING="ascii").communicate(timeout=60)
    first, second = NAMES
    assert f"the slowest tests, with their set-up:\n   2.5 s  {first}\n   0.1 s  {second}" in said
    assert "\npassed: 2 tests, " in said
    assert passed(folder) == [git(folder, "rev-parse", "HEAD")]
    assert (folder / ".git" / "gate.log").read_text(encoding="utf-8") == "für\n"
    assert list((folder.parent / "clones").iterdir()) == []


def test_what_failed_is_told_by_name_message_and_last_lines(folder: Path, start: Start) -> None:
    process = start(TELL + "exit 3")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    told = f"FAILED {NAMES[1]}\n  AssertionError: no\n  | 2\n  | 3\n  | 4\n  | 5\n  | 6\n\n"
    assert told in said
    assert "\nFAILED: 2 tests, " in said
    assert passed(folder) == []


@pytest.mark.parametrize(
    ("run", "code", "told"),
    [
        ("echo all right", 0, "\npassed: no test is on record, "),
        ("mkdir -p build/tests; echo '<a><testcase' > build/tests/gate.xml", 0, "cannot be read: "),
        ("echo no space; exit 1", 1, "| no space\n"),
        ("kill -KILL $$", 137, "\n.ci/run was ended by SIGKILL\n"),
    ],
)
def test_without_a_record_of_tests_the_exit_status_decides(
    folder: Path, start: Start, run: str, code: int, told: str
) -> None:
    process = start(run)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert told in said
    assert "Traceback" not in said
    assert len(passed(folder)) == (code == 0)


def first_line(process: subprocess.Popen[str]) -> int:
    """Return the process that the first line of the output names, as what tells of its end."""
    assert process.stdout is not None
    return os.pidfd_open(int(process.stdout.readline()))


def has_ended(process: int) -> bool:
    """Wait for the end of a process of which nobody is the parent any more."""
    return bool(select.select([process], [], [], 20)[0])


TIDY_UP = """\
exec python3 - <<'END'
import signal, subprocess
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
signal.sigwait([signal.SIGINT])
print("tidied")
END"""
"""Starts what heeds no SIGINT, and waits for one: bash may miss what comes before it waits."""


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_it(folder: Path, start: Start, ending: int) -> None:
    """What runs is told as by Ctrl-C and may tidy up; what does not heed that is killed."""
    process = start(TIDY_UP)
    left = first_line(process)
    process.send_signal(ending)
    process.send_signal(ending)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + ending
    name = signal.Signals(ending).name
    assert said.startswith(f"tidied\n\ngate: ended by {name}\n\n== gate: ")
    assert (folder / ".git" / "gate.log").read_text().endswith("\ntidied\n")
    assert has_ended(left)
    assert list((folder.parent / "clones").iterdir()) == []
    assert passed(folder) == []


def test_a_run_outlives_who_looks_at_it(folder: Path, start: Start, fifo: Path) -> None:
    """Under nohup it does not end with the terminal, nor where its output is no longer read."""
    process = start(f"sleep 60 & echo $!; read -r _ < {fifo}; kill -HUP $PPID; echo heard")
    left = first_line(process)
    assert process.stdout is not None
    process.stdout.close()
    fifo.write_text("go\n")
    process.wait(timeout=50)
    assert has_ended(left), "what runs in the background is not waited for"
    assert (folder / ".git" / "gate.log").read_text().endswith("\nheard\n")
    assert len(passed(folder)) == 1


def test_a_hook_of_git_keeps_its_branch(folder: Path, start: Start) -> None:
    """Git gives its hooks the place of their repository, which clones would take for theirs."""
    settings = {"GIT_DIR": str(folder / ".git"), "GIT_INDEX_FILE": str(folder / ".git" / "index")}
    said, _ = start("git rev-parse --show-toplevel", **settings).communicate(timeout=60)
    assert str(folder.parent / "clones") in said
    assert git(folder, "symbolic-ref", "--short", "HEAD") == "work"
    assert git(folder, "status", "--porcelain") == ""
    assert len(passed(folder)) == 1
