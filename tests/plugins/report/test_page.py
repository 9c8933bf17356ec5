"""The page stands alone, is safe whatever tasks said, and holds what the run did."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zlib
from array import array
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from cobweb_plugins.report import _pack as pack_module
from cobweb_plugins.report._html import MOST_BOXES, MOST_FAILURES, draw, layers
from cobweb_plugins.report.forms import Report, RunFacts, html_page
from tests.support.needed import lack

Tale = Any


def _page(report: Report) -> str:
    return "".join(html_page(report))


class _Elements(HTMLParser):
    """Collects the names of elements and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _unpacked(page: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Read the block of data as the script does."""
    match = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page)
    assert match is not None
    block = zlib.decompress(b64decode(match[1]))
    size = int.from_bytes(block[:4], "little")
    head = json.loads(block[4 : 4 + size])
    at = 4 + size
    columns = {}
    for name, length in head["columns"]:
        columns[name] = array("i", block[at : at + 4 * length]).tolist()
        at += 4 * length
    assert at == len(block)
    return head, columns


@pytest.mark.parametrize("name", ["good", "bad", "moved", "tale"])
def test_the_page_needs_nothing_else(name: str, request: pytest.FixtureRequest) -> None:
    page = _page(request.getfixturevalue(name).report())
    assert not re.search(r"https?:|//[a-z]", re.sub(r"<script[^>]*id=.data.*?</script>", "", page))
    elements = _Elements()
    elements.feed(page)
    assert not {tag for tag, _ in elements.found} & {"link", "img", "iframe", "object", "form"}
    for _, attributes in elements.found:
        assert not {"src", "style", "onclick", "onload"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")


def test_the_policy_allows_the_one_script_and_style_only(good: Tale) -> None:
    page = _page(good.report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    style, script = (
        re.search(r"<style>(.*?)</style>", page, re.DOTALL),
        page.rpartition("<script>")[2],
    )
    assert policy
    assert style
    assert policy[1].startswith("default-src 'none'; ")
    for text in (style[1], script.partition("</script>")[0]):
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "unsafe" not in policy[1]


def test_what_tasks_said_is_text(bad: Tale) -> None:
    page = _page(bad.report())
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; ]]&gt;" in page
    elements = _Elements()
    elements.feed(page)
    assert [tag for tag, _ in elements.found].count("script") == 2


def test_names_that_hide_or_break_out_are_harmless(tale: Tale) -> None:
    name = 'h"><svg>/x\x1b\u202e</script><b>'
    tale.state(name, "down")
    tale.start(name)
    tale.end(name, message="m")
    tale.over("failed", 1, unreachable={'x"><i>': "\x00</style>"})
    page = _page(tale.report())
    assert name not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "\\x1b\\x202e" in page
    elements = _Elements()
    elements.feed(page)
    assert "i" not in {tag for tag, _ in elements.found}
    head, _ = _unpacked(page)
    assert head["names"] == ["x\x1b\u202e</script><b>"]


def test_without_scripting_all_but_the_timeline_is_there(bad: Tale) -> None:
    facts = RunFacts(command="apply", user="ann", host="adm", started=1e9, ended=1e9 + 2)
    page = _page(bad.report(facts))
    text = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    for told in (
        "db/db",
        "no route",
        "web/app is down \u2190 db/db",
        "ann@adm",
        "<noscript>",
        "Critical path",
        "3 hosts, a line each",
    ):
        assert told in text


def test_the_columns_tell_the_run(good: Tale) -> None:
    head, columns = _unpacked(_page(good.report()))
    assert head["hosts"] == ["db", "web"]
    assert head["names"] == ["db", "app", "cfg"]
    assert columns["cob.host+"] == [0, 1, 0]
    assert columns["step.cob+"] == [0, 1, 1]
    assert columns["step.start"] == [0, 4000, 0]
    assert columns["step.took"] == [3000, 2000, 1000]
    assert columns["step.ready"] == [0, 1000, 0]
    assert columns["step.critical"] == [1, 1, 0]
    assert columns["wait.holder+"] == [1]
    assert columns["wait.on"] == [-1]
    assert columns["wait.took"] == [3000]


def test_marks_and_causes_are_told(bad: Tale) -> None:
    head, columns = _unpacked(_page(bad.report()))
    names = ["db/db", "old/disk", "web/app", "web/cfg"]
    assert dict(zip(names, columns["cob.mark"], strict=True)) == {
        "db/db": 1,
        "old/disk": 2,
        "web/app": 3,
        "web/cfg": 3,
    }
    assert head["failures"] == {"db/db": 0}
    cause = head["causes"][columns["cob.cause"][2]]
    assert cause.startswith("db/db failed in this run")


def test_the_page_tells_when_hosts_switched(moved: Tale) -> None:
    page = _page(moved.report())
    head, _ = _unpacked(page)
    assert head["hosts"] == ["db", "web"]
    assert head["switches"] == [[0, 3, [0]], [2000, 3, [1]]]
    assert "<td>db, idle</td>" in page


def test_too_many_waits_lose_the_shortest_and_it_is_said(
    tale: Tale, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_module, "MOST_WAITS", 2)
    for number in range(4):
        tale.lock("request", "h/x", f"h/{number}")
        tale.at(tale.now + 1)
    for number in range(4):
        tale.lock("grant", "h/x", f"h/{number}")
    tale.over()
    page = _page(tale.report())
    assert len(_unpacked(page)[1]["wait.on"]) == 2
    assert "the 2 longest of 4 lock waits; none that is left out took more than 3000 ms" in page


def test_more_failures_than_are_told_are_counted(tale: Tale) -> None:
    for number in range(MOST_FAILURES + 3):
        tale.start(f"h/{number}")
        tale.end(f"h/{number}", message="m")
    tale.over("failed", 1)
    page = _page(tale.report())
    assert page.count('<details id="failure-') == MOST_FAILURES
    assert "... and 3 more failures" in page


# --- the graph


def test_the_graph_shows_objects_or_folds_names(tale: Tale) -> None:
    for number in range(MOST_BOXES + 1):
        tale.lock("request", f"h{number}/db", f"h{number}/app")
    drawing = draw(tale.report())
    assert drawing.svg.count("<rect") == 2
    assert f"{MOST_BOXES + 1} unknown" in drawing.svg


def test_of_too_many_names_those_with_most_locks_are_drawn(tale: Tale) -> None:
    for number in range(MOST_BOXES + 5):
        tale.lock("request", "h/db", f"h/app{number}")
    drawing = draw(tale.report())
    assert drawing.svg.count("<rect") == MOST_BOXES
    assert "6 names with fewer locks are left out" in drawing.caption


def test_layers_put_the_needed_first_and_end_for_circles() -> None:
    assert layers(["a", "b", "c"], {("a", "b"): 1, ("b", "c"): 1}) == {"c": 0, "b": 1, "a": 2}
    circle = layers(["a", "b"], {("a", "b"): 1, ("b", "a"): 1, ("a", "a"): 1})
    assert sorted(circle.values()) == [0, 1]


# --- a real browser


@pytest.fixture(scope="module")
def browser() -> str:
    """Return the path of Chromium; where there is none tests are skipped, in CI fail."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        lack("needs Chromium: apt-get install chromium")
    return found


@pytest.mark.gate("a real browser")
@pytest.mark.parametrize("name", ["good", "bad", "moved"])
def test_a_browser_shows_the_timeline_without_an_error(
    name: str, request: pytest.FixtureRequest, browser: str, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(
        _page(request.getfixturevalue(name).report()), encoding="utf-8"
    )
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")
    done = subprocess.run(
        [
            browser,
            *flags,
            f"--user-data-dir={tmp_path}/profile",
            "--virtual-time-budget=5000",
            "--window-size=1280,900",
            "--dump-dom",
            f"file://{tmp_path}/page.html",
        ],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert "CONSOLE" not in done.stderr
    assert 'data-ready="yes"' in done.stdout
    assert 'id="row-h0"' in done.stdout
    assert 'role="row"' in done.stdout
