"""Plans of a large site are printed from what was kept, and only while nothing differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cobweb
from cobweb import operations
from cobweb._tables import Tone
from cobweb.api import Site
from cobweb.cli._cached_plans import PrintedPlan
from cobweb.model import CobId
from cobweb.operations import plan_site
from cobweb.store import HostLost, StateWritten, Store, TransitionBegan
from tests.cli.test_running import APPLY, edit, written

Run = Callable[..., Any]
A, CFG = CobId("alpha/a"), CobId("alpha/cfg")


@pytest.fixture(autouse=True)
def _keep_small_sites(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COBWEB_NO_CACHE", raising=False)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the plans that were made rather than taken from what was kept."""
    plans: list[Any] = []

    def watched(*arguments: Any, **options: Any) -> Any:
        plans.append(plan_site(*arguments, **options))
        return plans[-1]

    monkeypatch.setattr(operations, "plan_site", watched)
    return plans


FORMS = [(), ("-o", "json"), ("-o", "yaml"), ("--refresh", "all")]


@pytest.mark.gate("a kept plan")
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_the_second_plan_is_the_first_one_printed_again(
    run: Run, site: Path, made: list[Any], form: tuple[str, ...]
) -> None:
    plain = run("-C", site, "plan", "--detailed-exitcode", "--no-cache", *form)
    run("-C", site, "validate")
    first = run("-C", site, "plan", "--detailed-exitcode", *form)
    assert len(made) == 2
    again = run("-C", site, "plan", "--detailed-exitcode", *form)
    assert len(made) == 2
    assert again == first == plain


def test_a_plan_of_a_site_that_was_just_read_is_kept(run: Run, site: Path, made: list[Any]) -> None:
    first = run("-C", site, "plan")
    assert run("-C", site, "plan") == first
    assert len(made) == 1


def test_a_saved_plan_is_the_same_file_and_is_refused_when_the_states_have_changed(
    run: Run, site: Path, made: list[Any], tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    run("-C", site, "plan")
    for file in (one, two):
        assert f"saved; carry it out with: cobweb apply {file}" in (
            run("-C", site, "plan", "--out", file).err
        )
    assert len(made) == 2
    assert one.read_bytes() == two.read_bytes()
    assert run("-C", site, "apply", two, "--executor", "simulate").code == 0
    stale = run("-C", site, "apply", two, "--executor", "simulate")
    assert "the states have changed since the plan was made" in stale.err


def test_a_plan_of_a_part_is_made_anew(run: Run, site: Path, made: list[Any]) -> None:
    """Its states are few; looking all of them up would take longer."""
    first = run("-C", site, "plan", "--limit", "beta")
    assert run("-C", site, "plan", "--limit", "beta") == first
    assert len(made) == 2


def test_after_an_apply_nothing_is_pending(run: Run, site: Path, made: list[Any]) -> None:
    assert run("-C", site, "plan", "--detailed-exitcode").code == 2
    assert run("-C", site, *APPLY).code == 0
    for _ in range(2):
        rest = run("-C", site, "plan", "--detailed-exitcode")
        assert (rest.code, rest.err) == (0, "nothing to change\n")
    assert len(made) == 2


@pytest.mark.parametrize(
    "entry",
    [
        StateWritten(cob=A, state="down", reason="check", time=2.0),
        StateWritten(cob=CFG, state="up", reason="check", time=2.0, content="another"),
        StateWritten(cob=CFG, state="up", reason="check", time=2.0, applied={"text": "x"}),
        TransitionBegan(cob=A, source="up", dest="down", time=2.0),
        HostLost(host="beta", time=2.0),
    ],
    ids=repr,
)
def test_a_changed_belief_is_planned_anew(
    run: Run, site: Path, made: list[Any], entry: Any
) -> None:
    assert run("-C", site, *APPLY).code == 0
    run("-C", site, "plan")
    written(site, entry)
    assert run("-C", site, "plan") == run("-C", site, "plan", "--no-cache")
    assert len(made) == 3


@pytest.mark.gate("a kept plan that is stale")
@pytest.mark.parametrize("name", ["site.yml", "simple/check.yml", "host_vars/alpha.yml"])
def test_a_changed_or_new_file_is_planned_anew(
    run: Run, site: Path, made: list[Any], name: str
) -> None:
    run("-C", site, "plan")
    path = site / name
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    run("-C", site, "plan")
    assert len(made) == 2


def test_a_mistake_is_told_though_the_site_was_kept(run: Run, site: Path, made: list[Any]) -> None:
    run("-C", site, "plan")
    edit(site, "requires: [a@back]", "requires: [x@back]")
    assert run("-C", site, "plan").code == 3
    assert run("-C", site, "validate").code == 3
    edit(site, "requires: [x@back]", "requires: [a@back]")
    run("-C", site, "plan")
    assert len(made) == 1


def test_what_can_never_work_is_told_each_time(run: Run, site: Path, made: list[Any]) -> None:
    """A site that can be evaluated is kept; that it has no mistakes is not."""
    edit(site, "    on: back\n  b:", "    on: back\n    requires: [b@front]\n  b:")
    for _ in range(2):
        assert run("-C", site, "validate").code == 3
        assert run("-C", site, "plan").code == 3
    assert made == []


def test_other_options_and_another_width_are_other_plans(
    run: Run, site: Path, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("-C", site, "plan")
    for number, options in enumerate(FORMS[1:], start=2):
        run("-C", site, "plan", *options)
        assert len(made) == number
    monkeypatch.setenv("COLUMNS", "60")
    run("-C", site, "plan")
    assert len(made) == len(FORMS) + 1


def test_another_version_or_another_planner_plans_anew(
    run: Run, site: Path, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("-C", site, "plan")
    monkeypatch.setattr(cobweb, "__version__", "99")
    run("-C", site, "plan")
    assert len(made) == 2
    read_bytes = Path.read_bytes

    def edited(path: Path) -> bytes:
        """Return what is in a file after an edit that leaves its size and time as they were."""
        return read_bytes(path).swapcase() if path.name == "_stages.py" else read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", edited)
    run("-C", site, "plan")
    assert len(made) == 3


def test_a_plan_is_not_kept_if_someone_wrote_meanwhile(
    run: Run, site: Path, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-C", site, *APPLY).code == 0
    states, entry = Store.states, StateWritten(cob=A, state="down", reason="check", time=2.0)

    def busy(store: Store) -> Any:
        with Site(site) as other:
            other.store(create=True).write([entry])
        return states(store)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "states", busy)
        assert "a  " in run("-C", site, "plan").out
    written(site, StateWritten(cob=A, state="up", reason="check", time=3.0))
    assert run("-C", site, "plan").err == "nothing to change\n"
    assert len(made) == 2


def test_nothing_is_kept_where_the_user_wants_nothing_kept(
    run: Run, site: Path, made: list[Any], tmp_path: Path
) -> None:
    run("-C", site, "plan", "--no-cache")
    run("-C", site, "plan", "--no-cache")
    assert len(made) == 2
    assert not (tmp_path / "cache").exists()


def test_a_kept_site_is_validated_with_the_same_words(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (site / "site.yml").open("a") as file:
        file.write("limits: {none: {on: all, cob: z*, max: 1}}\n")
    first = run("-C", site, "validate")
    assert "limit `none` matches nothing (no COB has such a name)" in first.err
    assert "2 hosts, 3 COBs, " in first.err

    def never(*_arguments: Any) -> None:
        raise AssertionError("the graph is not needed")

    monkeypatch.setattr(Site, "graph", never)
    assert run("-C", site, "validate") == first


def test_every_text_survives_being_kept() -> None:
    plan = PrintedPlan(
        text="é\udcff\n" * 3,
        summaries=[("x\x00", Tone.GOOD)],
        file="",
        is_empty=True,
        is_refused=False,
        is_stuck=True,
    )
    assert PrintedPlan.unpack(plan.pack()) == plan


def test_a_plan_names_the_last_run_also_where_that_changed_nothing(
    run: Run, site: Path, made: list[Any]
) -> None:
    assert run("-C", site, *APPLY).code == 0
    first = run("-C", site, "plan", "-o", "json")
    assert run("-C", site, *APPLY).code == 0
    again = run("-C", site, "plan", "-o", "json")
    assert len(made) == 2
    assert made[0].run != made[1].run
    assert first.out.replace(made[0].run, made[1].run) == again.out
