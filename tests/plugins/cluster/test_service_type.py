"""The life-cycle of a service: which states lead where, and what is found without asking a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Nothing, Role, Tasks
from cobweb_plugins.cluster._catalog import Action, Service
from cobweb_plugins.cluster._service_type import GROUPS, RUNNING, STATES, found, service_type

SPEC = {"version": "1", "config": {"a": 1}, "fields": {}, "restarts": 0}
CONFIGURED = {**SPEC, "config": {"a": 2}}
UPGRADED = {**SPEC, "version": "2"}


def service(**actions: str) -> Service:
    made = {name: Action(name=name, tasks=tasks) for name, tasks in actions.items()}
    return Service(name="it", actions=made)


def way(source: str, dest: str) -> list[str]:
    cob_type = service_type(service(), Path("/site"))
    return [step.dest for step in cob_type.way(source, dest) or ()]


@pytest.mark.parametrize(
    ("source", "dest", "expected"),
    [
        ("absent", "started", ["installed", "configured", "initialized", "started"]),
        ("started", "absent", ["initialized", "absent"]),
        ("outdated", "started", ["stale", "initialized", "started"]),
        ("obsolete", "started", ["shelved", "stale", "initialized", "started"]),
        ("obsolete", "absent", ["shelved", "absent"]),
        ("installed", "absent", ["absent"]),
        ("stale", "initialized", ["initialized"]),
    ],
)
def test_each_way_is_that_of_the_paper(source: str, dest: str, expected: list[str]) -> None:
    assert way(source, dest) == expected


def test_what_has_an_older_version_is_upgraded_and_not_initialized_again() -> None:
    cob_type = service_type(service(install="i.yml", initialize="n.yml"), Path("/site"))
    steps = [step.action for step in cob_type.way("obsolete", "started") or ()]
    assert Tasks(path="/site/i.yml") in steps
    assert Tasks(path="/site/n.yml") not in steps
    own = service_type(service(install="i.yml", upgrade="u.yml"), Path("/site"))
    assert Tasks(path="/site/u.yml") in [step.action for step in own.way("shelved", "stale") or ()]


def test_actions_are_tasks_roles_or_nothing_with_their_limits() -> None:
    actions = {
        "install": Action(name="install", role="my.role", timeout_s=7, attempts=2),
        "start": Action(name="start", tasks="tasks/start.yml"),
    }
    cob_type = service_type(Service(name="it", actions=actions), Path("/site"))
    install = cob_type.transition("absent", "installed")
    start = cob_type.transition("initialized", "started")
    configure = cob_type.transition("installed", "configured")
    assert install
    assert start
    assert configure
    assert (install.action, install.timeout_s, install.attempts) == (Role(name="my.role"), 7, 2)
    assert start.action == Tasks(path="/site/tasks/start.yml")
    assert configure.action == Nothing()


def test_what_runs_serves_by_whatever_specification() -> None:
    cob_type = service_type(service(), Path("/site"))
    assert {state for state in STATES if cob_type.serves(state)} == set(RUNNING)
    assert not any(step.interrupts for step in cob_type.transitions)


def test_groups_part_the_states_in_running_and_stopped() -> None:
    assert {*GROUPS["stopped"], *RUNNING} == set(STATES)
    assert not set(GROUPS["stopped"]) & set(RUNNING)
    assert set(GROUPS["present"]) == set(STATES) - {"absent"}


@pytest.mark.parametrize(
    ("recorded", "spec", "applied", "expected"),
    [
        (None, SPEC, None, "absent"),
        ("absent", SPEC, SPEC, "absent"),
        ("started", SPEC, SPEC, "started"),
        ("started", CONFIGURED, SPEC, "outdated"),
        ("started", UPGRADED, SPEC, "obsolete"),
        ("outdated", UPGRADED, SPEC, "obsolete"),
        ("outdated", SPEC, SPEC, "outdated"),
        ("initialized", CONFIGURED, SPEC, "stale"),
        ("initialized", UPGRADED, SPEC, "shelved"),
        ("stale", CONFIGURED, SPEC, "stale"),
        ("shelved", CONFIGURED, SPEC, "shelved"),
        ("configured", CONFIGURED, SPEC, "installed"),
        ("configured", UPGRADED, SPEC, "absent"),
        ("configured", SPEC, None, "installed"),
        ("initialized", SPEC, None, "installed"),
        ("nonsense", SPEC, SPEC, "absent"),
    ],
)
def test_the_journal_is_believed_and_older_specs_are_told(
    recorded: str | None, spec: dict[str, Any], applied: dict[str, Any] | None, expected: str
) -> None:
    assert found(recorded, spec, applied) == expected
