"""Find entry points, one distribution at a time, so that damaged metadata harms only itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions

from cobweb.plugin._hooks import PROJECT

OURS = "cobweb"
"""The distribution of the built-in plugins: it comes first, so that nobody takes their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An entry point of the group, or (`entry` None) a distribution whose list is unreadable."""

    distribution: str
    version: str
    entry: EntryPoint | None
    problem: str = ""

    @property
    def name(self) -> str:
        """The plugin's name; that of its distribution where there is no entry point."""
        return self.entry.name if self.entry else self.distribution


def find_entry_points() -> tuple[Found, ...]:
    """Return the entry points of all installed distributions: ours first, then by name."""
    found: list[Found] = []
    seen: set[str] = set()
    for distribution in distributions():
        text = distribution.read_text("entry_points.txt") or ""
        if f"[{PROJECT}]" not in text:
            continue
        name = str(distribution.metadata["Name"] or "unknown")
        if (normal := name.lower().replace("_", "-")) not in seen:
            seen.add(normal)
            found += _entries(distribution, name)
    return tuple(sorted(found, key=lambda f: (f.distribution != OURS, f.name, f.distribution)))


def _entries(distribution: Distribution, name: str) -> Iterator[Found]:
    version = _version(distribution)
    try:
        entries = distribution.entry_points.select(group=PROJECT)
    except (TypeError, ValueError) as error:
        problem = f"its entry_points.txt cannot be read: {error}"
        yield Found(distribution=name, version=version, entry=None, problem=problem)
        return
    for entry in entries:
        yield Found(distribution=name, version=version, entry=entry)


def _version(distribution: Distribution) -> str:
    return str(distribution.metadata["Version"] or "unknown")
