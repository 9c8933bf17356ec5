# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules of service adapters for schedulers share: names, processes, waiting, refusals.

Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own module_utils.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from ansible.module_utils import cobweb_supervisor as supervision
from ansible.module_utils.cobweb_host import Answer, Failed
from ansible.module_utils.cobweb_tools import SYSTEM_PATH

POLL_S = 0.2
NAMED_JOBS = 5

_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def short(name: str) -> str:
    """Return the name of a host up to its first dot."""
    return name.split(".", 1)[0].lower()


def until(holds: Callable[[], Any], patience_s: float) -> bool:
    """Wait until something holds that nobody tells; say whether it does."""
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def pids(program: str) -> List[int]:
    """Return the processes of a program, by the name that the kernel has of them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (folder / "comm").read_text(encoding="utf-8", errors="replace")
            if text.strip() == program and supervision.read_row(int(folder.name)):
                found.append(int(folder.name))
    return sorted(found)


def refuse_jobs(cob: Dict[str, Any], jobs: List[str]) -> None:
    """Raise Failed, naming the first of them, where a member has jobs at work."""
    if jobs:
        more = f" and {len(jobs) - NAMED_JOBS} more" if len(jobs) > NAMED_JOBS else ""
        named = ", ".join(jobs[:NAMED_JOBS])
        resource, service = cob["spec"]["resource"], cob["spec"]["service"]
        raise Failed(f"{resource} cannot leave {service}, jobs at work: {named}{more}")


def seen(state: str, jobs: int, used: int, slots: int) -> Dict[str, Any]:
    """Return what a service says of a member, of whose slots so many are used."""
    load = min(1.0, used / slots) if slots else 0.0
    return {"idle": not jobs and state != "silent", "jobs": jobs, "load": load, "state": state}


def observed(kpis: Dict[str, float], members: Dict[str, Dict[str, Any]]) -> Answer:
    """Return the answer of a service that runs."""
    values = [{"name": name, "value": value} for name, value in kpis.items()]
    return {"observed": {"state": "running", "kpis": values, "members": members}}


def plain(text: str) -> str:
    """Return a name that may be printed as it is."""
    return text if text.isprintable() else ascii(text)


def count_tasks(text: str, tool: str) -> int:
    """Return how many tasks a list like `1-5:2,8,9%2` names, which a tool has said."""
    count = 0
    for part in text.partition("%")[0].split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise Failed(f"{tool}: {text!r} is no list of tasks")
        first, last, step = (int(it) if it else None for it in found.groups())
        count += 1 if last is None else (last - (first or 0)) // (step or 1) + 1
    return count


def run_alone(command: List[str], package: str, timeout_s: float) -> Tuple[Optional[int], str]:
    """Run what starts a daemon, with nothing of ours for that to keep.

    Return its exit status, None where it was not ready in time, and what it said.
    """
    with tempfile.TemporaryFile() as said:
        status = None
        try:
            status = subprocess.run(
                command,
                cwd="/",
                env={"PATH": SYSTEM_PATH, "LC_ALL": "C", "HOME": "/root"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                timeout=timeout_s,
                check=False,
            ).returncode
        except FileNotFoundError:
            raise Failed(f"there is no {command[0]}; install {package}") from None
        except subprocess.TimeoutExpired:
            pass
        said.seek(0)
        return status, said.read().decode("utf-8", errors="replace")
