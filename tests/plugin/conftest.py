"""Install throw-away plugins: a module and its metadata on the import path, without pip."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a module as a plugin; everything is undone afterwards."""
    modules = set(sys.modules)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(  # noqa: PLR0913  # each is one way to be broken
        name: str,
        source: str = "",
        *,
        version: str = "1.0",
        entry: str | None = None,
        metadata: str | None = None,
        head: str = "from cobweb.plugin import hookimpl\ncobweb_interface = 1\n",
    ) -> Path:
        folder = tmp_path / name
        info = folder / f"{name}_dist-{version}.dist-info"
        info.mkdir(parents=True)
        (folder / f"{name}_module.py").write_text(head + textwrap.dedent(source))
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: {version}\n"
            if metadata is None
            else metadata
        )
        points = f"[cobweb]\n{entry or f'{name} = {name}_module'}\n"
        (info / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(str(folder))
        return folder

    yield make
    for module in set(sys.modules) - modules:
        if module.endswith("_module"):
            del sys.modules[module]
