"""The table of ratios, as text for a terminal and as Markdown for the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = ("what", "Cobweb", "beside it", "ratio", "target", "met")


def as_text(report: Mapping[str, Any]) -> str:
    """Return one block of aligned lines per subject, and what the machine is."""
    lines = []
    for subject, part in report["subjects"].items():
        cells = [_HEAD, *map(_cells, part["rows"])]
        widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
        lines.append(f"\n{subject}")
        for row in cells:
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  " + "  ".join(padded).rstrip())
        lines.extend(f"  {remark}" for remark in _remarks(part))
    return "\n".join([*lines, "", _machine(report)])


def as_markdown(report: Mapping[str, Any]) -> str:
    """Return one Markdown table per subject, and what the machine is."""
    lines = [_machine(report)]
    for subject, part in report["subjects"].items():
        lines += ["", f"### {subject}", "", f"| {' | '.join(_HEAD)} |", "|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(_cells(row))} |" for row in part["rows"]]
        lines += ["", *(f"- {remark}" for remark in _remarks(part))]
    return "\n".join(lines).rstrip() + "\n"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    unit = row["unit"]
    if row["missing"]:
        return (row["what"], "-", row["peer"] or "-", "-", "-", "-")
    peer = f"{_figure(row['peer_value'], unit)} {row['peer']}" if row["peer_value"] else row["peer"]
    sign = ">=" if row["more_is_better"] else "<="
    return (
        row["what"],
        _figure(row["value"], unit),
        peer or "-",
        f"{row['ratio']:.2f}" if row["ratio"] is not None else "-",
        f"{sign} {_figure(row['target'], unit)}" if row["target"] is not None else "-",
        {True: "yes", False: "NO", None: "-"}[row["met"]],
    )


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}".rstrip()


def _remarks(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the rows add in words; what several of them add is said once."""
    speakers: dict[str, list[str]] = {}
    for row in part["rows"]:
        remark = f"not measured, {row['missing']}" if row["missing"] else row["note"]
        if remark:
            speakers.setdefault(remark, []).append(row["what"])
    for remark, whats in speakers.items():
        yield f"{'; '.join(dict.fromkeys(whats))}: {remark}"
    if "apart" in part:
        yield f"measured apart from the rest: {_machine(part['apart'])}"
    if "error" in part:
        yield f"THE BENCHMARK {part['error']}"


def _machine(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return (
        f"{machine['cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB, "
        f"{machine['system']}, kernel {machine['kernel']}, Python {machine['python']}, "
        f"SQLite {machine['sqlite']}, {packages}; load before the run {machine['load_before']}; "
        f"size {report['size']}{_commit(report.get('commit', ''))}"
    )


def _commit(commit: str) -> str:
    head, plus, changes = commit.partition("+")
    return f"; commit {head[:12]}{plus}{changes}" if head else ""
