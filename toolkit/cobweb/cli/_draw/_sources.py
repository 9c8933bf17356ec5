"""The graph in the languages of Graphviz and Mermaid; hosts are boxes around their COBs."""

from __future__ import annotations

from collections.abc import Iterator

from cobweb._text import plain
from cobweb.cli._draw._arrows import arrows_of
from cobweb.model import Cob, Graph


def dot_source(graph: Graph) -> str:
    """Return Graphviz source; `dot -Tsvg` draws it."""
    return "\n".join([*_dot_lines(graph), ""])


def mermaid_source(graph: Graph) -> str:
    """Return Mermaid source, as Markdown pages of many forges draw it."""
    return "\n".join([*_mermaid_lines(graph), ""])


def _dot_lines(graph: Graph) -> Iterator[str]:
    yield "digraph cobweb {"
    yield '  rankdir="LR"; node [shape=box, style=rounded];'
    for number, (host, cobs) in enumerate(_by_host(graph).items()):
        yield f"  subgraph cluster_{number} {{"
        yield f"    label={_dot_text(host)};"
        for cob in cobs:
            label = _dot_text(f"{cob.name}\n{cob.type.name}")
            yield f"    {_dot_text(cob.id)} [label={label}];"
        yield "  }"
    for arrow in arrows_of(graph):
        style = "" if arrow.steady else ", style=dashed"
        label = _dot_text("\n".join(arrow.labels))
        yield f"  {_dot_text(arrow.cob)} -> {_dot_text(arrow.on)} [label={label}{style}];"
    yield "}"


def _mermaid_lines(graph: Graph) -> Iterator[str]:
    keys = {cob: f"c{number}" for number, cob in enumerate(graph.cobs)}
    yield "flowchart LR"
    for number, (host, cobs) in enumerate(_by_host(graph).items()):
        yield f"  subgraph h{number}[{_mermaid_text(host)}]"
        for cob in cobs:
            yield f"    {keys[cob.id]}[{_mermaid_text(f'{cob.name} ({cob.type.name})')}]"
        yield "  end"
    for arrow in arrows_of(graph):
        line = "-->" if arrow.steady else "-.->"
        label = _mermaid_text("; ".join(arrow.labels))
        yield f"  {keys[arrow.cob]} {line}|{label}| {keys[arrow.on]}"


def _by_host(graph: Graph) -> dict[str, list[Cob]]:
    hosts: dict[str, list[Cob]] = {}
    for cob in graph.cobs.values():
        hosts.setdefault(cob.host, []).append(cob)
    return hosts


def _dot_text(text: str) -> str:
    lines = (plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'


def _mermaid_text(text: str) -> str:
    """Return a quoted text; Mermaid takes marks that mean something to it as numbers."""
    marks = "".join(f"#{ord(it)};" if it in '"#;<>&`|' else it for it in plain(text))
    return f'"{marks}"'
