"""A site with pools on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.pools.hands import Hands, opened_hands
from tests.plugins.pools.needs import Needs


@pytest.fixture
def hands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hands]:
    """Return a site whose hosts can move; all resources are nobody's."""
    for name in ("COBWEB_SITE", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    with opened_hands(tmp_path, capsys, Hands) as made:
        yield made


@pytest.fixture
def needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Needs]:
    """Return a site whose hosts move by need; its test says what services need."""
    for name in ("COBWEB_SITE", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    with opened_hands(tmp_path, capsys, Needs) as made:
        yield made
