"""`cobweb pool simulate`: a table, JSON of its schema, a chart; bad traces are told with places."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import click
import pytest
from jsonschema import Draft202012Validator

from cobweb._resources import data_dir
from cobweb.cli import main
from cobweb.plugin import Plugins, load_plugins
from cobweb_plugins.pools._chart import MOST_POINTS
from cobweb_plugins.pools._commands import BASELINE_NAMES, pool
from cobweb_plugins.pools.simulation import BASELINES

SCHEMAS = data_dir("schemas")
REAL = load_plugins()
SVG = "{http://www.w3.org/2000/svg}"

TRACE = """\
until: 2h
pools:
  resources:
    "n[1:8]": {properties: {cores: 8}}
  services:
    web: {adapter: web, min: 1, slos: [{kind: pending, above: 2, urgency: 50}]}
    batch:
      adapter: slurm
      slos:
        - {kind: pending, above: 2, for: 1m, need: {urgency: 40, quantity: 2}}
    "a & <b>": {adapter: spare, slos: [{kind: permanent, urgency: 1}]}
owners: {"n[1:3]": web, "n[4:6]": batch}
services:
  web: {load: [{lasts: 4m, rates: [{at: 0h, per_hour: 30}, {at: 1h, per_hour: 90}]}]}
  batch: {load: [{lasts: 9m, rates: [{at: 0h, per_hour: 40}, {at: 1h, per_hour: 5}]}]}
"""
LATER = 'until: 1d\nstarts: "2026-03-02T00:00+01:00"\n'

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs the command on a trace, where there is no site: code, output, messages."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*words: str, trace: str = TRACE) -> tuple[int, str, str]:
        Path("t.yml").write_text(trace, encoding="utf-8")
        code = main(["pool", "simulate", "t.yml", *words])
        return code, *capsys.readouterr()

    return call


def test_policies_stand_side_by_side(run: Run) -> None:
    words = ["--policy", "share", "--policy", "priority", "--baseline", "threshold"]
    code, out, err = run(*words, "--baseline", "fixed", "--policy", "share")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].split() == ["MEASURE", "share", "priority", "threshold", "fixed"]
    assert max(map(len, lines)) <= 80
    rows = {line[:30].strip(): line[30:].split() for line in lines[1:]}
    assert rows["moves"][3] == "0"
    assert rows["promises broken"] == ["0"] * 4
    assert "8 resources, 2 hours of virtual time" in err
    assert "priority noted: " in err


def test_the_policy_of_the_trace_is_the_default(run: Run) -> None:
    text = TRACE.replace("pools:\n", "pools:\n  policy: share\n", 1)
    assert run(trace=text)[1].splitlines()[0].split() == ["MEASURE", "share"]


def test_the_same_trace_gives_the_same_bytes(run: Run) -> None:
    words = ["--baseline", "threshold", "-o", "json", "--chart", "a.svg"]
    first = run(*words), Path("a.svg").read_bytes()
    assert first == (run(*words), Path("a.svg").read_bytes())


def test_its_json_keeps_its_schema(run: Run) -> None:
    code, out, _ = run("-o", "json", "--baseline", "fixed")
    assert code == 0
    data = json.loads(out)
    schema = json.loads((SCHEMAS / "pool-simulation.schema.json").read_text())
    Draft202012Validator(schema).validate(data)
    assert [(it["name"], it["baseline"]) for it in data["runs"]] == [
        ("priority", False),
        ("fixed", True),
    ]
    assert data["runs"][1]["services"]["web"]["jobs"] == 119


def test_baselines_are_those_that_there_are() -> None:
    assert set(BASELINE_NAMES) == set(BASELINES)


def test_a_chart_is_well_formed_and_says_what_it_shows(run: Run) -> None:
    trace = TRACE.replace("until: 2h\n", LATER)
    code, _, err = run("--baseline", "fixed", "--chart", "day.svg", trace=trace)
    assert (code, "wrote day.svg" in err) == (0, True)
    root = ET.parse("day.svg").getroot()  # noqa: S314  # we have just written it
    assert root.tag == f"{SVG}svg"
    texts = ["".join(it.itertext()) for it in root.iter(f"{SVG}text")]
    assert {"web", "batch", "a & <b>", "24 h", "waiting work"} <= set(texts)
    assert [it for it in texts if "members of services" in it] == [
        "prioritymembers of services; the rest is on its way, or nobody's",
        "fixedmembers of services; the rest is on its way, or nobody's",
    ]
    assert root.find(f"{SVG}title") is not None
    assert "8 resources" in (root.findtext(f"{SVG}desc") or "")
    paths = [it.get("d", "") for it in root.iter(f"{SVG}path")]
    assert len(paths) == 2 * 3 + 4  # and both services waited, under both
    assert max(len(re.findall("L", it)) for it in paths) <= 4 * MOST_POINTS
    assert not any(word in it for it in paths for word in ("nan", "inf"))


def test_a_chart_that_cannot_be_written_is_told(run: Run) -> None:
    name = "x" * 300
    code, _, err = run("--chart", name)
    assert (code, f"cannot write {name}" in err) == (1, True)


@pytest.mark.parametrize(
    ("chart", "told"),
    [
        ("no/such.svg", "there is no folder no"),
        ("t.yml", "--chart would overwrite t.yml"),
        ("./sub/../t.yml", "--chart would overwrite t.yml"),
    ],
)
def test_a_chart_that_must_not_be_there_is_refused_before_anything_runs(
    run: Run, chart: str, told: str
) -> None:
    Path("sub").mkdir()
    code, out, err = run("--chart", chart)
    assert (code, out, told in err) == (64, "", True), err
    assert Path("t.yml").read_text(encoding="utf-8") == TRACE


def test_why_services_got_nothing_is_told(run: Run) -> None:
    trace = TRACE.replace(
        "    web: {adapter: web, min: 1,", "    web: {adapter: web, min: 1, max: 3,"
    )
    code, _, err = run(trace=trace)
    assert code == 0
    assert re.search(
        r"^  web, \d+ times unmet, at last: pending-1 wants 1 more: web has its `max`, 3$",
        err,
        re.MULTILINE,
    )
    code, out, _ = run("-o", "json", trace=trace)
    (reason,) = [it for it in json.loads(out)["runs"][0]["reasons"] if it["service"] == "web"]
    assert (reason["kind"], reason["count"] > 1) == ("unmet", True)


@pytest.mark.usefixtures("run")
def test_what_is_no_file_is_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pool", "simulate", "/dev/null"]) == 64
    assert "/dev/null is no file" in capsys.readouterr().err


BAD = [
    ("until: 2h", "untli: 2h", "t.yml:1:1: unknown key `untli` in the trace (did you mean `until`"),
    ("until: 2h", "until: soon", "t.yml:1:8: `soon` is no duration; write 90, 90s, 10m, 1h30m"),
    ("until: 2h", "until: 0s", "there are no rounds, or over 1,000,000"),
    (
        "{load: [{lasts: 9m, rates: [{at: 0h, per_hour: 40}, {at: 1h, per_hour: 5}]}]}",
        "{kpis: [{at: 0, pending: 1, members: {n9: {idle: true}}}]}",
        "t.yml:15:47: `pools` has no resource n9",
    ),
    ("  web: {load", '  "a & <b>": {load', "a spare pool runs no jobs"),
    ("lasts: 9m", 'lasts: 9m, needs: "cores >= 99"', "can use fits `cores >= 99` (its jobs would"),
    ("  batch: {load", "  batch: {holds: [disk], load", "t.yml:15:18: no resource is a disk"),
    ("until: 2h", "until: 2h\nstarts: noon", "t.yml:2:9: `noon` is no time"),
    ("min: 1", "min: many", "t.yml:6:30: `pools.services.web.min` must be a whole number"),
    ("min: 1", "min: 9", "the minimums of the services are 9, and there are 8 hosts"),
    ("kind: pending, above: 2, urgency", "kind: minimum, above: 2, urgency", "unknown key `above`"),
    ("kind: pending, above: 2, urgency", "kind: pending, urgency", "lacks `above`"),
    ("kind: permanent, urgency: 1", "kind: permanent", "lacks `urgency`"),
    (
        "kind: permanent",
        "kind: endless",
        "t.yml:11:47: `pools.services.a & <b>.slos.0.kind` cannot",
    ),
    ("quantity: 2", "filter: cores >", "t.yml:10:74: the filter `cores >` cannot be read"),
    ("quantity: 2", 'filter: "cores > 8"', "no resource that `batch` can use fits `cores > 8`"),
    ('"n[4:6]": batch', '"n[4:6]": bath', "t.yml:12:35: `pools` has no service `bath` (known are"),
    ('"n[4:6]": batch', '"x[4:6]": batch', "`pools` has no resource x4"),
    ('"n[4:6]": batch', '"n[3:6]": batch', "t.yml:12:35: n3 is in `n[1:3]` and in `n[3:6]`"),
    ("  web: {load", "  wbe: {load", "t.yml:14:8: `pools` has no service `wbe`"),
    ("{load: [{lasts: 9m", "{kpis: [], load: [{lasts: 9m", "has `kpis` and `load`"),
    ("lasts: 9m", 'lasts: 9m, needs: "cores >= x("', "the filter `cores >= x(` cannot be read"),
    ("{at: 1h, per_hour: 5}", "{at: 1h, per_hour: 5}, {at: 2m, per_hour: 5}", "is earlier than"),
    ("per_hour: 40", "per_hour: -1", "`services.batch.load.0.rates.0.per_hour`"),
    ("until: 2h", "until: 360d\nevery: 1s", "there are no rounds, or over 1,000,000"),
    (
        "pools:\n",
        "pools:\n  policy: chance\n",
        "t.yml:3:11: there is no policy `chance` (known are",
    ),
    (TRACE, "", "t.yml"),
    ("urgency: 40", f"urgency: {10**400}", "need.urgency` must be a number"),
    ("{load: [{lasts: 9m", "{kpis: [{at: 0, pending: nan}], x: [{lasts: 9m", "cannot be `nan`"),
    ("until: 2h", "until: 2h\nstarts: 9999-12-31", "`9999-12-31` is not from 1970 to 2200"),
    (
        "{load: [{lasts: 9m, rates: [{at: 0h, per_hour: 40}, {at: 1h, per_hour: 5}]}]}",
        f"{{kpis: [{{at: 0, pending: {10**400}}}]}}",
        "`services.batch.kpis.0.pending` cannot be",
    ),
    (TRACE, "- 1", "t.yml:1:1: "),
    (TRACE, "until: [", "t.yml:2:1: this is not YAML"),
]


@pytest.mark.parametrize(("old", "new", "told"), BAD, ids=[it[2] for it in BAD])
def test_a_bad_trace_is_told_with_its_place(run: Run, old: str, new: str, told: str) -> None:
    assert old in TRACE
    code, out, err = run(trace=TRACE.replace(old, new, 1))
    assert (code, out) == (3, "")
    assert told in err, err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policy", "chance"], "there is no policy `chance` (known are priority, share)"),
        (["--baseline", "chance"], "'chance' is not one of 'fixed', 'threshold'"),
    ],
)
def test_what_is_not_there_is_a_mistake_of_usage(run: Run, words: list[str], told: str) -> None:
    code, _, err = run(*words)
    assert (code, told in err) == (64, True), err


@pytest.mark.usefixtures("run")
def test_the_examples_of_the_help_run() -> None:
    Path("day.yml").write_text(TRACE, encoding="utf-8")
    context = click.Context(pool)
    command = pool.get_command(context, "simulate")
    assert command is not None
    found = re.findall(
        r"^ +cobweb (pool simulate .*)$", f"{pool.epilog}\n{command.epilog}", re.MULTILINE
    )
    assert [main(it.split()) for it in found] == [0] * 5


def test_a_trace_that_does_not_exist_is_a_mistake_of_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["pool", "simulate", "nothing.yml"]) == 64
    assert "nothing.yml" in capsys.readouterr().err


class _Flat:
    """A policy of a third party."""

    point: ClassVar[str] = "pool_policy"
    name: ClassVar[str] = "flat"
    says: ClassVar[float] = 1.0

    def weight(self, standing: object, urgency: float, index: int) -> float:
        del standing, index
        return self.says * (urgency > 0)


def _with(policy: type) -> Plugins:
    return replace(REAL, extensions={**REAL.extensions, "pool_policy/flat": policy})


def test_a_policy_of_a_plugin_is_known(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cobweb.plugin.load_plugins", lambda **_options: _with(_Flat))
    code, out, err = run("--policy", "flat")
    assert code == 0, err
    assert out.splitlines()[0].split() == ["MEASURE", "flat"]


def test_a_policy_that_breaks_is_the_mistake_of_its_plugin(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = type("Broken", (_Flat,), {"says": float("nan")})
    monkeypatch.setattr("cobweb.plugin.load_plugins", lambda **_options: _with(broken))
    code, _, err = run("--policy", "flat")
    assert code == 1
    assert "plugin flat: the policy flat returned the weight nan" in err
    assert "Traceback" not in err


def test_no_extension_lacks_a_plugin_that_asks_for_it() -> None:
    pools = next(it for it in REAL.loaded if it.name == "pools")
    assert pools.notes == ()
    assert {"pool_policy/priority", "pool_policy/share"} <= set(REAL.extensions)


def test_the_schema_of_the_section_tells_every_key() -> None:
    schema: dict[str, Any] = json.loads((SCHEMAS / "pool-trace.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    for name, part in [*schema["$defs"].items(), ("trace", schema)]:
        for key, value in part.get("properties", {}).items():
            assert value.get("description") or "$ref" in value, f"{name}.{key}"
