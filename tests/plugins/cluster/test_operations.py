"""Operations as changes of what the site says of a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cobweb.errors import UsageError
from cobweb_plugins.cluster import _operations as operations
from cobweb_plugins.cluster._catalog import Lease

NOW = datetime(2030, 1, 10, 12, tzinfo=UTC)
DAY = 86400.0
SAID: dict[str, Any] = {"template": "t", "nodes": 3}
LEASED = {
    **SAID,
    "lease": {"created": "2030-01-01T00:00:00+00:00", "expires": "2030-01-20T00:00:00+00:00"},
}


def test_each_changes_what_it_is_about_and_nothing_else() -> None:
    before = dict(SAID)
    assert operations.scaled(SAID, 5) == {**SAID, "nodes": 5}
    assert operations.switched(SAID, "stopped") == {**SAID, "state": "stopped"}
    assert operations.switched({**SAID, "state": "stopped"}, "started") == SAID
    assert operations.restarted(operations.restarted(SAID))["restarts"] == 2
    assert operations.with_services(SAID, ("a",), ("b",))["services"] == ["a", "b"]
    assert operations.without_services(SAID, ("a", "b"), ("a",))["services"] == ["b"]
    upgraded = operations.upgraded({**SAID, "versions": {"a": "1"}}, {"b": "2"}, ("a", "b"))
    assert upgraded["versions"] == {"a": "1", "b": "2"}
    assert before == SAID


def test_configuration_is_set_by_paths_and_taken_back() -> None:
    one = operations.configured(SAID, {"db.port": 1, "db.host.name": "x"})
    assert one["config"] == {"db": {"port": 1, "host": {"name": "x"}}}
    two = operations.configured(one, {"db.port": 2}, ("db.host",))
    assert two["config"] == {"db": {"port": 2}}
    assert one["config"]["db"]["port"] == 1
    assert "config" not in operations.configured({**SAID, "config": {"a": 1}}, {}, ("a",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: operations.with_services(SAID, ("a",), ("a",)), "has the service a already"),
        (lambda: operations.without_services(SAID, ("a",), ("b",)), "has no service b"),
        (lambda: operations.upgraded(SAID, {"b": "2"}, ("a",)), "has no service b"),
        (lambda: operations.configured(SAID, {}, ("a.b",)), "a.b is not set"),
        (
            lambda: operations.configured({**SAID, "config": {"a": 1}}, {"a.b": 1}),
            "a is no mapping",
        ),
        (lambda: operations.extended(SAID, Lease(), DAY, NOW), "no lease that could end"),
        (lambda: operations.extended(LEASED, Lease(), None, NOW), "names no step"),
        (
            lambda: operations.extended(LEASED, Lease(step_s=DAY), 2 * DAY, NOW),
            "a shorter extension",
        ),
        (
            lambda: operations.extended(LEASED, Lease(max_s=20 * DAY), 5 * DAY, NOW),
            "longer than its template allows",
        ),
    ],
    ids=[
        "twice",
        "not there",
        "no such service",
        "not set",
        "no mapping",
        "no lease",
        "no step",
        "too long a step",
        "too long",
    ],
)
def test_what_cannot_be_is_wrong_usage(change: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        change()


def test_a_lease_begins_with_the_cluster_and_goes_on_from_its_end() -> None:
    lease = Lease(initial_s=30 * DAY, max_s=90 * DAY, step_s=7 * DAY)
    said = operations.leased(SAID, lease, NOW)
    assert said["lease"]["expires"] == "2030-02-09T12:00:00+00:00"
    longer = operations.extended(said, lease, None, NOW)
    assert longer["lease"] == {
        "created": "2030-01-10T12:00:00+00:00",
        "expires": "2030-02-16T12:00:00+00:00",
    }
    assert operations.leased(SAID, Lease(), NOW) == SAID


def test_one_that_has_ended_is_prolonged_from_now() -> None:
    late = NOW + timedelta(days=100)
    longer = operations.extended(LEASED, Lease(step_s=7 * DAY), None, late)
    assert longer["lease"]["expires"] == "2030-04-27T12:00:00+00:00"


def test_those_whose_lease_has_ended_are_found() -> None:
    clusters = {"for-ever": SAID, "later": LEASED, "ended": LEASED}
    assert operations.expired(clusters, NOW) == []
    ended = {**LEASED, "lease": {"expires": "2030-01-10T13:00:00+01:00"}}
    assert operations.expired({**clusters, "ended": ended}, NOW) == ["ended"]
