"""What the section `serve` says: admissions, windows, options; and what of it is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.cli import main
from cobweb.errors import ModelError
from cobweb_plugins.controller._policy import DAYS, Admission, Policy

HEAD = """\
cobweb: 1
name: guarded
inventory: {all: {hosts: {n1: }, vars: {ansible_connection: local}}}
serve:
"""

Validate = Callable[[str], tuple[int, str]]

HOUR_S, DAY_S = 3600, 86400

CLOCK_CHANGES = {
    "Africa/Casablanca": ("2026-02-15", "2026-03-22"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "America/St_Johns": ("2010-11-07", "2011-03-13"),  # at one minute past midnight
    "America/Santiago": ("2026-04-05", "2026-09-06"),  # the gap is at midnight
    "Asia/Kathmandu": ("2026-01-01",),  # 5:45 h, and no changes
    "Australia/Lord_Howe": ("2026-04-04", "2026-10-03"),  # half an hour
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "Pacific/Apia": ("2011-12-30",),  # a day that there was not
    "UTC": ("2026-11-30",),
}
"""Days at whose ends or in whose midst clocks of a zone change."""


def moment(text: str, zone: str = "UTC") -> float:
    """Return the moment of a wall time such as `2026-11-30 22:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def wall(now_s: float, zone: str = "Europe/Berlin") -> str:
    """Return the wall time of a moment with its offset."""
    return datetime.fromtimestamp(now_s, ZoneInfo(zone)).strftime("%a %Y-%m-%d %H:%M %z")


def policy(*windows: dict[str, Any], **section: Any) -> Policy:
    """Return a policy with these windows."""
    return Policy.of({"windows": list(windows), **section} if windows else section)


def open_minutes(window: dict[str, Any], now_s: int) -> Iterator[tuple[int, bool]]:
    """Yield each minute from this one, and whether a window is open: the dumb implementation.

    It is as long as the latest wall time that clocks have shown by then is within the hours of one
    of the days. It walks from some days before, so that clocks that are set back are ahead already.
    """
    clock, latest = ZoneInfo(window["zone"]), datetime(1, 1, 1)  # noqa: DTZ001  # a wall time
    for minute_s in itertools.count(now_s - 2 * DAY_S, 60):
        latest = max(latest, datetime.fromtimestamp(minute_s, clock).replace(tzinfo=None))
        if minute_s >= now_s:
            days = (hours_of(window, latest, days) for days in range(-2, 1))
            yield minute_s, any(begin <= latest < end for begin, end in days if begin)


def hours_of(
    window: dict[str, Any], shown: datetime, days: int
) -> tuple[datetime | None, datetime]:
    """Return the wall times between which a window is open, so many days from one; None if not."""
    midnight = shown.replace(hour=0, minute=0, second=0) + timedelta(days=days)
    begin, end = (
        midnight + timedelta(hours=int(it[:2]), minutes=int(it[3:]))
        for it in (window["from"], window["to"])
    )
    is_of_day = DAYS[begin.weekday()] in window["days"]
    return begin if is_of_day else None, end if begin < end else end + timedelta(days=1)


CLOCKS = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.sampled_from([0, 1, 29, 30, 59]))


@st.composite
def windows_and_moments(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """Draw a window and a whole minute, most of them near a change of clocks."""
    zone = draw(st.sampled_from(sorted(CLOCK_CHANGES)))
    day = draw(st.sampled_from(CLOCK_CHANGES[zone]))
    from_, to = draw(st.lists(CLOCKS, min_size=2, max_size=2, unique=True))
    days = draw(st.sets(st.sampled_from(DAYS), min_size=1))
    now_s = int(moment(day)) + 60 * draw(st.integers(-9 * 1440, 3 * 1440))
    window = {"zone": zone, "from": from_, "to": to, "days": sorted(days, key=DAYS.index)}
    return window, now_s


@pytest.mark.gate("many windows, looked at minute by minute")
@given(windows_and_moments())
def test_windows_are_open_and_open_again_as_the_clocks_show(
    drawn: tuple[dict[str, Any], int],
) -> None:
    window, now_s = drawn
    opens_s = next(minute_s for minute_s, is_open in open_minutes(window, now_s) if is_open)
    closed = policy(window).closed(["git"], now_s)
    assert (closed.opens_s if closed else now_s) == opens_s


@given(windows_and_moments(), windows_and_moments())
def test_of_several_windows_the_first_to_open_counts_and_of_several_sources_the_last(
    one: tuple[dict[str, Any], int], other: tuple[dict[str, Any], int]
) -> None:
    (first, now_s), (second, _) = one, other
    alone = [policy(it).closed(["git"], now_s) for it in (first, second)]
    opens = [it.opens_s for it in alone if it]
    together = policy(first, second).closed(["git"], now_s)
    assert (together is None) == (len(opens) < 2)
    if together:
        assert together.opens_s == min(opens)
    parted = policy({**first, "sources": ["git"]}, {**second, "sources": ["pools"]})
    closed = parted.closed(["pools", "git"], now_s)
    assert (closed is None) == (not opens)
    if closed:
        assert closed.opens_s == max(opens)
        assert parted.closed([closed.source], closed.opens_s) is None


@pytest.mark.parametrize(
    ("hours", "now", "opens"),
    [
        # The gap of 2026-03-29 is from 02:00 to 03:00.
        ({"from": "02:30", "to": "05:00"}, "2026-03-29 00:10", "Sun 2026-03-29 03:00 +0200"),
        ({"from": "01:00", "to": "02:30"}, "2026-03-29 03:00", "Mon 2026-03-30 01:00 +0200"),
        ({"from": "02:10", "to": "02:50"}, "2026-03-29 00:10", "Mon 2026-03-30 02:10 +0200"),
        (
            {"from": "02:10", "to": "02:50", "days": ["sun"]},
            "2026-03-28 12:00",
            "Sun 2026-04-05 02:10 +0200",
        ),
        # On 2026-10-25 02:00 to 03:00 comes twice.
        ({"from": "02:30", "to": "05:00"}, "2026-10-25 00:10", "Sun 2026-10-25 02:30 +0200"),
        ({"from": "00:30", "to": "01:30"}, "2026-10-25 02:10", "Mon 2026-10-26 00:30 +0100"),
        ({"from": "22:00", "to": "04:00"}, "2026-11-30 04:00", "Mon 2026-11-30 22:00 +0100"),
        (
            {"from": "22:00", "to": "00:00", "days": ["sun"]},
            "2026-11-30 00:00",
            "Sun 2026-12-06 22:00 +0100",
        ),
        ({"days": ["mon"]}, "2026-11-29 23:59", "Mon 2026-11-30 00:00 +0100"),
        ({"from": "02:00", "to": "01:59"}, "2026-11-30 01:59", "Mon 2026-11-30 02:00 +0100"),
    ],
    ids=str,
)
def test_a_window_opens_next(hours: dict[str, Any], now: str, opens: str) -> None:
    guarded = policy({"zone": "Europe/Berlin", **hours})
    closed = guarded.closed(["git"], moment(now, "Europe/Berlin"))
    assert closed is not None
    assert wall(closed.opens_s) == opens
    assert guarded.closed(["git"], closed.opens_s) is None
    assert guarded.closed(["git"], closed.opens_s - 1) is not None


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    night = policy({"from": "22:00", "to": "04:00", "days": ["mon"]})
    assert night.closed(["git"], moment("2026-12-01 03:59")) is None
    assert night.closed(["git"], moment("2026-11-30 03:59")) is not None
    assert night.closed(["git"], moment("2026-12-01 22:30")) is not None


def test_a_day_that_has_begun_goes_on_where_clocks_are_set_back_over_midnight() -> None:
    sunday = policy({"days": ["sun"], "zone": "America/St_Johns"})
    midnight_s = moment("2010-11-07 00:00", "America/St_Johns")
    shown = wall(midnight_s + 120, "America/St_Johns")
    assert shown == "Sat 2010-11-06 23:02 -0330"
    found = [sunday.closed(["git"], midnight_s + it) is None for it in (-1, 0, 120, HOUR_S)]
    assert found == [False, True, True, True]


def test_who_is_named_by_no_window_may_always() -> None:
    now_s = moment("2026-11-30 12:00")
    night = {"from": "22:00", "to": "04:00", "zone": "Europe/Berlin", "sources": ["git"]}
    assert policy().closed(["git", "pools"], now_s) is None
    assert policy(night).closed(["pools", "drift"], now_s) is None
    assert policy(night).closed([], now_s) is None
    closed = policy(night).closed(["pools", "git"], now_s)
    assert closed is not None
    assert (closed.source, closed.opens_s) == ("git", moment("2026-11-30 21:00"))
    expected = "outside of `serve.windows` until Mon 2026-11-30 22:00 Europe/Berlin"
    assert closed.text == expected
    everyone = {key: it for key, it in night.items() if key != "sources"}
    assert policy(night, everyone).closed(["drift"], now_s) is not None


@pytest.mark.parametrize(
    ("section", "source", "goes_out", "admission", "reason"),
    [
        (None, "git", False, "auto", "`serve.apply` is auto for git"),
        (None, "git", True, "approve", "`serve.outages` is approve for git"),
        ({"outages": "auto"}, "git", True, "auto", "`serve.apply` is auto for git"),
        ({"apply": "approve"}, "pools", True, "approve", "`serve.apply` is approve for pools"),
        ({"apply": "never"}, "git", True, "never", "`serve.apply` is never for git"),
        ({"apply": {"git": "never"}}, "drift", False, "auto", "`serve.apply` is auto for drift"),
        ({"apply": {"git": "never"}}, "git", False, "never", "`serve.apply` is never for git"),
        (
            {"outages": {"pools": "auto"}},
            "git",
            True,
            "approve",
            "`serve.outages` is approve for git",
        ),
        ({"outages": {"pools": "auto"}}, "pools", True, "auto", "`serve.apply` is auto for pools"),
    ],
    ids=str,
)
def test_the_stricter_rule_counts(
    section: dict[str, Any] | None, source: str, *, goes_out: bool, admission: str, reason: str
) -> None:
    found = Policy.of(section).admission(source, goes_out=goes_out)
    assert found == (Admission(admission), reason)


@pytest.mark.parametrize(
    ("drift", "every_s", "repaired", "left"),
    [
        ({}, None, [], ["web1/app"]),
        ({"every": "1h", "repair": "none"}, 3600.0, [], ["web1/app"]),
        ({"every": 90, "repair": "all"}, 90.0, ["web1/app", "db/x"], []),
        ({"repair": ["web*/app", "db/*"]}, None, ["web1/app", "db/x"], ["Web1/app", "web1/x"]),
    ],
    ids=str,
)
def test_objects_are_repaired_by_their_ids(
    drift: dict[str, Any], every_s: float | None, repaired: Sequence[str], left: Sequence[str]
) -> None:
    found = Policy.of({"drift": drift})
    assert found.drift_every_s == every_s
    assert [it for it in [*repaired, *left] if found.repairs(it)] == repaired
    assert found.repairs_none == (not repaired)
    assert found.repairs_all == (not left)


RUN = {
    "parallel": 20,
    "timeout": "10m",
    "max_removals": "30%",
    "max_failures": 3,
    "max_unreachable": "10%",
    "on_failure": "stay",
    "trust": "60s",
    "refresh": "changed",
    "executor": "simulate",
    "store_timeout": "60s",
    "budget": {"rolling": 2},
}


def test_options_of_runs_are_words_that_the_commands_take(tmp_path: Path) -> None:
    """A plan is made and applied with all of them."""
    limits = "limits: {rolling: {on: all, cob: stamp, max: 1}}\n"
    spec = f"{{path: {tmp_path}/stamp, content: x}}"
    stamp = f"cobs: {{stamp: {{type: file, on: all, spec: {spec}}}}}\n"
    text = HEAD.removesuffix("serve:\n") + limits + stamp
    (tmp_path / "site.yml").write_text(text, encoding="utf-8")
    guarded, plan = Policy.of({"run": RUN}), str(tmp_path / "saved.plan")
    assert Policy.of({}).apply_words() == Policy.of({}).plan_words() == []
    words = guarded.plan_words()
    assert words == ["--max-removals=30%", "--refresh=changed", "--budget=rolling=2"]
    site = ["-C", str(tmp_path)]
    assert main([*site, "plan", "--out", plan, *words]) == 0
    words = guarded.apply_words()
    assert {it.split("=")[0] for it in words} == {f"--{it.replace('_', '-')}" for it in RUN}
    assert main([*site, "apply", plan, *words]) == 0


@pytest.fixture
def validate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Validate:
    """Return what validates a site with a text below `serve:`, whose first line is 5."""

    def call(text: str) -> tuple[int, str]:
        (tmp_path / "site.yml").write_text(f"{HEAD}{text}\n", encoding="utf-8")
        capsys.readouterr()
        code = main(["-C", str(tmp_path), "validate"])
        return code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    "text",
    [
        "  {}",
        "  apply: auto",
        "  apply: {git: approve, drift: never}\n  outages: {git: auto}",
        "  windows: [{days: [mon], from: 22:00, to: 04:00, zone: Europe/Berlin, sources: [git]}]",
        "  windows: [{days: [sat, sun]}, {from: 00:00, to: 24:00}, {from: 22:00, to: 00:00}]",
        "  drift: {every: 1h, repair: none}",
        "  drift: {every: 3600, repair: ['web*/app', '*/x']}",
        f"  run: {RUN}".replace("'", '"'),
        "  run: {trust: 0, max_removals: 0, max_failures: 100%}",
    ],
)
def test_a_policy_is_valid(validate: Validate, text: str) -> None:
    code, said = validate(text)
    assert code == 0, said


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("  apply: sometimes", 10, "(possible are `auto`, `approve` or `never`)"),
        ("  apply: {git: soon}", 16, "`apply.git` cannot be `soon`"),
        ("  apply: {gti: auto}", 16, "there is no source `gti` (there are drift, git)"),
        ("  apply: {serve: auto}", 18, "there is no source `serve`"),
        ("  apply: {}", 10, "`apply`"),
        ("  outages: never", 12, "(possible are `auto` or `approve`)"),
        ("  outages: {drift: never}", 20, "(possible are `auto` or `approve`)"),
        ("  outages: {pools: auto}", 20, "there is no source `pools`"),
        ("  windows: []", 12, "`windows`"),
        ("  windows: [{}]", 13, "`windows.0`"),
        ("  windows: [{days: []}]", 20, "`windows.0.days`"),
        ("  windows: [{days: [monday]}]", 21, "`monday`"),
        ("  windows: [{sources: []}]", 23, "`windows.0.sources`"),
        ("  windows: [{sources: [gti]}]", 24, "there is no source `gti`"),
        ("  windows: [{from: 24:00}]", 20, "`24:00`"),
        ("  windows: [{from: 7:00}]", 20, "`7:00`"),
        ("  windows: [{to: 24:01}]", 18, "`24:01`"),
        ("  windows: [{from: 07:00, to: 07:00}]", 13, "the window is empty (without `from`"),
        ("  windows: [{to: 00:00}]", 13, "the window is empty"),
        ("  windows: [{zone: Europe/Berln}]", 20, "there is no time zone `Europe/Berln`"),
        ("  windows: [{zone: Europe}]", 20, "there is no time zone `Europe`"),
        ("  windows: [{zone: ../../etc/passwd}]", 20, "there is no time zone"),
        ('  windows: [{zone: "a\\0b"}]', 20, "there is no time zone"),
        ("  drift: {every: soon}", 18, "`soon` is no duration"),
        ("  drift: {every: 0}", 18, "`0` is not between 0 and 366 days (as in `60s`)"),
        ("  drift: {repair: some}", 19, "(possible are `none` or `all`)"),
        ("  drift: {repair: []}", 19, "`drift.repair`"),
        ("  drift: {repair: [app]}", 20, "`app` is no pattern of ids"),
        ("  run: {parallel: 0}", 19, "`run.parallel`"),
        ("  run: {timeout: 0}", 18, "`0` is not between 0 and 366 days"),
        ("  run: {store_timeout: late}", 24, "`late` is no duration"),
        ("  run: {trust: old}", 16, "`old` is no duration"),
        ("  run: {max_removals: 101%}", 23, "`101%`"),
        ("  run: {max_failures: -1}", 23, "-1"),
        ("  run: {budget: {a=b: 2}}", 17, "`a=b`"),
        ("  run: {budget: {rolling: 0}}", 27, "`run.budget.rolling`"),
        ("  run: {seed: 1}", 9, "`seed`"),
        ("  listen: localhost", 3, "`listen`"),
    ],
)
def test_a_policy_is_refused_with_place_and_message(
    validate: Validate, text: str, column: int, said: str
) -> None:
    code, told = validate(text)
    assert (code, "Traceback" in told) == (3, False)
    assert told.startswith(f"site.yml:5:{column}: "), told
    assert said in told


def test_all_that_is_wrong_is_told_at_once() -> None:
    bad = {"zone": "Nowhere", "from": "07:00", "to": "07:00"}
    with pytest.raises(ModelError) as raised:
        policy(bad, bad, drift={"every": "soon", "repair": ["app"]}, run={"timeout": "x"})
    keys = [it[0] for it in raised.value.problems]
    windows = [("serve", "windows", number) for number in (0, 0, 1, 1)]
    assert [it[:3] for it in keys[:4]] == windows
    assert keys[4:] == [
        ("serve", "drift", "every"),
        ("serve", "drift", "repair", 0),
        ("serve", "run", "timeout"),
    ]


def test_moments_do_not_need_to_be_whole_minutes() -> None:
    hours = policy({"from": "10:00", "to": "11:00"})
    begin_s = datetime(2026, 11, 30, 10, tzinfo=UTC).timestamp()
    closed = hours.closed(["git"], begin_s - 0.001)
    assert closed is not None
    assert closed.opens_s == begin_s
    assert hours.closed(["git"], begin_s + HOUR_S - 0.001) is None
