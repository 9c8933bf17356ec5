"""What docs/site.md says is so."""

from __future__ import annotations

import re
from pathlib import Path

from cobweb.inventory import load_site
from cobweb.inventory._filters import FILTERS, TESTS
from cobweb.inventory._sandbox import MAX_STEPS, MAX_TEXT
from cobweb.inventory._yaml import MAX_REPEATED, scalar
from cobweb.model import CobId

TEXT = (Path(__file__).resolve().parents[2] / "docs/site.md").read_text(encoding="utf-8")


def test_the_example_is_a_site(tmp_path: Path) -> None:
    """The files of the page make a site with the objects, needs and limits that it speaks of."""
    for name, body in re.findall(r"```yaml\n# (\S+)\n(.*?)```", TEXT, re.DOTALL):
        (tmp_path / name).write_text(body, encoding="utf-8")
    site = load_site(tmp_path)
    graph = site.graph()
    assert len(site.hosts) == 5 + 1
    assert graph.cobs[CobId("app05/app-config")].spec == {"text": "port=8000 on app05"}
    (budget,) = graph.budgets
    assert [(unit.name, *unit.domains) for unit in budget.units] == [
        *((f"app0{number}", "a") for number in range(1, 5)),
        ("app05", "b"),
    ]
    assert "(db01/db, * -> down) <- (app01/app, down)" in map(str, graph.needs)


def test_every_filter_and_limit_is_named() -> None:
    """A filter that is not on the page does not exist for its reader."""
    for name in (*FILTERS, *TESTS):
        assert "." in name or f"`{name}`" in TEXT, name
    for number in (f"{MAX_STEPS:,}", f"{MAX_TEXT // 2**20} Mi", f"{MAX_REPEATED:,}"):
        assert number in TEXT


def test_scalars_are_as_the_page_says() -> None:
    """Texts stay texts, numbers are numbers."""
    texts = re.search(r"while (.*?) and dates are texts", TEXT, re.DOTALL)
    assert texts
    for text in re.findall(r"`([^`]+)`", texts[1]):
        assert scalar(text) == text
    assert (scalar("8080"), scalar("1.5")) == (8080, 1.5)
