"""Completion scripts are printed, and answer with commands, options, and what the site has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def _complete(words: str, folder: Path) -> list[str]:
    """Return what bash would offer for the last of these words."""
    environment = {
        **{k: v for k, v in os.environ.items() if k != "COBWEB_SITE"},
        "_COBWEB_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "cobweb"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [line.partition(",")[2] for line in ran.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(run: Run, shell: str) -> None:
    ran = run("completion", shell)
    assert ran.code == 0
    assert "_COBWEB_COMPLETE" in ran.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash: apt-get install bash")
def test_the_bash_script_is_right_for_bash(run: Run) -> None:
    script = run("completion", "bash").out
    ran = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_commands_are_completed(tmp_path: Path) -> None:
    assert _complete("cobweb pl", tmp_path) == ["plan", "plugins"]


def test_options_are_completed(tmp_path: Path) -> None:
    assert _complete("cobweb graph --li", tmp_path) == ["--limit"]


def test_schemas_are_completed(tmp_path: Path) -> None:
    assert _complete("cobweb schema ev", tmp_path) == ["events"]


def test_objects_are_completed_from_the_site(site: Path) -> None:
    assert _complete("cobweb why alpha/", site) == ["alpha/a", "alpha/cfg"]


def test_hosts_are_completed_from_the_site(site: Path, tmp_path: Path) -> None:
    assert _complete(f"cobweb -C {site} graph --limit a", tmp_path) == ["alpha"]


def test_without_a_site_nothing_is_completed_and_nothing_said(tmp_path: Path) -> None:
    assert _complete("cobweb why al", tmp_path) == []
