"""What the page on solvers shows is so, and the limits that it names are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from cobweb_plugins.solvers import _atoms, _conflict, _models

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "solvers.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(block, "solvers.md", "exec"), {})  # noqa: S102  # it is our own page


def test_the_limits_are_those_of_the_code() -> None:
    assert f"more than {_atoms.MAX_OUTCOMES:,} things" in PAGE
    assert f"more than {_models.MAX_COLUMNS:,} greatest sets" in PAGE
    assert f"after {_conflict.MAX_QUESTIONS} questions" in PAGE
