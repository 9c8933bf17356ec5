"""Where too many hosts are silent, nothing is changed on those that answer; seen from outside.

And two people with a checkout each: the second one's plan is refused with the difference.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.full("half a site is silent; tests/kernel has it simulated"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

NOTE, EXTRA = "var/lib/guarded-note", "var/lib/guarded-extra"


@pytest.fixture
def operator(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[Operator]:
    """Return who works on the site, after its first apply."""
    operator = operator_maker("guarded")
    operator.write_inventory({"extra": fabric.plain[:1], "others": fabric.plain[1:]})
    operator.set_variables(text="one")
    first = operator.apply()
    assert first.code == 0, first.err
    yield operator
    for host in fabric.plain:
        fabric.link_up(host)
        for path in (NOTE, EXTRA):
            (fabric.root(host) / path).unlink(missing_ok=True)


def notes(fabric: Fabric) -> list[str]:
    """Return what stands in the notes, host by host, read past network and SSH."""
    return [(fabric.root(host) / NOTE).read_text(encoding="utf-8") for host in fabric.plain]


def apply_without(fabric: Fabric, operator: Operator, silent: Sequence[FabricHost]) -> Run:
    """Apply while some hosts are cut off."""
    for host in silent:
        fabric.link_down(host)
    try:
        return operator.apply()
    finally:
        for host in silent:
            fabric.link_up(host)


def test_three_of_six_silent_hosts_leave_all_as_it_is_and_two_only_themselves(
    fabric: Fabric, operator: Operator
) -> None:
    *_, one, two, three = fabric.plain
    operator.set_variables(text="two")
    refused = apply_without(fabric, operator, [one, two, three])
    assert refused.code == 1, refused.err
    assert refused.transitions() == []
    assert (
        f"3 of 6 hosts cannot be reached ({one.name}, {two.name}, {three.name}), "
        "--max-unreachable allows 2; nothing was changed"
    ) in " ".join(refused.err.split())
    assert notes(fabric) == ["one\n"] * 6

    without = apply_without(fabric, operator, [one, two])
    assert without.code == 1, without.err
    assert notes(fabric) == ["two\n"] * 3 + ["one\n"] * 2 + ["two\n"]

    last = operator.apply()
    assert last.code == 0, last.err
    assert notes(fabric) == ["two\n"] * 6
    assert operator.broken_promises([without, last]) == []


def test_nothing_is_removed_either_before_enough_hosts_have_answered(
    fabric: Fabric, operator: Operator
) -> None:
    """The extra note is gone from the site; its host answers, three that shall change do not."""
    extra = fabric.root(fabric.plain[0]) / EXTRA
    file = operator.folder / "site.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index("  extra:")], encoding="utf-8")
    operator.set_variables(text="two")
    refused = apply_without(fabric, operator, fabric.plain[3:])
    assert refused.code == 1, refused.err
    assert "nothing was changed" in refused.err
    assert extra.exists()
    assert notes(fabric) == ["one\n"] * 6

    done = operator.apply()
    assert done.code == 0, done.err
    assert not extra.exists()
    assert notes(fabric) == ["two\n"] * 6


def test_the_second_of_two_people_is_refused_with_the_difference(
    fabric: Fabric, operator: Operator
) -> None:
    """Both work on one state database, each on a checkout of their own."""
    other = Operator(fabric, operator.folder.with_name("other"))
    shutil.copytree(operator.folder, other.folder)
    state = f"state: sqlite:///{operator.folder}/.cobweb/state.db\n"
    for person in (operator, other):
        file = person.folder / "site.yml"
        file.write_text(file.read_text(encoding="utf-8") + state, encoding="utf-8")
    plans = [str(person.folder / "my.plan") for person in (operator, other)]
    operator.set_variables(text="mine")
    other.set_variables(text="theirs")
    for person, plan in zip((operator, other), plans, strict=True):
        planned = person.cobweb("plan", "--out", plan)
        assert planned.code == 0, planned.err
    done = operator.apply(plans[0], "-m", "My note")
    assert done.code == 0, done.err

    refused = other.apply(plans[1])
    assert (refused.code, refused.events) == (1, ())
    error, run, *objects = refused.err.splitlines()
    assert error.startswith("cobweb: the states have changed since the plan was made (")
    assert run.startswith("note: run ")
    assert run.endswith(", generation 2 (My note)")
    assert objects == [
        f"note: {host.name}/note: to be changed then, up now" for host in fabric.plain
    ]
    assert notes(fabric) == ["mine\n"] * 6

    assert other.cobweb("plan", "--out", plans[1]).code == 0
    again = other.apply(plans[1])
    assert again.code == 0, again.err
    assert notes(fabric) == ["theirs\n"] * 6
