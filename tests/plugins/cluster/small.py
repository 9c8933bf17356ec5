"""A small catalog, and sites made of it, for the tests of the plugin `cluster`."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobweb.plugin import load_plugins
from cobweb_plugins.cluster._catalog_read import read_catalog
from cobweb_plugins.cluster._expand import resolve_all
from cobweb_plugins.cluster._lock import LockedCluster, lock_text
from cobweb_plugins.cluster._pin import pin

TASKS = "services/any.yml"
ACT: Mapping[str, Any] = {"tasks": TASKS}
CATALOG: Mapping[str, Any] = {
    "providers": {"lab": {"type": "static", "fields": {"hosts": {"h1": {"address": "::1"}}}}},
    "hardwaretypes": {"small": {"cores": 2, "memory_mb": 512}},
    "imagetypes": {"debian": {"user": "root"}},
    "services": {
        "base": {"actions": {"install": ACT}},
        "db": {
            "dependencies": {"provides": ["database"], "install": {"requires": ["base"]}},
            "actions": {"install": ACT, "configure": ACT, "start": ACT, "stop": ACT},
        },
        "web": {
            "dependencies": {
                "install": {"requires": ["base"]},
                "runtime": {"requires": ["database"], "uses": ["cache"]},
            },
            "actions": {"install": ACT, "start": ACT, "stop": ACT},
        },
        "cache": {"actions": {"start": ACT, "stop": ACT}},
    },
    "templates": {
        "stack": {
            "defaults": {
                "services": ["base", "db", "web"],
                "provider": "lab",
                "hardwaretype": "small",
                "imagetype": "debian",
                "config": {"port": 80},
            },
            "constraints": {
                "layout": {"cantcoexist": [["db", "web"]]},
                "services": {"db": {"quantities": {"min": 1, "max": 2}}},
            },
        }
    },
}


def sections(clusters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the sections of a site with some clusters of the template `stack`."""
    whole = {name: {"template": "stack", **said} for name, said in clusters.items()}
    return copy.deepcopy({"catalog": CATALOG, "clusters": whole, **more})


def pinned(data: Mapping[str, Any]) -> dict[str, LockedCluster]:
    """Return the layouts of all clusters of some sections."""
    solver = load_plugins().solvers["preference"]
    found = resolve_all(read_catalog(data))
    return {name: pin(it, solver, None) for name, it in found.items()}


def write_site(folder: Path, data: Mapping[str, Any], *, lock: bool = True) -> Path:
    """Write a site of sections, with its layouts and the tasks of its services."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "site.yml").write_text(json.dumps({"cobweb": 1, "name": "it", **data}, indent=1))
    (folder / TASKS).parent.mkdir(exist_ok=True)
    (folder / TASKS).write_text("- debug: {}\n")
    if lock:
        (folder / "site.lock").write_text(lock_text(pinned(data)))
    return folder
