"""The modules of the adapters `processes` and `counter`, called without Ansible, and their deaths.

A death is SIGKILL's, at one of the moments in which a step is about to change something: a file, a
folder, a process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from cobweb.plugin import data_dir

__all__ = ["PLAYBOOKS", "dies_at", "end_marked", "in_child", "loaded", "marked", "until"]

PLAYBOOKS = Path(str(data_dir("playbooks")))
UTILITIES = (
    *("host", "tools", "supervisor", "pool_folder", "pool_member"),
    *("scheduler", "gridengine", "slurm"),
)
PATIENCE_S = 60.0
CHANGES = frozenset(
    ["os.rename", "os.mkdir", "os.rmdir", "os.remove", "subprocess.Popen", "os.kill", "fcntl.flock"]
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

Step = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def loaded(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """Import a module with what it imports, under the names that these have on a host."""
    for utility in UTILITIES:
        _load(monkeypatch, f"module_utils/cobweb_{utility}.py")
    return _load(monkeypatch, f"library/{name}.py")


def dies_at(moment: int, step: Step, cob: Mapping[str, Any]) -> bool:
    """Carry out a step in a process that dies at `moment`; say whether it did.

    A step that has fewer moments must end well.
    """

    def die() -> None:
        moments = itertools.count()

        def pass_moment(event: str, args: tuple[Any, ...]) -> None:
            changes = event in CHANGES or (event == "open" and args[2] & WRITING)
            if changes and next(moments) == moment:
                signal.raise_signal(signal.SIGKILL)

        sys.addaudithook(pass_moment)
        step(cob)

    code = os.waitstatus_to_exitcode(os.waitpid(in_child(die), 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def in_child(work: Callable[[], object]) -> int:
    """Begin work in a process of its own, which ends with 0 if that ends well; return its pid."""
    child = os.fork()
    if not child:
        _work_and_end(work)
    return child


def until(holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until something holds that nobody tells."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def marked(folder: Path) -> list[int]:
    """Return the workers of the services below a folder, and what they have started."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_marked(path, folder)]


def end_marked(folder: Path) -> None:
    """End them all, which takes a moment."""
    for pid in marked(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not marked(folder))


def _work_and_end(work: Callable[[], object]) -> NoReturn:
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def _is_marked(process: Path, folder: Path) -> bool:
    try:
        return f"COBWEB_PROCESS={folder}/".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def _load(monkeypatch: pytest.MonkeyPatch, path: str) -> ModuleType:
    name = f"ansible.{Path(path).parent.name}.{Path(path).stem}"
    spec = spec_from_file_location(name, PLAYBOOKS / path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module
