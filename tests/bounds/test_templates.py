"""Templates that would fill the memory or take for ever are mistakes with a message."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb.site.templates._meter import RenderError
from cobweb.site.templates._rendering import Templates
from tests.support.bounded import bounded

ROWS = [
    pytest.param(row[:2], marks=[pytest.mark.full(why) for why in row[2:]])
    for row in yaml.safe_load((Path(__file__).parent / "templates.yml").read_text(encoding="utf-8"))
]
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{one}: &{one} [{', '.join(['*' + other] * 9)}]\n"
    for one, other in zip("bcdefghij", "abcdefghi", strict=True)
)


def render(text: str) -> int:
    """Say what is wrong with a template, or what it gives."""
    try:
        value = Templates().get(text).render({"laughs": LAUGHS}.__getitem__)
    except RenderError as error:
        sys.stdout.write(error.message)
        return 3
    sys.stdout.write(f"value: {str(value)[:200]}")
    return 0


@pytest.mark.full("fills half a GiB; the rows of the table have that limit too")
def test_many_small_values_that_are_kept_are_refused() -> None:
    """Each is small, and none knows of the others."""
    sets = "".join(f"{{% set v{n} = laughs * 2000 ~ {n} %}}" for n in range(4000))
    outcome = bounded(lambda: render(sets + "{{ v0 | length }}"))
    assert "takes more than 512 MiB of memory" in outcome.said, outcome
    assert outcome.end == 3


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0])[:60])
def test_what_takes_too_much_is_refused(row: list[Any]) -> None:
    text, said = row
    outcome = bounded(lambda: render(text))
    assert said in outcome.said
    assert outcome.end == (0 if said.startswith("value: ") else 3), outcome
