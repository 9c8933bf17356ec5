"""The observer `annotations` tells a pipeline what went wrong in the run of the result."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.plugin import Observer
from cobweb.testing import NamedCheck, ObserverCase, observer_checks
from cobweb_plugins.report import cobweb_register_observers

Tale = Any

WAIT = {
    "cob": "beta/b",
    "state": "down",
    "chain": [{"cob": "db/db", "kind": "failed", "on": None, "state": "", "detail": ""}] * 2,
}


def _made() -> Observer:
    (made,) = cobweb_register_observers()
    return made()


@pytest.mark.parametrize(
    "check", observer_checks(ObserverCase(make=_made, refused="argument")), ids=str
)
def test_annotations_conform(check: NamedCheck) -> None:
    check()


@pytest.mark.parametrize(("exit_code", "told"), [(1, ["::error", "::error", "::warning"]), (0, [])])
def test_the_run_of_the_result_is_told_where_it_did_not_go_well(
    bad: Tale,
    exit_code: int,
    told: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    version, start, *_ = bad.events
    observer = _made()
    observer.open("")
    for event in [*bad.events, version, {**start, "run": "r2"}]:
        observer.take(event)
    observer.close({"run": "r1", "exit_code": exit_code, "unsettled": [WAIT]})
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[0] for line in lines] == told
    if told:
        assert lines[-1].startswith("::warning title=cobweb%3A 1 waiting%3A db/db failed")


def test_it_comes_unasked_in_a_pipeline_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    observer: Any = _made()
    assert not observer.unasked()
    monkeypatch.setenv("GITLAB_CI", "true")
    assert observer.unasked()
