"""Who we are and who is dead, where the system tells less than usual."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cobweb.store import this_process
from cobweb.store._process import why_dead


def test_this_process_is_alive() -> None:
    assert why_dead(this_process(run="r1", reason="apply", since=1.0)) == ""


def test_without_proc_a_pid_is_all_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobweb.store._process._PROC", tmp_path)
    owner = this_process(run="r1", reason="apply", since=1.0)
    assert (owner.boot_id, owner.process_start, owner.pid_space) == ("", "", "")
    assert why_dead(owner) == ""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert why_dead(replace(owner, pid=process.pid)) == f"its process {process.pid} is gone"


def test_process_of_another_user_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    owner = this_process(run="r1", reason="apply", since=1.0)
    assert why_dead(owner) == ""


def test_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", refuse)
    assert this_process(run="r1", reason="apply", since=1.0).user == str(os.getuid())


def test_heavy_parts_are_loaded_when_they_are_asked_for() -> None:
    code = """
import sys
import cobweb.store
assert "sqlalchemy" not in sys.modules
assert cobweb.store.SiteLock.__name__ == "SiteLock"
assert "sqlalchemy" in sys.modules
try:
    cobweb.store.NoSuchThing
except AttributeError as error:
    assert "NoSuchThing" in str(error)
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
