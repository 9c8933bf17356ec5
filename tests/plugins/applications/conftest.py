"""Fixtures of the tests of `run`, `put` and `get`: sites whose hosts are this machine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import check_schema, run

__all__ = [
    "LOCAL",
    "RUNS",
    "MakeSite",
    "MakeSsh",
    "Start",
    "check_schema",
    "install",
    "instead",
    "over",
    "run",
]


SITE = {"cobweb": 1, "name": "broadcast"}
FAKE_SSH = """\
#!/bin/sh
# ssh to this machine: keeps its arguments, one a line, and runs what stands behind the host.
printf '%s\\n' "$@" >"$0.arguments"
while [ "$1" != -- ]; do shift; done
export HOST="$2"
shift 2
"""

RUNS = 'exec sh -c "$*"'
LOCAL = {"ansible_connection": "local"}

MakeSite = Callable[..., Path]
MakeSsh = Callable[..., Path]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder of the test's own, and have no setting of Ansible but its own."""
    for name in [it for it in os.environ if it.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def make_site(tmp_path: Path) -> MakeSite:
    """Return what writes a site: names of hosts, or their variables; `shared` are those of all."""

    def make(
        hosts: Mapping[str, Mapping[str, Any]] | list[str],
        shared: Mapping[str, Any] = LOCAL,
        **sections: Any,
    ) -> Path:
        folder = tmp_path / "site"
        folder.mkdir(exist_ok=True)
        named = hosts if isinstance(hosts, Mapping) else {it: {} for it in hosts}
        inventory = {"all": {"hosts": named, "vars": shared}}
        text = json.dumps({**SITE, "inventory": inventory, **sections}, indent=1)
        (folder / "site.yml").write_text(text, encoding="utf-8")
        return folder

    return make


@pytest.fixture
def site(make_site: MakeSite) -> Path:
    """Make a site of three hosts, all of which are this machine."""
    return make_site(["n1", "n2", "n3"])


@pytest.fixture
def make_ssh(tmp_path: Path) -> MakeSsh:
    """Return what writes a program for `ansible_ssh_executable`; `text` does what ssh would."""

    def make(text: str = RUNS) -> Path:
        program = tmp_path / "ssh"
        program.write_text(FAKE_SSH + text + "\n", encoding="utf-8")
        program.chmod(0o755)
        return program

    return make


@pytest.fixture
def start() -> Iterator[Start]:
    """Return what starts `cobweb` as a process of its own; it has ended when the test ends."""
    started = list[subprocess.Popen[str]]()

    def start(*words: str | os.PathLike[str], environment: Mapping[str, str] = {}) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-m", "cobweb", *(os.fspath(it) for it in words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def instead(command: str) -> str:
    """Return what a fake ssh does that runs another command in the place of Cobweb's."""
    kept = 'eval "set -- $*"; a=$1 b=$2 c=$3 d=$4 e=$5; shift 6; exec "$a" "$b" "$c" "$d" "$e" '
    return f'{kept}{shlex.quote(command)} "$@"'


def over(program: Path) -> dict[str, str]:
    """Return the variables of hosts that are reached by this program in the place of ssh."""
    return {"ansible_ssh_executable": str(program)}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Install a module as a plugin for a test."""
    name = f"plugin_{folder.name}".replace("-", "_")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[cobweb]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(str(folder))
