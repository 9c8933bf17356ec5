"""The chart of `cobweb pool history`: who had what when, from decisions alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cobweb.cli import main
from cobweb.model import Decision
from cobweb_plugins.pools._history import Span, load_of, picture_of, spans

SVG = "{http://www.w3.org/2000/svg}"
SITE = """\
cobweb: 1
name: pooled
inventory: {all: {hosts: {n1: , n2: , n10: }}}
pools:
  resources: {n1: {}, n2: {}, n10: {}}
  services: {"batch": {adapter: spare}, "hpc": {adapter: spare}}
"""


def decision(key: str, body: Mapping[str, Any] | None, at_s: float) -> Decision:
    """Return what was decided of a resource at a time; revisions grow with it."""
    return Decision(
        section="pools",
        key=key,
        body=body,
        revision=int(at_s),
        author="ann",
        reason="because",
        time=at_s,
    )


def body(service: str | None, phase: str = "in", **more: Any) -> dict[str, Any]:
    return {"service": service, "phase": phase, "since": 0.0, **more}


@pytest.mark.parametrize(
    ("decided", "found"),
    [
        (body("a"), ("a", "has")),
        (body("a", was=["b"]), ("a", "comes")),
        (body("a", "leaving", to="b"), ("a", "leaves")),
        (body("a", "failed"), ("a", "failed")),
        (body("a", "failed", was=["b"]), ("a", "failed")),
        (body(None, was=["a"]), ("a", "leaves")),
        (body(None, lost=True, was=["a"]), ("a", "failed")),
        (body("a", lost=True), ("a", "failed")),
        (body(None), None),
        (None, None),
    ],
)
def test_a_decision_says_whose_it_is_and_how(
    decided: Mapping[str, Any] | None, found: tuple[str, str] | None
) -> None:
    made = spans([decision("n1", decided, 1)], 9)
    assert [(it.service, it.kind) for it in made] == ([found] if found else [])


def test_a_span_goes_on_until_the_next_decision_on_its_resource() -> None:
    """Also where others are decided between, and where a clock was set back."""
    history = [
        decision("n1", body("a"), 10),
        decision("n2", body("b"), 15),
        decision("services/a", {"stopped": True}, 16),
        decision("n1", body("a", "leaving", to="b"), 20),
        decision("n1", None, 30),
    ]
    early = Decision(
        **{name: getattr(history[1], name) for name in history[1].__slots__}
        | {"revision": 40, "time": 5.0}
    )
    found = spans([early, *reversed(history)], 50)
    assert [(it.resource, it.start_s, it.end_s) for it in found] == [
        ("n1", 10, 20),
        ("n1", 20, 30),
        ("n2", 5, 50),
    ]


def shown(picture: str) -> tuple[list[str], list[ET.Element]]:
    """Return texts and spans of a picture."""
    root = ET.fromstring(picture)  # noqa: S314 - we have just made it
    texts = ["".join(it.itertext()) for it in root.iter(f"{SVG}text")]
    return texts, [it for it in root.iter(f"{SVG}rect") if "span" in it.get("class", "")]


def test_a_picture_has_a_row_for_each_resource_and_lines_of_what_waited() -> None:
    def span(resource: str, service: str, start_s: float, end_s: float) -> Span:
        return Span(
            resource=resource, service=service, kind="has", start_s=start_s, end_s=end_s, text="&"
        )

    found = [span("n10", "a", 0, 60), span("n2", "a<b", -30, 30), span("n2", "a", 30, 60)]
    load = {"a": [(10.0, 4.0), (20.0, 2.0)], "idle": [(10.0, 0.0)]}
    texts, rects = shown(picture_of(found, load, 0, 60))
    assert [it for it in texts if it.startswith("n")] == ["n2", "n10"]
    assert {"a", "a<b", "waiting work", "00:00:10", "4"} <= set(texts)
    # 784 wide for 60 s, from 120 on; what began before is cut there.
    assert [(it.get("x"), it.get("width")) for it in rects] == [
        ("120", "784"),
        ("120", "392"),
        ("512", "392"),
    ]
    assert "waiting work" not in shown(picture_of(found, {}, 0, 60))[0]


@pytest.mark.parametrize("seconds", [0.5, 1, 59, 61, 3600, 86_400, 40 * 86_400])
def test_an_axis_of_any_length_has_some_times(seconds: float) -> None:
    span = Span(resource="n1", service="a", kind="has", start_s=1e9, end_s=1e9 + 9, text="")
    texts, _ = shown(picture_of([span], {}, 1e9, 1e9 + seconds))
    assert 1 <= len([it for it in texts if ":" in it or "-" in it]) - 1 <= 9


@pytest.fixture
def ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Return what runs a command on a site of which things were decided."""
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("site.yml").write_text(SITE, encoding="utf-8")

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return main(list(words)), *capsys.readouterr()

    for key, service in (("n1", "batch"), ("n10", "hpc")):
        code, _, err = call("decide", "pools", key, json.dumps(body(service)), "--reason", "x")
        assert code == 0, err
    return call


def test_the_command_draws_a_history(ask: Callable[..., tuple[int, str, str]]) -> None:
    turns = [
        {
            "decider": "pools",
            "observations": {
                "answers": {
                    "batch": {"arrived": 1e9, "kpis": [{"name": "pending", "value": 3}]},
                    "hpc": {"said": "it is away"},
                }
            },
        },
        {"turn": "x", "outcome": {}},
        {"decider": "other", "observations": None},
    ]
    Path("turns").write_text("".join(f"{json.dumps(it)}\n" for it in turns), encoding="utf-8")
    assert load_of(Path("turns")) == {"batch": [(1e9, 3.0)]}
    code, out, err = ask("pool", "history", "--chart", "a.svg", "--record", "turns")
    assert (code, "n10" in out, "wrote a.svg" in err) == (0, True, True)
    texts, rects = shown(Path("a.svg").read_text(encoding="utf-8"))
    assert {"n1", "n10", "batch", "hpc"} <= set(texts)
    assert len(rects) == 2
    code, out, _ = ask("pool", "history", "n1", "--chart", "b.svg", "--since", "1m", "-o", "json")
    assert code == 0
    assert [it["key"] for it in json.loads(out)["sections"]["pools"]["history"]] == ["n1"]
    assert len(shown(Path("b.svg").read_text(encoding="utf-8"))[1]) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--since", "1h"), "--since and --record are for a chart"),
        (("--record", "site.yml"), "--since and --record are for a chart"),
        (("--chart", "a.svg", "--since", "soon"), "--since soon"),
        (("--chart", "a.svg", "--since", "0s"), "--since 0s"),
        (("--chart", "no/a.svg"), "--chart: there is no folder no"),
        (("--chart", "t", "--record", "t"), "--chart would overwrite t"),
        (("--chart", "a.svg", "--record", "no"), "cannot read no"),
        (("--chart", "a.svg", "--record", "site.yml"), "site.yml:1 is no turn of a decider"),
        (("--chart", "a.svg", "--record", sys.executable), ":1 is no turn of a decider"),
    ],
)
def test_what_cannot_be_drawn_is_told(
    ask: Callable[..., tuple[int, str, str]], words: tuple[str, ...], told: str
) -> None:
    code, _, err = ask("pool", "history", *words)
    assert (code, told in err) == (64, True), err
    assert not Path("a.svg").exists()
