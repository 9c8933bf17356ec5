"""Sites that a controller keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import BOARDS, Kept
from tests.support.watched import WATCH, Watched

Make = Callable[..., Kept]
MakeWatched = Callable[..., Watched]


@pytest.fixture
def make_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Return a maker of sites of boards; their plugin is found here and by child processes."""
    find_plugin(monkeypatch, BOARDS)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    for name in ("COBWEB_SITE", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    made: list[Kept] = []

    def make(name: str = "kept", kind: type[Kept] = Kept, **settings: Any) -> Kept:
        folder = tmp_path / name
        folder.mkdir()
        made.append(kind(folder, capsys, **settings))
        return made[-1]

    yield make
    for site in made:
        site.let_all_go()  # the runs of a test that failed end, too


@pytest.fixture
def make_watched(make_kept: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeWatched]:
    """Return a maker of a site with deciders that a controller has brought about."""
    find_plugin(monkeypatch, WATCH)
    made: list[Watched] = []

    def make(**settings: Any) -> Watched:
        site = make_kept(kind=Watched, **settings)
        assert isinstance(site, Watched)
        made.append(site)
        monkeypatch.setenv("WATCH_HOME", str(site.home))
        monkeypatch.setenv("WATCH_SITE", str(site.folder))
        assert site.code() == 0
        return site

    yield make
    for site in made:
        site.end_all()


@pytest.fixture
def watched(make_watched: MakeWatched) -> Watched:
    """Return a site in Git with both deciders that a controller has brought about."""
    return make_watched()


def find_plugin(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have the plugin in a folder found here and by child processes."""
    monkeypatch.syspath_prepend(str(folder))
    path = filter(None, [str(folder), os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


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
