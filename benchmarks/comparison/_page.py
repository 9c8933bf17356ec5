"""The figures of the comparison as tables, in the page of the docs and from the JSON beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
DATA = PAGE.with_name("comparison.json")
_BEGIN = "<!-- figures: made by `python -m benchmarks.comparison --docs`, do not edit -->\n"
_END = "<!-- end of figures -->\n"


def as_markdown(report: Mapping[str, Any]) -> str:
    """Return the tables."""
    changes = {(row["what"], row["tool"]): row for row in report["changes"]}
    losses = {(row["what"], row["tool"]): row for row in report["losses"]}
    names = list(dict.fromkeys(what for what, _ in changes))
    lines = [
        _machine(report),
        "",
        "| change | tool | seconds | longest pause of the client | sessions lost | wrong orders |",
        "|---|---|---|---|---|---|",
        *(_change(changes[what, tool]) for what in names for tool in ("Cobweb", "Ansible")),
        "",
        "| Cobweb to Ansible | seconds | longest pause |",
        "|---|---|---|",
        *(_ratio(changes, what) for what in names),
        "",
        "| what happens | Cobweb: code; values; wrong orders | Ansible |",
        "|---|---|---|",
        *(
            f"| {what} | {_loss(losses[what, 'Cobweb'])} | {_loss(losses[what, 'Ansible'])} |"
            for what in dict.fromkeys(what for what, _ in losses)
        ),
        "",
        "Lines that say something, without comments: "
        + ", ".join(f"{tool} {count}" for tool, count in report["lines"].items())
        + ".",
        "",
    ]
    return "\n".join(lines)


def page_of(page: str, report: Mapping[str, Any]) -> str:
    """Return a page with the tables between its marks; ValueError if it has none."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError("the page lacks the marks of the figures")
    return f"{before}{begin}\n{as_markdown(report)}\n{end}{after}"


def write_page(report: Mapping[str, Any]) -> None:
    """Put the tables into the page."""
    PAGE.write_text(page_of(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")


def _machine(report: Mapping[str, Any]) -> str:
    it = report["machine"]
    packages = it["packages"]
    return (
        f"{it['cores']} cores of {it['processor']}, {it['memory_gib']} GiB, {it['system']}, "
        f"PostgreSQL 15, cobweb {packages['cobweb']}, ansible-core {packages['ansible-core']}; "
        f"load before the run {it['load_before']}; medians of {report['repeat']}"
    )


def _change(row: Mapping[str, Any]) -> str:
    return (
        f"| {row['what']} | {row['tool']} | {row['seconds']:.1f} | {row['gap']:.2f} s "
        f"| {row['broken']:.0f} | {row['wrong']} |"
    )


def _ratio(changes: Mapping[tuple[str, str], Mapping[str, Any]], what: str) -> str:
    ours, theirs = changes[what, "Cobweb"], changes[what, "Ansible"]
    seconds, gap = (ours[key] / theirs[key] for key in ("seconds", "gap"))
    return f"| {what} | {seconds:.2f} | {gap:.2f} |"


def _loss(row: Mapping[str, Any]) -> str:
    code = "" if row["code"] is None else f"{row['code']}; "
    return f"{code}{row['values']}; {row['wrong']}"
