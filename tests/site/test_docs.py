"""What docs/site.md says is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cobweb._foreign_json import MAX_JSON_BYTES, MAX_JSON_DEPTH
from cobweb.model import CobId
from cobweb.site import load_site
from cobweb.site._modules import MAX_IMPORT_DEPTH, MAX_MODULES
from cobweb.site.hosts._scope import MAX_CHAIN
from cobweb.site.reading._regex import MAX_PATTERN, MAX_REGEX_SECONDS, MAX_REPEATS
from cobweb.site.reading._yaml import MAX_REPEATED, scalar
from cobweb.site.templates._filters import FILTERS, MAX_COMPARED, TESTS
from cobweb.site.templates._growth import MAX_DUMPED
from cobweb.site.templates._meter import (
    MAX_BITS,
    MAX_LARGE,
    MAX_SECONDS,
    MAX_STEPS,
    MAX_TEXT,
    MAX_VALUE,
    MAX_WRITTEN,
)
from cobweb.site.templates._sandbox import MAX_TEMPLATE
from cobweb.site.templates._yaml_text import MAX_DOCUMENT

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


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (MAX_TEMPLATE, "| the text of a template | {:,} characters"),
        (MAX_STEPS, "| steps of loops, calls, filters | {:,} |"),
        (MAX_TEXT // 2**20, "| a text that it makes | {} Mi characters"),
        (MAX_VALUE // 2**20, "| a list or mapping that it makes | {} Mi characters"),
        (MAX_WRITTEN // 2**20, "write together | {} Mi characters"),
        (MAX_LARGE // 2**20, "that it makes, together | {} Mi characters"),
        (MAX_BITS, "| a whole number | {:,} bits"),
        (2 * MAX_SECONDS, "| processor time of one render | {} s"),
        (MAX_SECONDS, "less than {} s is never refused"),
        (MAX_PATTERN, "| a regular expression | {:,} characters"),
        (MAX_REPEATS, "{:,} counted repetitions"),
        (MAX_REGEX_SECONDS, "{} s of processor time for a search"),
        (MAX_DOCUMENT, "`from_yaml` | {:,} characters"),
        (MAX_DUMPED, "with indentation | {:,} characters"),
        (MAX_COMPARED, "and their like compare | {:,} |"),
        (MAX_CHAIN, "refer to each other in a chain | {} |"),
        (MAX_MODULES, "at most {:,} files are imported"),
        (MAX_IMPORT_DEPTH, "at most {} of them in a chain"),
        (MAX_JSON_BYTES // 2**20, "has at most {} MiB"),
        (MAX_JSON_DEPTH, "1 GiB) and {} levels"),
    ],
)
def test_every_bound_is_as_the_page_says(limit: int, said: str) -> None:
    assert said.format(limit) in TEXT


def test_scalars_are_as_the_page_says() -> None:
    """Texts stay texts, numbers are numbers."""
    texts = re.search(r"while (.*?) and dates are texts", TEXT, re.DOTALL)
    assert texts
    for text in re.findall(r"`([^`]+)`", texts[1]):
        assert scalar(text) == text
    assert (scalar("8080"), scalar("1.5")) == (8080, 1.5)
