"""What a service watches changes with the objects of the site that write it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import cob_id
from cobweb.plugin import load_plugins
from cobweb.site import load_site

TYPES = load_plugins().types
SITE = """
cobweb: 1
name: watches
inventory: {{all: {{hosts: {{a: , b: }}}}}}
cobs:
  config:
    type: file
    on: a
    spec: {{path: {path}, content: "{text}"}}
  other: {{type: file, on: all, spec: {{path: /etc/app/other, content: "{other}"}}}}
  app:
    type: service
    on: all
    spec: {{unit: app, watch: [/etc/app, /etc/passwd]}}
    after: ["config@a", {after}]
"""

Words = Callable[..., dict[str, str]]


@pytest.fixture
def words(tmp_path: Path) -> Words:
    """Return what gives the words of a host's service for a site."""

    def find(host: str = "a", limit: str | None = None, **change: str) -> dict[str, str]:
        given = {"path": "/etc/app/a", "text": "x", "other": "y", "after": "other@b"}
        (tmp_path / "site.yml").write_text(SITE.format(**{**given, **change}))
        graph = load_site(tmp_path, types=TYPES).graph(limit)
        found: dict[str, Any] = dict(graph.cobs[cob_id(host, "app")].spec)
        return dict(found["watch"])

    return find


def test_a_watched_file_is_known_by_its_spec(words: Words) -> None:
    before, after = words(), words(text="z")
    assert before["/etc/app"] != after["/etc/app"] != ""
    assert before["/etc/passwd"] == after["/etc/passwd"] == ""
    assert before == words() == words(limit="a")


@pytest.mark.parametrize(
    ("path", "meets"),
    [
        ("/etc/app", True),
        ("/etc", True),
        ("/etc/app/x/y", True),
        ("/etc/app2", False),
        ("/srv", False),
    ],
)
def test_what_is_at_in_or_around_the_path_counts(words: Words, path: str, *, meets: bool) -> None:
    assert bool(words(path=path)["/etc/app"]) is meets


def test_without_a_need_on_the_same_host_it_does_not(words: Words) -> None:
    assert words("b")["/etc/app"] != ""  # other
    assert words("b", text="z") == words("b")
    assert words("a") == words("a", other="z")


def test_a_site_may_say_the_words_itself(tmp_path: Path) -> None:
    text = SITE.format(path="/x", text="", other="", after="other@b")
    text = text.replace("[/etc/app, /etc/passwd]", "{/etc/app: one}")
    (tmp_path / "site.yml").write_text(text)
    graph = load_site(tmp_path, types=TYPES).graph()
    assert graph.cobs[cob_id("a", "app")].spec["watch"] == {"/etc/app": "one"}
