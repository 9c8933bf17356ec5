"""A site with pools on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.pools.hands import Hands, opened_hands


@pytest.fixture
def hands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hands]:
    """Return a site whose hosts can move; all resources are nobody's."""
    for name in ("COBWEB_SITE", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    with opened_hands(tmp_path, capsys) as made:
        yield made
