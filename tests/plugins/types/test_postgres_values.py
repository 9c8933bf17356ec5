"""How values of PostgreSQL parameters compare, and how SQL writes them; tests/types has servers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _setting(vartype: str, setting: str, unit: str | None = None) -> dict[str, Any]:
    return {"vartype": vartype, "setting": setting, "unit": unit}


BUFFERS = _setting("integer", "32768", "8kB")
SEGMENT = _setting("integer", "64", "16MB")
TIMEOUT = _setting("integer", "90000", "ms")
DELAY = _setting("real", "0.5", "ms")
COUNT = _setting("integer", "100")
SWITCH = _setting("bool", "on")
LEVEL = _setting("enum", "replica")
PREFIX = _setting("string", "%m [%p] ")
LIBRARIES = _setting("string", 'auto_explain, "My Lib"')

SAME = {
    "memory": (BUFFERS, "256MB"),
    "memory in the server's own unit": (BUFFERS, 32768),
    "memory in bytes": (BUFFERS, "268435456B"),
    "a unit with a count": (SEGMENT, "1GB"),
    "time": (TIMEOUT, "1.5min"),
    "a fraction": (DELAY, "500us"),
    "a number": (COUNT, 100),
    "a number as text": (COUNT, " 100 "),
    "a hexadecimal number": (COUNT, "0x64"),
    "an exponent": (COUNT, "1e2"),
    "true": (SWITCH, True),
    "yes": (SWITCH, "YES"),
    "a word": (LEVEL, "Replica"),
    "a text with blanks": (PREFIX, "%m [%p] "),
    "a list": (LIBRARIES, ["auto_explain", "My Lib"]),
    "a list as text": (LIBRARIES, "auto_explain,My Lib"),
}


@pytest.mark.parametrize(("setting", "value"), SAME.values(), ids=SAME)
def test_what_a_person_writes_is_what_the_server_says(
    postgres_values: ModuleType, setting: dict[str, Any], value: Any
) -> None:
    assert postgres_values.read(value, setting) == postgres_values.read_in_force(setting)


OTHER = {
    "memory": (BUFFERS, "256kB"),
    "time": (TIMEOUT, "90ms"),
    "false": (SWITCH, False),
    "a word": (LEVEL, "logical"),
    "a text without its last blank": (PREFIX, "%m [%p]"),
    "a list": (LIBRARIES, ["auto_explain"]),
}


@pytest.mark.parametrize(("setting", "value"), OTHER.values(), ids=OTHER)
def test_other_values_differ(
    postgres_values: ModuleType, setting: dict[str, Any], value: Any
) -> None:
    assert postgres_values.read(value, setting) != postgres_values.read_in_force(setting)


REFUSED = {
    "a word": (COUNT, "many", "'many' is no number"),
    "a unit where there is none": (COUNT, "5MB", "the parameter has none"),
    "a unit of another kind": (TIMEOUT, "5MB", "it takes us, ms, s, min, h, d"),
    "a unit in wrong letters": (BUFFERS, "5mb", "it takes B, kB, MB, GB, TB"),
}


@pytest.mark.parametrize(("setting", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_value_is_refused(
    postgres_values: ModuleType, setting: dict[str, Any], value: Any, message: str
) -> None:
    with pytest.raises(Exception, match=r"is no number|has a unit|has no unit") as refused:
        postgres_values.read(value, setting)
    assert message in str(refused.value)


WRITTEN = {
    "a number": ("max_connections", 100, "'100'"),
    "a switch": ("fsync", False, "'off'"),
    "a quote": ("cluster_name", "it's", "'it''s'"),
    "a backslash": ("archive_command", "a\\b", " E'a\\\\b'"),
    "a statement": ("cluster_name", "'; DROP TABLE t; --", "'''; DROP TABLE t; --'"),
    "a list": ("search_path", ["$user", "public"], "'$user', 'public'"),
    "a list as text": ("shared_preload_libraries", 'a, "b c"', "'a', 'b c'"),
    "a comma that is no list": ("log_line_prefix", "%m, %p", "'%m, %p'"),
}


@pytest.mark.parametrize(("name", "value", "text"), WRITTEN.values(), ids=WRITTEN)
def test_sql_gets_it_quoted(postgres_values: ModuleType, name: str, value: Any, text: str) -> None:
    assert postgres_values.text(name, value) == text


def test_a_message_tells_whole_numbers_as_such(postgres_values: ModuleType) -> None:
    told = [postgres_values.told(value) for value in (100.0, 2.5, 1073741823.0, "on")]
    assert told == ["100", "2.5", "1073741823", "on"]


def test_a_link_in_the_way_of_the_earlier_file_is_not_followed(
    postgres_module: ModuleType, tmp_path: Path
) -> None:
    """The folder is the server's: root would give away and overwrite any file of the host."""
    other, file = tmp_path / "shadow", tmp_path / "data" / "postgresql.auto.conf"
    file.parent.mkdir()
    other.write_text("root's own")
    file.write_text("new")
    file.chmod(0o600)
    (file.parent / f".{file.name}.cobweb").symlink_to(other)
    postgres_module._write_back(file, b"earlier")
    assert (file.read_text(), other.read_text()) == ("earlier", "root's own")
    assert [it.name for it in file.parent.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
