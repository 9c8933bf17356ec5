"""The planner of docs/planners.md keeps what the kit asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cobweb.testing import NamedCheck, TaskPlannerCase, task_planner_checks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "planners.md"


def _planner() -> Any:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  # the page's own example
    return names["OneByOne"]


@pytest.mark.parametrize("check", task_planner_checks(TaskPlannerCase(make=_planner())), ids=str)
def test_the_example_conforms(check: NamedCheck) -> None:
    check()
