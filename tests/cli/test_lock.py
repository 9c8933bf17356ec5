"""`cobweb lock` shows, holds and breaks the lock of a site."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.errors import LockedError
from cobweb.store import this_process

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]


def test_a_free_site_is_not_locked(run: Run, site: Path, check_schema: CheckSchema) -> None:
    ran = run("-C", site, "lock", "show")
    assert (ran.code, ran.out) == (0, "the site is not locked\n")
    data = json.loads(run("-C", site, "lock", "show", "-o", "json").out)
    check_schema("lock", data)
    assert data["lock"] is None


def test_a_hold_locks_and_can_be_broken(run: Run, site: Path, check_schema: CheckSchema) -> None:
    ran = run("-C", site, "lock", "hold", "--for", "10m", "--reason", "disk swap")
    name = ran.out.strip()
    assert ran.code == 0
    assert name.startswith("hold-")
    data = json.loads(run("-C", site, "lock", "show", "-o", "json").out)
    check_schema("lock", data)
    assert (data["lock"]["id"], data["lock"]["reason"]) == (name, "disk swap")
    assert data["lock"]["until"] - data["lock"]["since"] == pytest.approx(600, abs=1)
    assert run("-C", site, "lock", "break", name, "--yes").code == 0
    assert run("-C", site, "lock", "show").out == "the site is not locked\n"


def test_a_second_hold_is_refused_with_the_owner(run: Run, site: Path) -> None:
    name = run("-C", site, "lock", "hold", "--for", "10m", "--reason", "disk swap").out.strip()
    ran = run("-C", site, "lock", "hold", "--for", "1m")
    assert ran.code == 5
    assert name in ran.err
    assert "disk swap" in ran.err
    assert f"(wait, as --wait 10m does; `cobweb lock break {name}` ends it)" in ran.err


def test_breaking_what_is_not_there_is_an_error(run: Run, site: Path) -> None:
    ran = run("-C", site, "lock", "break", "nobody")
    assert (ran.code, ran.out) == (64, "")
    assert "not locked" in ran.err
    name = run("-C", site, "lock", "hold", "--for", "10m").out.strip()
    ran = run("-C", site, "lock", "break", "nobody", "--yes")
    assert ran.code == 64
    assert name in ran.err


def test_the_lock_of_a_run_is_shown_and_kept_off(run: Run, site: Path) -> None:
    with Site(site) as session:
        lock = session.store(create=True).site_lock(clock=lambda: 1e9)
        owner = this_process(run="r1", reason="apply", since=1e9)
        with lock.acquire(owner):
            assert "run r1" in run("-C", site, "lock", "show").out
            assert run("-C", site, "lock", "hold", "--for", "1m").code == 5


def test_a_broken_lock_stops_its_run(run: Run, site: Path) -> None:
    with Site(site) as session:
        lock = session.store(create=True).site_lock(clock=lambda: 1e9)
        held = lock.acquire(this_process(run="r1", reason="apply", since=1e9))
        refused = run("-C", site, "lock", "break", "r1")
        assert (refused.code, refused.out) == (64, "")
        assert "nobody can be asked without a terminal (add --yes)" in refused.err
        warned = f"its process {os.getpid()} on this machine is alive: what it has at work "
        warned += "on hosts goes on until the next run ends it\n"
        assert refused.err.startswith(warned)
        lock.beat("r1")
        assert run("-C", site, "lock", "break", "r1", "--yes").code == 0
        with pytest.raises(LockedError):
            lock.beat("r1")
        held.release()


def test_a_reason_cannot_write_escape_sequences(run: Run, site: Path) -> None:
    run("-C", site, "lock", "hold", "--for", "10m", "--reason", "\x1b[2Jevil\nline")
    ran = run("-C", site, "lock", "show")
    assert "\x1b" not in ran.out
    assert ran.out.count("\n") == 1
