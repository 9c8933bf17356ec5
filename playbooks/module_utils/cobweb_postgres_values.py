# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of PostgreSQL's parameters: as a spec says them, as SQL writes them, as they compare.

`read` turns what a person writes ("256MB", on, 1.5) into what can be compared with what a server
says it has (32768 of 8kB), by the row of `pg_settings` of the parameter.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Union

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_postgres import literal

Value = Union[float, str]

SIZES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
TIMES = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
NUMBER = re.compile(r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*)")
UNIT = re.compile(r"([0-9]*)([A-Za-z]+)")
# The parameters whose parts PostgreSQL quotes one by one; a list in one text would be one part.
LISTS = frozenset(
    [
        *("local_preload_libraries", "session_preload_libraries", "shared_preload_libraries"),
        *("search_path", "temp_tablespaces", "unix_socket_directories"),
    ]
)
WORDS = {"on": "on", "true": "on", "yes": "on", "1": "on"}
WORDS.update({"off": "off", "false": "off", "no": "off", "0": "off"})


def text(name: str, value: Any) -> str:
    """Return a value of a parameter as `ALTER SYSTEM SET x = ` takes it; a list stays a list."""
    if isinstance(value, str) and name in LISTS:
        value = [part.strip().strip('"') for part in value.split(",")]
    items = value if isinstance(value, list) else [value]
    return ", ".join(literal(_plain(item)) for item in items)


def read(value: Any, setting: Dict[str, Any]) -> Value:
    """Return a value as it compares with others of the same parameter."""
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    plain = _plain(value)
    kind = setting["vartype"]
    if kind in ("integer", "real"):
        number = _number(plain, setting["unit"])
        return float(round(number)) if kind == "integer" else number
    if kind == "bool":
        return WORDS.get(plain.lower(), plain.lower())
    return plain.lower() if kind == "enum" else _list(plain)


def read_in_force(setting: Dict[str, Any]) -> Value:
    """Return the value that a row of `pg_settings` says, in the unit of that row."""
    if setting["vartype"] in ("integer", "real"):
        return float(setting["setting"])
    return read(setting["setting"], setting)


def told(value: Value) -> str:
    """Return a value as a message tells it, in the unit that the server counts in."""
    return f"{value:.15g}" if isinstance(value, float) else value


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _list(plain: str) -> str:
    """Return a text, if it is a list with its parts separated alike and without their quotes."""
    if "," not in plain and '"' not in plain:
        return plain
    parts: List[str] = [part.strip().strip('"') for part in plain.split(",")]
    return ", ".join(parts)


def _number(plain: str, unit: Any) -> float:
    """Return a number in the unit that the server counts in; hexadecimal as it reads it."""
    if plain.lower().startswith("0x"):
        return float(int(plain, 16))
    found = NUMBER.fullmatch(plain.strip())
    if found is None:
        raise Failed(f"{plain!r} is no number")
    number = float(found[1])
    if not found[2]:
        return number
    if not unit:
        raise Failed(f"{plain!r} has a unit, but the parameter has none")
    count, base = UNIT.fullmatch(str(unit)).groups()  # type: ignore[union-attr]
    scale = SIZES if base in SIZES else TIMES
    if found[2] not in scale:
        raise Failed(f"{plain!r} has no unit of this parameter (it takes {', '.join(scale)})")
    return number * scale[found[2]] / (int(count or 1) * scale[base])
