"""An application that was run before, and one whose site says something else meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.plugins.applications.conftest import Start
from tests.support.counted_application import CountedApplication

HOSTS = ("n1", "n2")


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[CountedApplication]:
    ring = CountedApplication(tmp_path)
    yield ring
    ring.end()


def run_once(run: Run, ring: CountedApplication, code: int = 0) -> str:
    ran = run("-C", ring.folder, "app", "run", "ring", "--yes")
    assert ran.code == code, ran.err
    return ran.err


@pytest.mark.gate("three instances, of which the first one fails")
def test_each_instance_starts_all_of_its_phases(run: Run, ring: CountedApplication) -> None:
    """Also one of a single phase, and one after another that has failed and left much at work."""
    fails = "case $COBWEB_HOST in n2) exit 3;; esac"
    phases = {
        "one": {"run": ring.command("one")},
        "two": {"run": ring.command("two", fails), "after": ["one"]},
        "beside": {"run": ring.command("beside", ring.waits("go", "n2"))},
    }
    ring.write(phases, HOSTS)
    err = run_once(run, ring, 1)
    assert "ring has ended on 1 of 2 nodes; failed: n2" in err
    assert ring.supervisors() == [], "what the failed member had at work was ended"
    ring.write({**phases, "two": {"run": ring.command("two"), "after": ["one"]}}, HOSTS)
    ring.let_go()
    run_once(run, ring)
    assert set(ring.starts().values()) == {2}
    ring.write({"one": {"run": ring.command("one")}}, HOSTS)
    assert run("-C", ring.folder, "apply", "--yes", "--max-removals", "100%").code == 0
    run_once(run, ring)
    run_once(run, ring)
    assert {it: ring.starts()[it, "one"] for it in HOSTS} == dict.fromkeys(HOSTS, 4)
    assert len(ring.instances()) == 4


@pytest.mark.gate("an application at work, and five sites beside it")
def test_what_is_at_work_has_to_stay_in_the_site(
    run: Run, start: Start, ring: CountedApplication
) -> None:
    """Told by all commands, and nothing is changed; a site that is half written is waited for."""
    phases = {
        "one": {"run": ring.command("one", ring.waits())},
        "two": {"run": ring.command("two"), "after": ["one"]},
    }
    ring.write(phases, HOSTS)
    controller = start("-C", ring.folder, "app", "run", "ring", "--yes")
    ring.await_said(*((it, "one", "begins") for it in HOSTS))
    hint = "(write it back, then `cobweb app stop ring`)"
    for text, site in (
        ("n2 is a member of ring, which is at work, and not in `on`", (phases, HOSTS, "n1")),
        ("the phase `one`", ({"first": phases["one"]}, HOSTS, "all")),
    ):
        ring.write(site[0], site[1], on=site[2])
        for words in (
            ("status", "ring"),
            ("why", "ring"),
            ("stop", "ring", "--yes"),
            ("logs", "ring"),
        ):
            ran = run("-C", ring.folder, "app", *words)
            assert (ran.code, ran.out) == (64 if site[2] == "n1" else 3, ""), words
            assert text in ran.err
            assert hint in ran.err
    (ring.folder / "site.yml").write_text("applications: {", encoding="utf-8")
    ring.let_go()
    assert controller.stderr is not None
    line = next(it for it in controller.stderr if "the site is wrong" in it)
    assert "is looked at again" in line
    ring.write(phases, HOSTS)
    _, err = controller.communicate(timeout=90)
    assert controller.returncode == 0, err
    assert set(ring.starts().values()) == {1}
    assert len(ring.starts()) == 4
