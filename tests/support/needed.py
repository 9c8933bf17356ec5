"""What tests ask of the machine that not every one has, in one place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.fabric import what_is_missing

__all__ = ["lack", "need_fabric", "need_redis"]


def need_fabric() -> None:
    """Skip where this machine cannot have hosts made of namespaces, and say what it lacks."""
    missing = what_is_missing()
    if missing is not None:
        lack(missing)


def need_redis() -> Path:
    """Return the folder of redis-server and redis-cli; as `need_fabric` where they are missing."""
    found = shutil.which("redis-server")
    if found is None:
        lack("not installed: redis-server; run .ci/install-system as root")
    return Path(found).parent


def lack(missing: str) -> NoReturn:
    """Skip a test for what this machine lacks; in CI that fails, for there all is installed."""
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)
