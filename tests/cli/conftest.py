"""Fixtures of the command line's tests: run it in process, a small site, a hand-made graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli import main
from cobweb.model import (
    Cob,
    CobId,
    CobType,
    Graph,
    LockNeed,
    Nothing,
    Tasks,
    Transition,
    TransitionNeed,
)

TYPE = """\
types:
  simple:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {tasks: simple/check.yml}
    transitions:
      down -> up: {tasks: simple/start.yml}
      up -> down: {tasks: simple/stop.yml}
      outdated -> up: {tasks: simple/start.yml}
      outdated -> down: {tasks: simple/stop.yml}
"""

SITE = (
    """\
cobweb: 1
name: figure1
inventory:
  all:
    children:
      back: {hosts: {alpha: {port: 8080}}}
      front: {hosts: {beta: {}}}
"""
    + TYPE
    + """\
cobs:
  cfg:
    type: simple
    on: back
    spec: {text: "port={{ port }}"}
    stops: [a]
  a:
    type: simple
    on: back
  b:
    type: simple
    on: front
    requires: [a@back]
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a call of the command line did."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call `main` in process, with an environment that says nothing about sites and colours."""
    for name in ("COBWEB_SITE", "NO_COLOR", "COLUMNS", "_COBWEB_COMPLETE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str | os.PathLike[str]) -> Ran:
        capsys.readouterr()
        code = main([os.fspath(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code=code, out=captured.out, err=captured.err)

    return call


@pytest.fixture
def make_site(tmp_path: Path) -> Callable[[str], Path]:
    """Write a site.yml, and a simple.yml for its imports with a type of this name; return where."""

    def make(text: str) -> Path:
        folder = tmp_path / "site"
        tasks = folder / "simple"
        tasks.mkdir(parents=True)
        for name in ("check", "start", "stop"):
            (tasks / f"{name}.yml").write_text("- set_fact: {cob_state: up}\n", encoding="utf-8")
        (folder / "simple.yml").write_text(TYPE, encoding="utf-8")
        (folder / "site.yml").write_text(text, encoding="utf-8")
        return folder

    return make


@pytest.fixture
def site_text() -> str:
    """Return the text of the site of `site`."""
    return SITE


@pytest.fixture
def site(make_site: Callable[[str], Path]) -> Path:
    """Make the site of figure 1 of the COB paper, with tasks that do nothing."""
    return make_site(SITE)


@pytest.fixture
def check_schema() -> Callable[[str, Any], None]:
    """Check data against a shipped schema."""
    from jsonschema import Draft202012Validator

    from cobweb.cli.schema import read_schema

    def check(name: str, data: Any) -> None:
        Draft202012Validator(read_schema(name)).validate(data)

    return check


def _simple_type() -> CobType:
    steps = [("down", "up"), ("up", "down"), ("outdated", "up"), ("outdated", "down")]
    return CobType(
        name="simple",
        states=("outdated", "down", "up"),
        preferred="up",
        remove="down",
        check=Tasks(path="/check.yml"),
        transitions=tuple(Transition(source=x, dest=y, action=Nothing()) for x, y in steps),
    )


@pytest.fixture
def make_graph() -> Callable[..., Graph]:
    """Make a graph of COBs of one type from ids and (cob, on) pairs; `a->b` pairs are steady."""

    def make(ids: list[str], pairs: list[tuple[str, str]], *, steady: bool = False) -> Graph:
        simple = _simple_type()
        needs = [
            LockNeed(cob=CobId(cob), within="up", on=CobId(on), state="up")
            if steady
            else TransitionNeed(cob=CobId(cob), source="*", dest="up", on=CobId(on), state="up")
            for cob, on in pairs
        ]
        cobs = {CobId(cob): Cob(id=CobId(cob), type=simple) for cob in sorted(ids)}
        return Graph(cobs=cobs, needs=tuple(needs))

    return make
