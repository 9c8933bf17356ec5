"""The table on the docs page, and the figures that it was made from, beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._table import as_markdown

_DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = _DOCS / "benchmarks.md"
DATA = _DOCS / "benchmarks.json"
_BEGIN = "<!-- table: made by `make bench BENCH_ARGS=--docs`, do not edit -->\n"
_END = "<!-- end of table -->\n"


def page_of(page: str, report: Mapping[str, Any]) -> str:
    """Return the page with the table of this report between its two marks; ValueError without."""
    head, begin, rest = page.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} lacks the marks around its table")
    return f"{head}{begin}\n{as_markdown(report)}\n{end}{tail}"


def write_page(report: Mapping[str, Any]) -> None:
    """Write the figures of a whole run and the table of them into the docs."""
    page = page_of(PAGE.read_text(encoding="utf-8"), report)
    DATA.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page, encoding="utf-8")
