"""What the site itself has at paths that an object watches.

A property of a type's schema with `x-cobweb: watch` lists paths that objects of the type read. What
an object of the same host writes there, on which the watching one has a need, is found from the
specs: each path gets a word that is another one as soon as one of them is changed. So the watching
object is changed whenever what it reads is, and its check can see that beforehand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from cobweb.model import Cob, CobId, CobType, Need, cob_id, host_of
from cobweb.site.objects._cobs import CobDef

__all__ = ["fill_watches"]

_MARK, _WATCH = "x-cobweb", "watch"
_PATH = "path"
_LETTERS = 16


def fill_watches(cobs: dict[CobId, Cob], needs: Iterable[Need], defs: Mapping[str, CobDef]) -> None:
    """Give each watched path of the objects in `cobs` its word; it is empty if none writes there.

    A writer is an object whose spec has a `path` that is the watched one, or in it, or around it.
    """
    watching = _watching(cobs, defs)
    if not watching:
        return
    writers: dict[CobId, dict[CobId, Cob]] = {cob: {} for cob in watching}
    for need in needs:
        if need.cob in watching and host_of(need.on) == host_of(need.cob):
            writers[need.cob][need.on] = cobs[need.on]
    for cob, name in watching.items():
        spec = cobs[cob].spec
        words = {path: _word(path, writers[cob].values()) for path in spec[name]}
        cobs[cob] = replace(cobs[cob], spec={**spec, name: words})


def _watching(cobs: Mapping[CobId, Cob], defs: Mapping[str, CobDef]) -> dict[CobId, str]:
    """Return the property of each object that lists paths; a site may also say the words itself."""
    found = {}
    for cob in defs.values():
        name = _marked(cob.type)
        if name is None or cob.spec is None or name not in cob.spec.items:
            continue
        for each in (cob_id(host, cob.name) for host in cob.hosts):
            if each in cobs and isinstance(cobs[each].spec.get(name), list):
                found[each] = name
    return found


def _marked(cob_type: CobType) -> str | None:
    properties: Mapping[str, Any] = (cob_type.spec_schema or {}).get("properties", {})
    found = (
        name
        for name, part in properties.items()
        if isinstance(part, dict) and part.get(_MARK) == _WATCH
    )
    return next(found, None)


def _word(path: str, writers: Iterable[Cob]) -> str:
    found = {str(cob.id): cob.spec for cob in writers if _meet(path, cob.spec.get(_PATH))}
    if not found:
        return ""
    text = json.dumps(found, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LETTERS]


def _meet(path: str, written: object) -> bool:
    if not isinstance(written, str):
        return False
    one, other = PurePosixPath(path), PurePosixPath(written)
    return one == other or one in other.parents or other in one.parents
