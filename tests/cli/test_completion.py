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
from click.shell_completion import BashComplete

from cobweb.api import Site
from cobweb.cli._group import cobweb
from cobweb.model import CobId
from cobweb.store import StateWritten

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


# --- the same in process


def _offered(words: list[str], incomplete: str) -> list[str]:
    completer = BashComplete(cobweb, {}, "cobweb", "_COBWEB_COMPLETE")
    return [item.value for item in completer.get_completions(words, incomplete)]


def test_hosts_and_objects_are_those_of_the_site_that_is_named(site: Path) -> None:
    assert _offered(["-C", str(site), "why"], "alpha/") == ["alpha/a", "alpha/cfg"]
    assert _offered(["graph", "-C", str(site), "--limit"], "") == ["alpha", "beta"]


def test_what_can_be_forgotten_is_what_is_known_and_gone(site: Path) -> None:
    cobs = ("alpha/a", "alpha/old", "gone/a")
    with Site(site) as session:
        session.store(create=True).write(
            [StateWritten(cob=CobId(cob), state="up", reason="check", time=1.0) for cob in cobs]
        )
    assert _offered(["-C", str(site), "forget"], "") == ["alpha/old", "gone/a"]
    assert _offered(["-C", str(site), "forget", "--host"], "") == ["gone"]


def test_an_invalid_site_offers_nothing(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text("nonsense", encoding="utf-8")
    assert _offered(["-C", str(tmp_path), "why"], "") == []
