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
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{folder}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return re.findall(r"::(\S+) PASSED", done.stdout), done.stdout + done.stderr


def test_the_nearest_marker_decides(tmp_path: Path) -> None:
    """That of a parameter before that of the test before that of the module."""
    (tmp_path / "test_it.py").write_text(MODULE, encoding="utf-8")
    assert chosen(tmp_path)[0] == ["test_story[short]", "test_one[b]"]
    assert len(chosen(tmp_path, "--full")[0]) == 5


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", ("-p", "xdist", "-n1")),
        ("('')", ()),
        ("(reason='why')", ()),
        ("(3)", ()),
        ("('a', 'b')", ()),
    ],
)
def test_a_marker_without_a_reason_is_refused(
    tmp_path: Path, words: str, options: tuple[str, ...]
) -> None:
    text = f"import pytest\n@pytest.mark.full{words}\ndef test_it(): pass\n"
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    ran, said = chosen(tmp_path, "--full", *options)
    assert ran == []
    assert "test_it.py::test_it: the marker full has one reason, a text" in said


@pytest.mark.parametrize("place", ["pytestmark = [{}, {}]\n", "@{}\n@{}\n"])
def test_of_both_markers_one_is_refused(tmp_path: Path, place: str) -> None:
    both = place.format("pytest.mark.gate('a')", "pytest.mark.full('b')")
    text = f"import pytest\n{both}def test_it(): pass\n"
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    ran, said = chosen(tmp_path, "--full")
    assert ran == []
    assert "full and gate exclude each other" in said


def test_slow_tests_and_their_set_up_are_named_once(tmp_path: Path) -> None:
    """A folder of the name `gate` is no reason."""
    text = (
        "import time, pytest\nran = []\n\n@pytest.fixture\ndef slow(): time.sleep(0.06)\n\n"
        "def test_set_up(slow): pass\n\n@pytest.mark.flaky(reruns=1)\ndef test_twice():\n"
        "    time.sleep(0.06)\n    ran.append(1)\n    assert len(ran) > 1\n\n"
        "@pytest.mark.gate('a story')\ndef test_story(slow): pass\n\ndef test_quick(): pass\n"
    )
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "test_it.py").write_text(text, encoding="utf-8")
    (tmp_path / "quick.py").write_text(
        "from tests.support import selection\nselection.SLOW_S = 0.05\n", encoding="utf-8"
    )
    _, said = chosen(tmp_path, "-p", "quick")
    summary = said.partition("no marker `gate` says why")[2]
    assert sorted(re.findall(r" s  \S+::(\S+)", summary)) == ["test_set_up", "test_twice"]


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
