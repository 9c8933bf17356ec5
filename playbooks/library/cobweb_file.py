# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `file`: check, write and remove a file, a line or a block of one.

The states: `up` if all is as asked; `down` if nothing is there, or what we put back; `outdated` if
anything else is. See cobweb_whole.py, cobweb_part.py and cobweb_record.py for what is remembered.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_part import (
    PARTS,
    locked,
    part_is_ours,
    part_place,
    part_state,
    remove_part,
    write_part,
)
from ansible.module_utils.cobweb_record import Place
from ansible.module_utils.cobweb_whole import (
    is_ours,
    remove_whole,
    whole_place,
    whole_state,
    write_whole,
)

__all__ = ["Failed", "check", "remove", "write"]


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    (place, spec), *others = _places(cob)
    find = part_state if place.kind in PARTS else whole_state
    state = find(place, spec)
    if any(part_is_ours(it) if it.kind in PARTS else is_ours(it) for it, _ in others):
        state = "outdated"
    return {"state": state}


def write(cob: Dict[str, Any]) -> Answer:
    """Make the file, or the part of it, as the spec says; what an earlier spec had is removed."""
    (place, spec), *others = _places(cob)
    kept = [edit for other in others for edit in _remove(*other)]
    if place.kind in PARTS:
        with locked(place):
            edits = write_part(place, spec)
    else:
        edits = write_whole(place, spec)
    return _answer(changed=bool(others) or edits is not None, kept=kept + (edits or []))


def remove(cob: Dict[str, Any]) -> Answer:
    """Put back what was there before the first write, or nothing."""
    kept = [edit for placed in _places(cob) for edit in _remove(*placed)]
    return _answer(changed=True, kept=kept)


def _remove(place: Place, spec: Dict[str, Any]) -> List[str]:
    if place.kind not in PARTS:
        return remove_whole(place)
    with locked(place):
        return remove_part(place, spec)


def _answer(*, changed: bool, kept: List[str]) -> Answer:
    if not kept:
        return {"changed": changed}
    return {"changed": changed, "msg": f"kept a local edit as {', '.join(kept)}", "kept": kept}


def _places(cob: Dict[str, Any]) -> List[Tuple[Place, Dict[str, Any]]]:
    """Return the spec and its place, then those of the applied spec if it has another place."""
    specs = [cob["spec"], *([cob["applied"]] if cob.get("applied") else [])]
    places: Dict[Place, Dict[str, Any]] = {}
    for spec in specs:
        places.setdefault(_place(spec, cob["id"]), spec)
    return list(places.items())


def _place(spec: Dict[str, Any], cob_id: str) -> Place:
    kind = next((kind for kind in PARTS if kind in spec), None)
    return whole_place(spec) if kind is None else part_place(spec, kind, cob_id)


if __name__ == "__main__":
    run({"check": check, "write": write, "remove": remove})
