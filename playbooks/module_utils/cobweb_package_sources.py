# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories of packages: the files that say them, and which COBs of this host use them.

Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own module_utils.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Dict, Optional

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_packages import Apt, Dnf
from ansible.module_utils.cobweb_tools import Record, replace_file


def add_repository(tools: Apt | Dnf, cob: Dict[str, Any]) -> bool:
    """Write the files of a COB's repository; return whether they are new or changed."""
    wanted = cob["spec"].get("repository")
    if wanted is None:
        return False
    record = _record(wanted["name"])
    users = set(record.read().get("users", []))
    files = _files(tools, wanted)
    if not users:
        for path in files:
            if path.exists():
                raise Failed(f"{path} is there already and not of Cobweb; name the repository else")
    new = any(_text(path) != text for path, text in files.items())
    record.write({"users": sorted({*users, cob["id"]}), "files": sorted(map(str, files))})
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text, mode=0o644)
    return new


def leave_repository(
    cob_id: str, spec: Dict[str, Any], *, but: Optional[Dict[str, Any]] = None
) -> None:
    """Take a COB off the users of a spec's repository, unless it is that of `but` too.

    The last user removes it.
    """
    named = (spec.get("repository") or {}).get("name")
    if named is None or named == ((but or {}).get("repository") or {}).get("name"):
        return
    record = _record(named)
    known = record.read()
    users = [user for user in known.get("users", []) if user != cob_id]
    if users:
        record.write({**known, "users": users})
        return
    for path in map(Path, known.get("files", [])):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    record.forget()


def has_repository(tools: Apt | Dnf, cob: Dict[str, Any]) -> bool:
    """Say whether the repository of a COB is there as asked, or it asks for none."""
    wanted = cob["spec"].get("repository")
    if wanted is None:
        return True
    as_asked = all(_text(path) == text for path, text in _files(tools, wanted).items())
    return as_asked and cob["id"] in _record(wanted["name"]).read().get("users", [])


def source_file(tools: Apt | Dnf, wanted: Dict[str, str]) -> Path:
    """Return the file that says a repository."""
    return tools.source_file(wanted["name"], wanted["source"])


def _record(name: str) -> Record:
    return Record("package-repository", name)


def _files(tools: Apt | Dnf, wanted: Dict[str, str]) -> Dict[Path, str]:
    """Return the files of a repository with what they hold; the key comes first."""
    files = {}
    if "key" in wanted:
        files[tools.keys / f"{wanted['name']}.asc"] = _ended(wanted["key"])
    files[source_file(tools, wanted)] = _ended(wanted["source"])
    return files


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _text(path: Path) -> Optional[str]:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
