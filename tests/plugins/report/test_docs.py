"""The page on reports names the forms and the limits that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobweb.kernel._record import LONGEST_MESSAGE, MOST_TASKS
from cobweb.plugin import forms_of
from cobweb_plugins.report import cobweb_register_commands
from cobweb_plugins.report._annotations import MOST_ANNOTATIONS
from cobweb_plugins.report._html import MOST_FAILURES
from cobweb_plugins.report._pack import MOST_WAITS
from cobweb_plugins.report._recorder import MOST_OUTPUTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "report.md"


@pytest.fixture(scope="module")
def page() -> str:
    """Return the text of the page, with single spaces."""
    return " ".join(PAGE.read_text(encoding="utf-8").split())


def test_the_page_names_every_form(page: str) -> None:
    (command,) = cobweb_register_commands()
    forms = forms_of(command) or ()
    assert len(forms) == 7
    for form in forms:
        assert f"`{form}`" in page


def test_the_page_knows_the_limits(page: str) -> None:
    assert MOST_ANNOTATIONS == 10
    for told in (
        "ten errors and ten warnings",
        f"last {MOST_TASKS} tasks",
        f"within {LONGEST_MESSAGE:,} characters",
        f"tells {MOST_FAILURES} failures in full and {MOST_WAITS:,} lock waits",
        f"first {MOST_OUTPUTS:,} failures",
    ):
        assert told in page
