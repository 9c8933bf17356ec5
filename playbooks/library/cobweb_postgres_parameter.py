# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `postgres-parameter`: a parameter of a server, in two steps.

A standby refuses to run with less than its primary has of the parameters in `ORDERED`. So a change
goes in two steps, and objects of one cluster wait for each other between them: `raise` brings a
value that is below the wanted one up to it (standbys first, then the primary), `settle` brings one
that is above down to it (the primary first, then each standby that has replayed the change), and
sets all others. Between the two an object is `raised`.

What servers say is believed, not the order of the calls: a primary is not raised above a standby
that it is told of (`standbys`), and a standby is not lowered below what its primary has, or before
it has replayed everything that the primary had written when it was asked.
"""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from ansible.module_utils import cobweb_postgres_values as values
from ansible.module_utils.cobweb_entry import Entry, put
from ansible.module_utils.cobweb_host import Action, Answer, Failed, file_name, run, state_dir
from ansible.module_utils.cobweb_postgres import (
    POLL_S,
    NoServer,
    Restart,
    Server,
    literal,
    server,
    tool,
)
from ansible.module_utils.cobweb_postgres_values import Value

VERSION = 1
REPLAY_WAIT_S = 60
RELOAD_WAIT_S = 10
CONTROL_LINES = {
    "max_connections": "max_connections setting",
    "max_worker_processes": "max_worker_processes setting",
    "max_wal_senders": "max_wal_senders setting",
    "max_prepared_transactions": "max_prepared_xacts setting",
    "max_locks_per_transaction": "max_locks_per_xact setting",
}
ORDERED = frozenset(CONTROL_LINES)
LOOK = """SELECT json_build_object(
  'standby', pg_is_in_recovery(),
  'data', current_setting('data_directory'),
  'version', current_setting('server_version_num')::int,
  'setting', (SELECT row_to_json(s) FROM (SELECT setting, unit, vartype, context, boot_val, source,
    pending_restart FROM pg_settings WHERE name = {name}) s),
  'lines', (SELECT coalesce(json_agg(json_build_object('file', sourcefile, 'value', setting)
    ORDER BY seqno), '[]') FROM pg_file_settings WHERE name = {name}));"""
REPLAY = """SELECT json_build_object(
  'done', pg_last_wal_replay_lsn() >= {lsn}::pg_lsn,
  'replayed', pg_last_wal_replay_lsn(), 'received', pg_last_wal_receive_lsn(),
  'paused', pg_is_wal_replay_paused(),
  'streams', (SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming') > 0);"""


class Place(NamedTuple):
    """A parameter of a server, and the folder that remembers what is known of it."""

    server: Server
    name: str
    home: Path


class Change(NamedTuple):
    """A value to set: as SQL writes it ("" resets), as it compares; how long to wait for others.

    Objects that are moved to their values wait for each other by their needs; what is put back has
    none, so it waits until the other servers are where they must be.
    """

    text: str
    wanted: Value
    patience_s: float = 0


class OutOfOrder(Failed):
    """Primary and standbys would not fit together."""


class Found(NamedTuple):
    """What a server says of a parameter; `lines` are those of its files, the last one counts."""

    standby: bool
    data: Path
    major: int
    setting: Dict[str, Any]
    lines: List[Dict[str, str]]

    def value(self, text: Any) -> Value:
        """Return a value as it can be compared."""
        return values.read(text, self.setting)

    @property
    def in_force(self) -> Value:
        """Return the value that the server works with."""
        return values.read_in_force(self.setting)

    @property
    def configured(self) -> Value:
        """Return the value that the files of the server say."""
        text = self.lines[-1]["value"] if self.lines else None
        return self.in_force if text is None else self.value(text)

    @property
    def own_file(self) -> Path:
        """Return the file that ALTER SYSTEM writes."""
        return self.data / "postgresql.auto.conf"

    @property
    def own_value(self) -> Optional[str]:
        """Return what ALTER SYSTEM has written; None for nothing."""
        found = [line["value"] for line in self.lines if Path(line["file"]) == self.own_file]
        return found[-1] if found else None


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    place, *others = _places(cob)
    try:
        found = _look(place)
    except NoServer:
        return {"state": "down"}
    if any(_read_record(other).get("ours") for other in others):
        return {"state": "outdated"}
    return {"state": _state(found, _read_record(place), cob["spec"])}


def raise_(cob: Dict[str, Any]) -> Answer:
    """Bring the value in force up to the wanted one if it is below; note that this is done."""
    place = _places(cob)[0]
    spec = cob["spec"]
    found = _look(place)
    wanted = found.value(spec["value"])
    record = _keep_original(place, found)
    below = place.name in ORDERED and found.in_force < wanted
    if below:
        _set(place, found, spec, Change(values.text(place.name, spec["value"]), wanted))
    _write_record(place, {**record, "raised": values.text(place.name, spec["value"])})
    return {"changed": below}


def settle(cob: Dict[str, Any]) -> Answer:
    """Set the parameter; one that an earlier spec named is put back."""
    place, *others = _places(cob)
    spec = cob["spec"]
    for other in others:
        _remove(other, cob["applied"])
    found = _look(place)
    wanted = found.value(spec["value"])
    record = _keep_original(place, found)
    changed = not _is_as(found, wanted)
    if changed:
        _set(place, found, spec, Change(values.text(place.name, spec["value"]), wanted))
    record.pop("raised", None)
    _write_record(place, record)
    return {"changed": changed}


def remove(cob: Dict[str, Any]) -> Answer:
    """Put back what was there before the first change, unless the value shall stay."""
    place, *others = _places(cob)
    _remove(place, cob["spec"])
    for other in others:
        _remove(other, cob["applied"])
    return {"changed": True}


def _places(cob: Dict[str, Any]) -> List[Place]:
    """Return the spec's place, then that of the applied spec if it is another."""
    specs = [cob["spec"], *([cob["applied"]] if cob.get("applied") else [])]
    found = []
    for spec in specs:
        its = server(spec)
        name = file_name(f"{its.place}:{spec['parameter']}")
        home = state_dir(spec) / "postgres-parameter" / name
        found.append(Place(server=its, name=spec["parameter"], home=home))
    return list(dict.fromkeys(found))


def _alone(action: Action) -> Action:
    """Let an action have the server for itself: others may restart it, and it seems down then."""

    def guarded(cob: Dict[str, Any]) -> Answer:
        with server(cob["spec"]).alone():
            return action(cob)

    return guarded


def _look(place: Place) -> Found:
    answer = place.server.ask_json(LOOK.format(name=literal(place.name)))
    major = answer["version"] // 10_000
    if answer["setting"] is None:
        raise Failed(f"PostgreSQL {major} knows no parameter {place.name}")
    if answer["setting"]["context"] == "internal":
        raise Failed(f"{place.name} cannot be changed: PostgreSQL {major} sets it by itself")
    return Found(
        standby=answer["standby"],
        data=Path(answer["data"]),
        major=major,
        setting=answer["setting"],
        lines=answer["lines"],
    )


def _state(found: Found, record: Dict[str, Any], spec: Dict[str, Any]) -> str:
    wanted = found.value(spec["value"])
    if record.get("left"):
        return "down"
    is_below = spec["parameter"] in ORDERED and found.in_force < wanted
    if record.get("raised") == values.text(spec["parameter"], spec["value"]) and not is_below:
        return "raised"
    return "up" if _is_as(found, wanted) and "raised" not in record else "outdated"


def _is_as(found: Found, wanted: Value) -> bool:
    """Say whether a value is in force, and stays so when the server starts again."""
    return found.in_force == found.configured == wanted


# --- the change


def _set(place: Place, found: Found, spec: Dict[str, Any], change: Change) -> None:
    """Set the parameter; it must be in force afterwards.

    A server that does not start with the new value is started with the one before.
    """
    needs_restart = found.setting["context"] == "postmaster" and found.in_force != change.wanted
    if place.name in ORDERED:
        _await_order(place, found, spec, change)
    before = found.own_file.read_bytes()
    words = f"SET {place.name} = {change.text}" if change.text else f"RESET {place.name}"
    place.server.ask(f"ALTER SYSTEM {words};")
    if needs_restart:
        _restart(place, found, spec, before)
    else:
        place.server.ask("SELECT pg_reload_conf();")
    _await_in_force(place, change.wanted)


def _restart(place: Place, found: Found, spec: Dict[str, Any], before: bytes) -> None:
    how = Restart(place.server, spec.get("unit"), str(found.data), found.major)
    try:
        how.go()
    except Failed as error:
        _write_back(found.own_file, before)
        try:
            how.go()
        except Failed as second:
            raise Failed(
                f"the server does not start with the new {place.name}: {error}; and does not "
                f"start with the earlier one either: {second}"
            ) from None
        raise Failed(
            f"the server does not start with the new {place.name}: {error} "
            "(it runs with the earlier one again)"
        ) from None


def _write_back(path: Path, content: bytes) -> None:
    """Give a file its content of before, in one step, with its owner and mode.

    Its folder is another user's: a link that they put in the way must lead root nowhere.
    """
    was = path.stat()
    mode = stat.S_IMODE(was.st_mode)
    put(path, Entry(content=content, link=False, mode=mode, uid=was.st_uid, gid=was.st_gid))


def _await_in_force(place: Place, wanted: Value) -> None:
    deadline = time.monotonic() + RELOAD_WAIT_S
    while True:
        found = _look(place)
        if _is_as(found, wanted):
            return
        if time.monotonic() > deadline:
            raise Failed(
                f"{place.name} is still {values.told(found.in_force)}: what sets it is not "
                f"postgresql.auto.conf (source: {found.setting['source']})"
            )
        time.sleep(POLL_S)


# --- the order over servers


def _await_order(place: Place, found: Found, spec: Dict[str, Any], change: Change) -> None:
    """Return when primary and standbys will fit together; raise before anything has changed."""
    deadline = time.monotonic() + change.patience_s
    while True:
        try:
            if found.standby and change.wanted < found.in_force:
                _await_primary(place, found, spec, change.wanted)
            elif not found.standby and change.wanted > found.in_force:
                _ask_standbys(place, found, spec, change.wanted)
        except OutOfOrder:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return


def _ask_standbys(place: Place, found: Found, spec: Dict[str, Any], wanted: Value) -> None:
    for standby in spec.get("standbys", []):
        has = _ask_other(place, standby, found)["value"]
        if has < wanted:
            raise OutOfOrder(
                f"the standby {_public(standby)} has {place.name} = {values.told(has)}: raise it "
                f"there first; its replay would stop if its primary had {values.told(wanted)}"
            )


def _await_primary(place: Place, found: Found, spec: Dict[str, Any], wanted: Value) -> None:
    """Wait until this standby has replayed all that its primary, which is lowered, has written."""
    primary = place.server.ask("SHOW primary_conninfo;")
    if not primary:
        raise Failed(f"{place.name} cannot be lowered: this standby has no primary_conninfo")
    other = _ask_other(place, primary, found)
    if other["value"] > wanted:
        raise OutOfOrder(
            f"the primary has {place.name} = {values.told(other['value'])}: lower it there first; "
            f"a standby does not start with {values.told(wanted)}"
        )
    _await_replay(place, other["lsn"], _timeout_s(spec))
    replayed = _control_value(place, found)
    if replayed > wanted:
        raise OutOfOrder(
            f"by its log this standby still follows a primary with {place.name} = "
            f"{values.told(replayed)}; it would not start with {values.told(wanted)}"
        )


def _timeout_s(spec: Dict[str, Any]) -> float:
    return float(spec.get("timeout", REPLAY_WAIT_S))


def _ask_other(place: Place, conninfo: str, found: Found) -> Dict[str, Any]:
    """Return the value of the parameter at another server, and how far that has written.

    It is asked by a replication connection, which a standby's own `primary_conninfo` opens.
    """
    quoted = (conninfo + " replication=true").replace("\\", "\\\\").replace("'", "''")
    script = f"\\connect -reuse-previous=off '{quoted}'\nSHOW {place.name};\nIDENTIFY_SYSTEM;\n"
    try:
        value, system = place.server.ask(script).splitlines()
    except Failed as error:
        # It may be restarting, for a change of its own.
        message = f"{_public(conninfo)} cannot be asked for its {place.name}: {error}"
        raise OutOfOrder(message) from None
    return {"value": found.value(value), "lsn": system.split("|")[2]}


def _await_replay(place: Place, lsn: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        now = place.server.ask_json(REPLAY.format(lsn=literal(lsn)))
        if now["done"]:
            return
        if time.monotonic() > deadline:
            why = "replay is paused (SELECT pg_wal_replay_resume())" if now["paused"] else ""
            why = why or ("" if now["streams"] else "it does not stream from its primary")
            raise Failed(
                f"this standby has not replayed the change of its primary within {timeout_s:.0f} "
                f"s: replayed {now['replayed']}, received {now['received']}, the primary was at "
                f"{lsn}" + (f"; {why}" if why else "")
            )
        time.sleep(POLL_S)


def _control_value(place: Place, found: Found) -> Value:
    """Return the value of the primary as the log that was replayed says it."""
    done = place.server.run([tool("pg_controldata", found.major), "-D", str(found.data)])
    for line in done.stdout.splitlines():
        label, _, text = line.partition(":")
        if label == CONTROL_LINES[place.name]:
            return found.value(text.strip())
    raise Failed(f"pg_controldata does not tell {place.name}: {done.stderr.strip()}")


def _public(conninfo: str) -> str:
    """Return the part of a connection string that names the server."""
    shown = [part for part in conninfo.split() if part.startswith(("host=", "port="))]
    return " ".join(shown) or "the other server"


# --- removal


def _remove(place: Place, spec: Dict[str, Any]) -> None:
    record = _read_record(place)
    if record.get("ours") and spec.get("restore", True):
        try:
            _restore(place, spec, record["original"] or "")
        except NoServer as error:
            _refuse_stopped(place, record, error)
    # From now on the value that is there is its owner's business.
    _write_record(place, {"left": True})


def _restore(place: Place, spec: Dict[str, Any], original: str) -> None:
    """Put back what ALTER SYSTEM had written before; "" is nothing."""
    found = _look(place)
    wanted = found.value(original) if original else _without_us(found)
    if not _is_as(found, wanted) or (found.own_value or "") != original:
        text = values.text(place.name, original) if original else ""
        _set(place, found, spec, Change(text, wanted, _timeout_s(spec)))


def _without_us(found: Found) -> Value:
    """Return what is in force without a line of ALTER SYSTEM."""
    rest = [line["value"] for line in found.lines if Path(line["file"]) != found.own_file]
    return found.value(rest[-1] if rest else found.setting["boot_val"])


def _refuse_stopped(place: Place, record: Dict[str, Any], error: NoServer) -> None:
    """Raise unless the server is gone with its data; a stopped one cannot get its value back."""
    if (Path(record["data"]) / "PG_VERSION").exists():
        raise Failed(
            f"{error}; {place.name} can be put back only while it runs (start it, or write "
            "`restore: false` to leave the value)"
        )


# --- what is remembered


def _keep_original(place: Place, found: Found) -> Dict[str, Any]:
    """Remember what was there before the first change; return the record."""
    record = _read_record(place)
    if not record.get("ours") or record["data"] != str(found.data):
        record = {"ours": True, "original": found.own_value, "data": str(found.data)}
        _write_record(place, record)
    return record


def _read_record(place: Place) -> Dict[str, Any]:
    path = place.home / "record.json"
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Failed(f"the record {path} is damaged: {error}") from None


def _write_record(place: Place, record: Dict[str, Any]) -> None:
    place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = place.home / "record.json"
    draft = place.home / ".record.json"
    draft.write_text(json.dumps({"version": VERSION, **record}), encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    actions = {"check": check, "raise": raise_, "settle": settle, "remove": remove}
    run({name: _alone(action) for name, action in actions.items()})
