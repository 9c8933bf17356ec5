"""`make gate` (.ci/gate) runs .ci/run of a clone: here of small repositories with their own."""

from __future__ import annotations

import os
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
def start(folder: Path) -> Start:
    """Return what starts the gate with the lines of a .ci/run."""

    def start(run: str, **settings: str) -> subprocess.Popen[str]:
        (folder / ".ci" / "run").write_text(f"set -e\n{run}\n", encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message=one")
        return subprocess.Popen(
            [sys.executable, str(GATE)],
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


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_it(folder: Path, start: Start, ending: int) -> None:
    """What runs is told as by Ctrl-C and may tidy up; a second signal takes nothing from that."""
    tidied = folder.parent / "tidied"
    process = start(f"trap 'sleep 0.1; touch {tidied}' EXIT\necho $$\nsleep 30")
    assert process.stdout is not None
    group = int(process.stdout.readline())
    process.send_signal(ending)
    process.send_signal(ending)
    process.communicate(timeout=60)
    assert process.returncode == 128 + ending
    assert tidied.exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
    assert list((folder.parent / "clones").iterdir()) == []
    assert passed(folder) == []


def test_a_hook_of_git_keeps_its_branch(folder: Path, start: Start) -> None:
    """Git gives its hooks the place of their repository, which clones would take for theirs."""
    settings = {"GIT_DIR": str(folder / ".git"), "GIT_INDEX_FILE": str(folder / ".git" / "index")}
    said, _ = start("git rev-parse --show-toplevel", **settings).communicate(timeout=60)
    assert str(folder.parent / "clones") in said
    assert git(folder, "symbolic-ref", "--short", "HEAD") == "work"
    assert git(folder, "status", "--porcelain") == ""
    assert len(passed(folder)) == 1
