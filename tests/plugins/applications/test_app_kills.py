"""`app run` is killed at any moment, again and again: nothing is lost, or started twice."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.counted_application import CountedApplication

PHASES = ("one", "two", "three")
LONGEST_S = 4.0
INVITING_S = 2.0
"""Within it invitations are out."""


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[CountedApplication]:
    """Give an application, and end it."""
    ring = CountedApplication(tmp_path)
    yield ring
    ring.end()


def check_kills(
    ring: CountedApplication, hosts: Sequence[str], moments_s: Sequence[float], seed: int
) -> None:
    """Kill `app run` so many seconds after each begin, then leave one alone, and count starts."""
    chance = random.Random(seed)
    ring.write(
        {
            "one": {"run": ring.command("one", "sleep 1")},
            "two": {"after": ["one"], "barrier": {}, "run": ring.command("two", "sleep 1")},
            "three": {"after": ["two"], "run": ring.command("three")},
        },
        hosts,
    )
    moments, code, said = iter(moments_s), -signal.SIGKILL, ""
    while code == -signal.SIGKILL:  # after another end, the next one would start it anew
        code, said = ring.run_or_kill(next(moments, None), whole=chance.random() < 0.5)
    assert code == 0, f"seed {seed}: {said}"
    assert ring.starts() == {(host, phase): 1 for host in hosts for phase in PHASES}, f"seed {seed}"
    assert len(ring.instances()) == 1


@pytest.mark.gate("six kills, and what follows")
@pytest.mark.parametrize("seed", [3])
def test_it_is_killed_at_random_moments(ring: CountedApplication, seed: int) -> None:
    chance = random.Random(seed)
    moments = [chance.uniform(0.3, LONGEST_S) for _ in range(6)]
    check_kills(ring, ["n1", "n2", "n3", "n4"], moments, seed)


@pytest.mark.full("twenty kills, some of them while invitations are out")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1])
def test_it_is_killed_at_random_moments_on_many_nodes(ring: CountedApplication, seed: int) -> None:
    chance = random.Random(seed)
    inviting = [chance.uniform(0.3, INVITING_S) for _ in range(6)]
    later = [chance.uniform(0.3, 20.0) for _ in range(14)]
    check_kills(ring, [f"n{it}" for it in range(1, 51)], inviting + later, seed)
