# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules of the adapters `processes` and `counter` share: the files of a member.

The owner's file is written first and goes last, so that at each moment the folder says who owns
what. Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own
module_utils.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Dict, List
from urllib.parse import unquote

from ansible.module_utils.cobweb_host import Answer, Failed, file_name
from ansible.module_utils.cobweb_pool_folder import Member, jobs_in, read_owner, there
from ansible.module_utils.cobweb_tools import replace_file

VERSION = 1
NAMED_JOBS = 5
ANSWER_LIMIT = 65_536


def members_of(cob: Dict[str, Any], work: str) -> List[Member]:
    """Return the member of the spec, then that of the applied spec if its folder is another."""
    specs = [cob["spec"]] + ([cob["applied"]] if cob.get("applied") else [])
    found = [_member(spec, work) for spec in specs]
    return found[:1] + [member for member in found[1:] if member.owner != found[0].owner]


def service_folder(spec: Dict[str, Any]) -> Path:
    """Return the folder of a service, which need not be there yet."""
    folder = Path(spec["with"]["folder"])
    if there(folder) and not folder.is_dir():
        raise Failed(f"{folder} is not a folder; move it away, or change `folder`")
    return folder


def stranger(member: Member) -> str:
    """Return the service that has this resource as a member in the same folder, if not ours."""
    service = str((read_owner(member.owner) or {}).get("service", member.service))
    return "" if service == member.service else service


def is_left(member: Member) -> bool:
    """Say whether any file of the member is there."""
    return not stranger(member) and any(map(there, (member.owner, member.mark, member.jobs)))


def claim(member: Member) -> None:
    """Write the owner's file, unless it is there, and then make the other folders of the member."""
    other = stranger(member)
    if other:
        raise Failed(
            f"{member.owner}: {member.resource} is a member of the service {other}; "
            f"no two services can have one folder"
        )
    member.owner.parent.mkdir(exist_ok=True)
    if not there(member.owner):
        record(member)
    for folder in (member.mark.parent, member.jobs):
        folder.mkdir(parents=True, exist_ok=True)


def record(member: Member, **values: Any) -> None:
    """Change what the owner's file says; it is made if it is missing."""
    base = {"version": VERSION, "service": member.service, "resource": member.resource}
    known = {**base, **(read_owner(member.owner) or {}), **values}
    replace_file(member.owner, json.dumps(known), mode=0o644)


def set_mark(member: Member) -> bool:
    """Say that nothing new may begin; return whether that is new."""
    if there(member.mark):
        return False
    member.mark.parent.mkdir(exist_ok=True)
    member.mark.touch()
    return True


def drop_mark(member: Member) -> None:
    """Say that new work may begin."""
    with contextlib.suppress(FileNotFoundError):
        member.mark.unlink()


def release(member: Member) -> None:
    """Remove the files of a member that has no work left, the owner's file last."""
    with contextlib.suppress(FileNotFoundError):
        member.jobs.rmdir()
    drop_mark(member)
    with contextlib.suppress(FileNotFoundError):
        member.owner.unlink()


def refuse_work(member: Member, kind: str) -> None:
    """Fail where work goes on, and name some of it."""
    names = [name if name.isprintable() else ascii(name) for name in jobs_in(member.jobs)]
    if names:
        named = ", ".join(names[:NAMED_JOBS])
        more = len(names) - NAMED_JOBS
        rest = f" and {more} more" if more > 0 else ""
        raise Failed(
            f"{member.resource} cannot leave {member.service}, "
            f"{kind} at work in {member.jobs}: {named}{rest}"
        )


def require(member: Member) -> Member:
    """Return a member of which something is there; Failed for another."""
    if not is_left(member):
        raise Failed(f"{member.resource} is no member of {member.service} in {member.folder}")
    return member


def observed_members(spec: Dict[str, Any], work: str) -> Dict[str, Dict[str, Any]]:
    """Return what the members of a service do, by resource."""
    folder = service_folder(spec)
    members = {}
    for name in _names_in(folder / "members"):
        owner = read_owner(folder / "members" / name)
        if owner is None or owner.get("service", spec["service"]) != spec["service"]:
            continue
        jobs = len(jobs_in(folder / work / name))
        members[str(owner.get("resource", unquote(name)))] = {"idle": not jobs, "jobs": jobs}
    return members


def observed(
    spec: Dict[str, Any], members: Dict[str, Dict[str, Any]], kpis: Dict[str, int]
) -> Answer:
    """Return what is said of a service."""
    values = [{"name": name, "value": value} for name, value in kpis.items()]
    results = {"state": "running", "kpis": values, "members": members}
    size = len(json.dumps(results))
    if size > ANSWER_LIMIT:
        raise Failed(
            f"{spec['with']['folder']} has too many members, {len(members)}: what is said of them "
            f"has {size} characters, more than {ANSWER_LIMIT}"
        )
    return {"observed": results}  # `results` are items of a loop for Ansible


def _member(spec: Dict[str, Any], work: str) -> Member:
    name = file_name(spec["resource"])
    if name.startswith("."):
        name = f"%2E{name[1:]}"  # as other names of that kind are drafts
    return Member(service_folder(spec), name, work, spec["service"], spec["resource"], spec["with"])


def _names_in(folder: Path) -> List[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []
