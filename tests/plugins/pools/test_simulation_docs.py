"""The page on simulations names what there is, and its traces are traces."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cobweb.cli import main
from cobweb_plugins.pools.decision import Priority, decide
from cobweb_plugins.pools.simulation import Threshold, simulate, trace_of

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "pool-simulation.md").read_text(encoding="utf-8")
DAY = ROOT / "inventories" / "pools" / "day.yml"
SCHEMA: dict[str, Any] = json.loads(
    (ROOT / "schemas" / "pool-trace.schema.json").read_text(encoding="utf-8")
)
OWN = ("workload", "record", "stream")
"""Parts of the schema that are of traces alone; those of pools are on the page on pools."""


@pytest.fixture(scope="module")
def example() -> str:
    """Return the trace of the page."""
    found = re.search(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_example_has_every_key_of_a_trace(example: str) -> None:
    keys = set(SCHEMA["properties"])
    for part in OWN:
        keys |= set(SCHEMA["$defs"][part]["properties"])
    assert {key for key in keys if not re.search(rf"\b{key}:", example)} == set()


def test_the_example_runs_and_prints_the_rows_of_the_page(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "day.yml").write_text(example, encoding="utf-8")
    assert main(["pool", "simulate", str(tmp_path / "day.yml"), "--baseline", "threshold"]) == 0
    printed = capsys.readouterr().out.splitlines()[1:]
    rows = {re.split(r"  +", line)[0].partition(": ")[2] for line in printed} - {""}
    rows |= {"moves", "swings", "promises broken"}
    assert {row for row in rows if f"`{row}`" not in PAGE} == set()


def test_the_page_knows_the_thresholds() -> None:
    it = Threshold()
    text = " ".join(PAGE.split())
    for told in (
        f"more than {it.grow_above:g} waiting jobs per member for {it.grow_for_s:g} s",
        f"idle for {it.shrink_for_s / 60:g} minutes",
        f"every {it.cooldown_s / 60:g} minutes",
    ):
        assert told in text
    assert (it.shrink_above, it.step) == (0.1, 0.2)  # a tenth, a fifth


def test_the_day_is_a_trace_whose_first_minutes_break_no_promise() -> None:
    data = yaml.safe_load(DAY.read_text(encoding="utf-8"))
    data["starts"] = "2026-03-02T00:00Z"  # YAML 1.1 has made a time of it
    Draft202012Validator(SCHEMA).validate(data)
    result = simulate(trace_of({**data, "until": "12m"}), decide, Priority())
    assert result.violations == {"R1": 0, "R3": 0, "R4": 0}
    assert sum(it.jobs for it in result.services.values()) > 1000
