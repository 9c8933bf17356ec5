"""Writes the large graph as a build.ninja, in a process of its own.

The memory of one who starts a program is counted as that program's, so the starter stays small.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks._sites import large_graph


def main(hosts: int, rule: str, file: Path) -> None:
    """Write one edge per object; `rule` is `phony`, or `run` for a command that does nothing."""
    graph = large_graph(hosts)
    needs: dict[str, list[str]] = {cob: [] for cob in graph.cobs}
    for need in graph.needs:
        needs[need.cob].append(need.on)
    with file.open("w", encoding="utf-8") as out:
        out.write("rule run\n  command = :\n")
        out.writelines(f"build {cob}: {rule} {' '.join(on)}\n" for cob, on in needs.items())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
