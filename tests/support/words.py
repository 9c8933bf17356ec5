"""The four words of a site as needs, and random sites made of them (design, section 3)."""

from __future__ import annotations

from hypothesis import strategies as st

from cobweb.model import Graph
from tests.support.graphs import graph_of


def after(a: str, x: str) -> list[str]:
    """Return the needs of `after: X`."""
    return [f"{a} *>up {x} up"]


def requires(a: str, x: str) -> list[str]:
    """Return the needs of `requires: X`."""
    return [*after(a, x), f"{x} *>down {a} down"]


def binds(a: str, x: str) -> list[str]:
    """Return the needs of `binds: X`."""
    return [*requires(a, x), f"{a} up {x} up", f"{x} outdated>* {a} down"]


def stops(a: str, x: str) -> list[str]:
    """Return the needs of `stops: X`."""
    return [f"{a} outdated>* {x} down", f"{x} *>up {a} up"]


@st.composite
def words(draw: st.DrawFn, *, circles: bool = False) -> Graph:
    """Draw a site of two to five simple objects and up to five words, mostly without circles."""
    cobs = [f"h{number % 3}/c{number}" for number in range(draw(st.integers(2, 5)))]
    needs: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        pair = draw(st.permutations(cobs))[:2]
        first, second = pair if circles else sorted(pair)
        needs += draw(st.sampled_from([after, requires, binds, stops]))(first, second)
    return graph_of(" ".join(cobs), *sorted(set(needs)))
