# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `firewall`: one table of nftables that is ours alone.

A table is replaced in one step by `nft -f`, after `nft -c` has read it; what was applied is then
remembered as nft itself shows it, without what counts by itself. A table that shows something else
was changed by somebody. A file with the same text and a unit of systemd load it at boot. A table
that we did not make is never replaced or deleted.

The states: `up` if table, file and unit are as asked; `down` if there is none of them; `broken` if
the table alone is not there; `outdated` if anything else is so.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_tools import (
    Record,
    attempt,
    call,
    digest,
    has_systemd,
    one_at_a_time,
    replace_file,
)

RULES = Path("/etc/nftables.d")
UNITS = Path("/etc/systemd/system")
UNIT = """\
# Object {cob} of Cobweb; what is changed here is replaced.
[Unit]
Description=Table {table} of nftables
DefaultDependencies=no
After=local-fs.target systemd-modules-load.service nftables.service
Before=network-pre.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={nft} -f {file}

[Install]
WantedBy=sysinit.target
"""
RUNNING = ("handle", "packets", "bytes", "used", "expires")
"""What nft shows of a table and changes by itself."""


class Table(NamedTuple):
    """A table by its family and name, as `inet cobweb_web`."""

    family: str
    name: str

    @property
    def file(self) -> Path:
        """Return the file that holds it for the next boot."""
        return RULES / f"{self.family}-{self.name}.nft"

    @property
    def unit(self) -> str:
        """Return the unit that loads it at boot."""
        return f"cobweb-firewall-{self.family}-{self.name}.service"

    def __str__(self) -> str:
        return f"{self.family} {self.name}"


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    table, *earlier = _tables(cob)
    known = [it for it in earlier if _record(it).read()]
    if known:
        return {"state": "outdated" if any(map(_shown, known)) else "broken"}
    if not _is_ours(table):
        return {"state": "down"}
    shown, record = _shown(table), _record(table).read()
    wanted = _files(table, cob)
    found = {path: _read(path) for path in (table.file, UNITS / table.unit)}
    as_asked = (
        bool(shown)
        and record.get("text") == digest(_text(table, cob["spec"]))
        and record.get("shown") == _essence(shown)
        and all(text == wanted.get(path, "") for path, text in found.items())
        and (UNITS / table.unit not in wanted or _is_enabled(table))
    )
    return {"state": "up" if as_asked else "outdated" if shown else "broken"}


def apply(cob: Dict[str, Any]) -> Answer:
    """Replace the table by the one of the spec, in one step; then see to the next boot."""
    table, *earlier = _tables(cob)
    if not _is_ours(table) and _shown(table):
        raise Failed(
            f"a table {table} is there that Cobweb did not make; delete it first, or name another "
            "one by `table`"
        )
    text = _text(table, cob["spec"])
    call("nft", "--check", "--file", "-", stdin=text)
    with one_at_a_time("firewall"):
        for other in earlier:
            _remove(other)
        record = _record(table)
        record.write({"text": ""})
        call("nft", "--file", "-", stdin=text)
        _write_files(table, cob)
        record.write({"text": digest(text), "shown": _essence(_shown(table))})
    return {"changed": True}


def remove(cob: Dict[str, Any]) -> Answer:
    """Remove the table, and what loads it at boot."""
    with one_at_a_time("firewall"):
        for table in _tables(cob):
            _remove(table)
    return {"changed": True}


def _tables(cob: Dict[str, Any]) -> List[Table]:
    """Return the table of the spec, then that of the applied spec if it is another."""
    default = "cobweb_" + "".join(it if it.isalnum() else "_" for it in cob["name"])
    specs = [cob["spec"], *([cob["applied"]] if cob.get("applied") else [])]
    tables = [Table(it.get("family", "inet"), it.get("table", default)) for it in specs]
    return list(dict.fromkeys(tables))


def _is_ours(table: Table) -> bool:
    """Say whether anything of the table is ours: what is remembered of it, or what loads it."""
    files = (table.file, UNITS / table.unit)
    return bool(_record(table).read()) or any(path.exists() for path in files)


def _record(table: Table) -> Record:
    return Record("firewall", str(table))


def _shown(table: Table) -> List[Any]:
    """Return the table as nft shows it; an empty list if there is none, or no nft yet."""
    if not Path(_nft()).exists():
        return []
    done = attempt("nft", "--json", "list", "table", table.family, table.name)
    if done.status != 0 and "No such file or directory" not in done.err:
        raise Failed(done.message)
    return list(json.loads(done.out)["nftables"]) if done.status == 0 else []


def _essence(shown: List[Any]) -> str:
    """Name what a table is, without version, numbers of handles, counters and learnt elements."""
    return str(digest([_without(it) for it in shown if "metainfo" not in it]))


def _without(value: Any) -> Any:
    if isinstance(value, list):
        return [_without(it) for it in value]
    if not isinstance(value, dict):
        return value
    learns = {"dynamic", "timeout"} & {*(value.get("flags") or [])}
    hidden = (*RUNNING, "elem") if learns else RUNNING
    return {key: _without(it) for key, it in value.items() if key not in hidden}


# --- the text


def _text(table: Table, spec: Dict[str, Any]) -> str:
    """Return what nft reads: the table as it was goes and the new one comes, in one step."""
    lines = [f"table {table}", f"delete table {table}", f"table {table} {{", _body(spec), "}", ""]
    return "\n".join(lines)


def _body(spec: Dict[str, Any]) -> str:
    rules = spec["rules"]
    if isinstance(rules, str):
        return rules
    hook, priority = spec.get("hook", "input"), spec.get("priority", 0)
    head = f"type filter hook {hook} priority {priority}; policy {spec.get('policy', 'accept')};"
    return "\n".join([f"chain {hook} {{", head, *rules, "}"])


# --- the next boot


def _files(table: Table, cob: Dict[str, Any]) -> Dict[Path, str]:
    """Return the files of the table and what they hold."""
    if not cob["spec"].get("boot", True):
        return {}
    files = {table.file: _text(table, cob["spec"])}
    if has_systemd():
        unit = UNIT.format(cob=cob["id"], table=table, nft=_nft(), file=table.file)
        files[UNITS / table.unit] = unit
    return files


def _nft() -> str:
    """Return where nft is, or is to be: it may come by an object that the table requires."""
    places = ("/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft", "/usr/local/sbin/nft")
    return next((path for path in places if Path(path).exists()), places[0])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _is_enabled(table: Table) -> bool:
    return (UNITS / "sysinit.target.wants" / table.unit).is_symlink()


def _write_files(table: Table, cob: Dict[str, Any]) -> None:
    files = _files(table, cob)
    if table.file not in files:
        _remove_files(table)
    for path, text in files.items():
        if _read(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text, mode=0o644 if path.parent == UNITS else 0o600)
    if UNITS / table.unit in files and not _is_enabled(table):
        call("systemctl", "--quiet", "enable", "--", table.unit)


def _remove_files(table: Table) -> None:
    paths = (UNITS / "sysinit.target.wants" / table.unit, UNITS / table.unit, table.file)
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    with contextlib.suppress(OSError):
        RULES.rmdir()
    if has_systemd():
        call("systemctl", "daemon-reload")


def _remove(table: Table) -> None:
    """Remove a table of ours and its files: first what the next boot would bring back."""
    if not _is_ours(table):
        return
    _record(table).write({"text": ""})
    _remove_files(table)
    if _shown(table):
        call("nft", "delete", "table", table.family, table.name)
    _record(table).forget()


if __name__ == "__main__":
    run({"check": check, "apply": apply, "remove": remove})
