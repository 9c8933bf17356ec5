"""Values of the site as plain data for output: no secrets, no frozen mappings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cobweb.model import Cob, Need
    from cobweb.store import RunRecord

VAULTED = "(vaulted)"
"""What is shown in place of a secret."""

_MARKS = frozenset({"__ansible_vault", "__cobweb_secret"})


def shown(value: Any) -> Any:
    """Return a value as JSON data, secrets replaced; what is no JSON becomes a string."""
    if isinstance(value, Mapping):
        plain = {str(key): shown(item) for key, item in value.items()}
        return VAULTED if _MARKS & plain.keys() else plain
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    is_json = isinstance(value, str | int | float | bool) or value is None
    return value if is_json else str(value)


def one_line(value: Any) -> str:
    """Return plain data on one line, as in JSON but strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def cob_data(cob: Cob, needs: Iterable[Need]) -> dict[str, Any]:
    """Return a COB and its needs as `cobweb show -o json` writes them."""
    return {
        "id": str(cob.id),
        "name": cob.name,
        "type": cob.type.name,
        "states": list(cob.type.states),
        "preferred": cob.preferred,
        "remove": cob.type.remove,
        "spec": shown(cob.spec),
        "needs": [need_data(need) for need in needs],
    }


def need_data(need: Need) -> dict[str, str]:
    """Return a need with the keys of section 7 of the design."""
    from cobweb.model import LockNeed

    if isinstance(need, LockNeed):
        within = {"in": need.within}
    else:
        within = {"from": need.source, "to": need.dest}
    return {"cob": str(need.cob), **within, "on": str(need.on), "state": need.state}


def need_data_text(need: Mapping[str, str]) -> str:
    """Return when a COB needs it and what, of plain data: `down -> up: db/db up`."""
    when = f"in {need['in']}" if "in" in need else f"{need['from']} -> {need['to']}"
    return f"{when}: {need['on']} {need['state']}"


def run_data(record: RunRecord, *, goes_on: bool) -> dict[str, Any]:
    """Return a run as `cobweb runs -o json` writes it."""
    info = record.info
    return {
        "id": info.id,
        "command": info.command,
        "user": info.user,
        "host": info.host,
        "pid": info.pid,
        "started": info.started,
        "ended": record.ended,
        "goes_on": goes_on,
        "generation": info.generation,
        "result": record.result,
        "exit_code": record.exit_code,
        "counts": dict(record.counts),
    }
