"""The whole command line on made-up input: a documented exit code, no traceback, in bounds.

`COBWEB_FUZZ_SECONDS` says for how long beyond the least number of attempts, `COBWEB_FUZZ_SEED` with
which seed it begins; a failure names the seed to begin with.
"""

from __future__ import annotations

import os
from pathlib import Path
from shutil import rmtree
from time import monotonic

import pytest
import yaml

from cobweb.cli import ExitCode, main
from tests.bounds._mutations import FILES, attempt
from tests.support.bounded import Outcome, bounded

SECONDS = float(os.environ.get("COBWEB_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("COBWEB_FUZZ_SEED", "1"))
LEAST = 40
"""So many attempts are made, however long they take."""

TEMPLATES = [
    row[0]
    for row in yaml.safe_load((Path(__file__).parent / "templates.yml").read_text(encoding="utf-8"))
]
CODES = {int(code) for code in ExitCode}


def warm(folder: Path) -> None:
    """Load what the commands need once, and see that the site is good before it is changed."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for command in (["validate"], ["plan"], ["simulate"]):
        assert main(["-C", str(folder), *command]) == ExitCode.DONE


def tried(seed: int, folder: Path) -> Outcome:
    """Run the command of a seed on its site."""
    made = attempt(seed, TEMPLATES)
    for name, data in made.files.items():
        (folder / name).write_bytes(data)
    command = [part.replace("SITE", str(folder)) for part in made.command]
    return bounded(lambda: main(["-C", str(folder), *command]))


@pytest.mark.gate("forty made-up command lines; make fuzz has more")
@pytest.mark.timeout(SECONDS + 900)
def test_made_up_input_never_ends_in_a_traceback(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    warm(good)
    end = monotonic() + SECONDS
    seed = SEED
    while seed < SEED + LEAST or monotonic() < end:
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcome = tried(seed, folder)
        told = f"COBWEB_FUZZ_SEED={seed} {attempt(seed, TEMPLATES).command}: {outcome}"
        assert outcome.end in CODES, told
        assert "Traceback" not in outcome.said, told
        assert "defect of cobweb" not in outcome.said, told
        rmtree(folder)
        seed += 1
