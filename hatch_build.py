"""Compiles the engine into the wheel where COBWEB_COMPILE=1 says so; else the wheel is pure.

The modules that a run spends its time in are compiled by mypyc as they stand: one source, two
builds, the same tests. `make compiled` puts such a build into build/compiled, for the benchmarks.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_INTERPRETED = ("__init__.py", "_values.py")
"""Modules of the engine that gain nothing from being compiled."""


class CompileHook(BuildHookInterface[Any]):
    """Adds the compiled modules beside their sources, which Python then passes over."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build needs besides hatchling."""
        return ["mypy>=1.15", "setuptools>=65"] if _wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and make the wheel one of this platform."""
        if version == "editable" or self.target_name != "wheel" or not _wanted():
            return
        root = Path(self.root)
        out = root / "build" / "mypyc"
        shutil.rmtree(out, ignore_errors=True)
        _compile(root / "toolkit", out)
        build_data.update(pure_python=False, infer_tag=True)
        built = {str(file): str(file.relative_to(out / "lib")) for file in _libraries(out / "lib")}
        build_data["force_include"].update(built)


def _wanted() -> bool:
    return os.environ.get("COBWEB_COMPILE") == "1"


def _libraries(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in (".so", ".pyd"))


def _modules() -> list[str]:
    """Return the modules that a run spends its time in, below the working directory."""
    engine = Path("cobweb/engine")
    return sorted(
        str(file)
        for file in engine.rglob("*.py")
        if file.name not in _INTERPRETED and file.parent.name != "analysis"
    )


def _compile(source: Path, out: Path) -> None:
    """Compile the modules below `source` into `out`/lib; a pure build imports none of this."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    with contextlib.chdir(source):
        modules = mypycify(
            _modules(),
            opt_level="3",
            debug_level="0",
            group_name="cobweb_engine",
            target_dir=str(out / "c"),
        )
        command = Distribution({"name": "cobweb", "ext_modules": modules}).get_command_obj(
            "build_ext"
        )
        command.build_lib, command.build_temp = str(out / "lib"), str(out / "temp")
        command.ensure_finalized()
        command.run()
