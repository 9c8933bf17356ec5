"""What tests on hosts made of namespaces ask of the machine, in one place."""

from __future__ import annotations

import os

import pytest

from tests.support.fabric import what_is_missing

__all__ = ["need_fabric"]


def need_fabric() -> None:
    """Skip where this machine cannot have hosts made of namespaces, and say what it lacks.

    In CI that is a failure: there all of it is installed.
    """
    missing = what_is_missing()
    if missing is None:
        return
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)
