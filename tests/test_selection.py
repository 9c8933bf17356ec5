"""The markers `full` and `gate` divide the tests; see tests/support/selection.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULE = """\
import pytest

pytestmark = pytest.mark.full("all of it takes long")
long = pytest.param("long", marks=pytest.mark.full("longer"))


@pytest.mark.gate("a story")
@pytest.mark.parametrize("case", ["short", long])
def test_story(case): pass


def test_rest(): pass


@pytest.mark.parametrize("case", ["a", pytest.param("b", marks=pytest.mark.gate("one of them"))])
def test_one(case): pass
"""


def chosen(folder: Path, *options: str) -> tuple[list[str], str]:
    """Return which tests of a folder run, and all that pytest says."""
    plugins = (
        "-p",
        "tests.support.selection",
        "-p",
        "pytest_rerunfailures",
        "-p",
        "no:cacheprovider",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *plugins, *options, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return re.findall(r"::(\S+) PASSED", done.stdout), done.stdout + done.stderr


def test_the_nearest_marker_decides(tmp_path: Path) -> None:
    """That of a parameter before that of the test before that of the module."""
    (tmp_path / "test_it.py").write_text(MODULE, encoding="utf-8")
    assert chosen(tmp_path)[0] == ["test_story[short]", "test_one[b]"]
    assert len(chosen(tmp_path, "--full")[0]) == 5


@pytest.mark.parametrize("words", ["", "('')", "(reason='why')"])
def test_a_marker_without_a_reason_is_refused(tmp_path: Path, words: str) -> None:
    text = f"import pytest\n@pytest.mark.full{words}\ndef test_it(): pass\n"
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    ran, said = chosen(tmp_path, "--full")
    assert ran == []
    assert "the marker full has one reason, a text" in said


def test_a_test_on_real_hosts_is_repeated_once_and_no_other(tmp_path: Path) -> None:
    text = (
        "import pytest\nran = []\n\n@pytest.mark.netns\ndef test_host():\n    ran.append(1)\n"
        "    assert len(ran) > 1\n\ndef test_plain():\n    assert len(ran) > 2\n"
    )
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    ran, said = chosen(tmp_path, "-rR")
    assert ran == ["test_host"]
    assert "RERUN test_it.py::test_host" in said
    assert re.search(r"1 failed, 1 passed, .*1 rerun in", said)
