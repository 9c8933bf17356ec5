"""The map of the docs is whole, and no link of any page leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as forges make them."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_the_map_names_every_page() -> None:
    """The map itself, and that of the types below it."""
    maps = [DOCS / "index.md", DOCS / "types" / "index.md"]
    linked = {
        (page.parent / name).resolve()
        for page in maps
        for name, _ in LINK.findall(page.read_text(encoding="utf-8"))
        if name
    }
    linked |= {maps[0]}
    assert {page for page in PAGES if DOCS in page.parents} == linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for name, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            dead.append(f"{name}#{anchor}")
    assert dead == []
