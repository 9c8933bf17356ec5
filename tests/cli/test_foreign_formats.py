"""What another Cobweb has stored is refused by every command, and nothing in it is changed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.full("each command on a foreign database; store/test_formats.py is in the gate")
]

Run = Callable[..., Any]

SIMULATED = ("--yes", "--executor", "simulate")
READING = (
    ("status",),
    ("why", "beta/b"),
    ("runs",),
    ("report",),
    ("generations",),
    ("diff", "1"),
    ("plan",),
    ("lock", "show"),
)
WRITING = (
    ("apply", *SIMULATED),
    ("rollback", "1", *SIMULATED),
    ("drift", "--executor", "simulate"),
    ("gc",),
    ("forget", "gone/a", "--yes"),
    ("lock", "hold", "--for", "1m"),
)
OF_A_GENERATION = (
    ("plan",),
    ("diff", "1"),
    ("plan", "--generation", "1"),
    ("rollback", "1", *SIMULATED),
    ("apply", *SIMULATED),
)
HINTS: Mapping[str, str] = {
    "4": "move the state database away, and `cobweb apply --adopt all` makes a new one",
    "6": "use the Cobweb that wrote it, or a newer one",
}


@pytest.fixture
def applied(run: Run, site: Path) -> Path:
    """Make a site that was applied."""
    assert run("-C", site, "apply", *SIMULATED).code == 0
    return site


def change(site: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(site / ".cobweb/state.db")) as database, database:
        database.execute(statement, values)


def known_generations(site: Path) -> list[Any]:
    with closing(sqlite3.connect(site / ".cobweb/state.db")) as database:
        return database.execute("SELECT * FROM cobweb_generations").fetchall()


@pytest.mark.parametrize("command", [*READING, *WRITING], ids="-".join)
@pytest.mark.parametrize("found", HINTS)
def test_no_command_changes_a_database_of_another_format(
    run: Run, applied: Path, found: str, command: tuple[str, ...]
) -> None:
    change(applied, "UPDATE cobweb_meta SET value = ? WHERE key = 'format'", found)
    file = applied / ".cobweb/state.db"
    before = file.read_bytes()
    ran = run("-C", applied, *command)
    assert (ran.code, ran.out) == (1, "")
    assert f"{file} has format {found}, and this Cobweb knows format 7" in ran.err
    assert HINTS[found] in ran.err
    assert file.read_bytes() == before


@pytest.mark.gate("the chief commands")
@pytest.mark.parametrize("command", OF_A_GENERATION, ids="-".join)
@pytest.mark.parametrize(("found", "hint"), [(3, HINTS["4"]), (5, HINTS["6"])])
def test_a_generation_of_another_format_is_not_gone_by(
    run: Run, applied: Path, found: int, hint: str, command: tuple[str, ...]
) -> None:
    ((content,),) = [(row[6],) for row in known_generations(applied)]
    text = json.dumps({**json.loads(zlib.decompress(content)), "format": found}).encode()
    change(
        applied,
        "UPDATE cobweb_generations SET content = ?, digest = ?",
        zlib.compress(text),
        hashlib.sha256(text).hexdigest(),
    )
    file = applied / "site.yml"
    file.write_text(file.read_text(encoding="utf-8").replace("port: 8080", "port: 9"), "utf-8")
    before = known_generations(applied)
    ran = run("-C", applied, *command)
    assert (ran.code, ran.out) == (1, "")
    assert f"the content of the generation has format {found}, and this Cobweb knows" in ran.err
    assert hint in ran.err
    assert known_generations(applied) == before
