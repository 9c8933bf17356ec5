"""Sites that a controller keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import BOARDS, Kept

Make = Callable[..., Kept]


@pytest.fixture
def make_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Return a maker of sites of boards; their plugin is found here and by child processes."""
    monkeypatch.syspath_prepend(str(BOARDS))
    path = filter(None, [str(BOARDS), os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    for name in ("COBWEB_SITE", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    made: list[Kept] = []

    def make(name: str = "kept", **settings: Any) -> Kept:
        folder = tmp_path / name
        folder.mkdir()
        made.append(Kept(folder, capsys, **settings))
        return made[-1]

    yield make
    for site in made:
        site.let_all_go()  # the runs of a test that failed end, too


@pytest.fixture
def fresh(make_kept: Make) -> Kept:
    """Return a site in Git that no controller has seen."""
    return make_kept()


@pytest.fixture
def kept(fresh: Kept) -> Kept:
    """Return a site in Git that a controller has brought about."""
    assert fresh.code() == 0
    return fresh


@pytest.fixture
def folder(make_kept: Make) -> Kept:
    """Return a site without Git that a controller has brought about."""
    made = make_kept(is_git=False)
    assert made.code() == 0
    return made
