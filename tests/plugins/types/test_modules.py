"""House rules of what runs on managed hosts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cobweb.plugin import data_dir

PLAYBOOKS = Path(str(data_dir("playbooks")))
MODULES = sorted(PLAYBOOKS.rglob("*.py"))
TASK_FILES = sorted(PLAYBOOKS.rglob("*.yml"))
OLDEST = (3, 8)
LINES_PER_FUNCTION = 60
LINES_PER_MODULE = 500


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_runs_on_the_oldest_python_of_hosts(path: Path) -> None:
    """Ansible of the tested range supports hosts with Python 3.8."""
    ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_tidy(path: Path) -> None:
    """The limits of the toolkit hold here too."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert text.count("\n") <= LINES_PER_MODULE
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            assert node.end_lineno - node.lineno < LINES_PER_FUNCTION, node.name


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_check_ends_by_saying_the_state_and_nothing_else_does(path: Path) -> None:
    """`cob_state` is set by check.yml alone, and by what asks for something else.

    That is how a change of a host has ended, and what a service of a pool does.
    """
    asks = path.name == "check.yml" or (path.parent.name == "confirm" and path.name != "arm.yml")
    asks = asks or path.name.endswith("-observe.yml")
    assert ("cob_state:" in path.read_text(encoding="utf-8")) is asks
