"""Fixtures of the inventory's tests: write files, load the site, read its findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import SiteError
from cobweb.model import CobId
from cobweb.site import Site, load_site

TYPES = """\
types:
  simple:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: , outdated -> up: , outdated -> down: }
"""


class Maker:
    """Writes sites below a folder; `site` loads one, `findings` says what is wrong with it."""

    types = TYPES

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return self.root

    def site(self, files: Mapping[str, str] | str, **options: Any) -> Site:
        given = {"site.yml": files} if isinstance(files, str) else dict(files)
        given["site.yml"] = _complete(given["site.yml"])
        return load_site(self.write(given), **options)

    def findings(self, files: Mapping[str, str] | str, **options: Any) -> list[str]:
        """Load, evaluate and look at files; return what was found."""
        try:
            site = self.site(files, **options)
            site.graph()
        except SiteError as error:
            return [str(finding) for finding in error.findings]
        return [str(finding) for finding in site.findings_of_files()]


def _complete(text: str) -> str:
    """Add what every site needs and the test does not speak of."""
    if "inventory:" not in text:
        text += "\ninventory: {app: {hosts: {app01: , app02: }}, db: {hosts: {db01: }}}\n"
    if "types:" not in text and "simple" in text:
        text += "\n" + TYPES
    return text if "cobweb:" in text else f"cobweb: 1\n{text}"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    """Return a maker of sites in a folder of the test's own."""
    return Maker(tmp_path)


@pytest.fixture
def spec(maker: Maker) -> Callable[..., Any]:
    """Return what a spec of one COB on app01 becomes, from its YAML and further site text."""

    def evaluate(text: str, further: str = "", **files: str) -> Any:
        site = maker.site(
            {
                "site.yml": f"{further}\ncobs: {{c: {{type: simple, on: app01, spec: {text}}}}}",
                **files,
            }
        )
        return dict(site.graph().cobs[CobId("app01/c")].spec)

    return evaluate
