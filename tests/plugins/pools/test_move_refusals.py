"""What `cobweb pool` refuses: the exit code, the cause, a hint; nothing is decided or done."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.plugins.pools.hands import Hands

USAGE = 64

REFUSED: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "unknown resource": (
        ("move", "nx", "hpc"),
        ("there is no resource `nx`", "`cobweb pool resources` lists them"),
    ),
    "unknown service": (
        ("move", "n01", "hpx"),
        ("there is no service `hpx`", "there are batch, hpc, web, design, research, spare"),
    ),
    "static": (("move", "n04", "hpc"), ("n04 is static: it is never moved",)),
    "static, removed": (("remove", "n04"), ("n04 is static: it is never moved",)),
    "wrong type": (
        ("move", "matlab1", "hpc"),
        ("the service `hpc` cannot use matlab1, which is a licence", "it can use: host"),
    ),
    "below min": (
        ("remove", "n01"),
        ("without n01 the service `batch` would have 0", "its `min` is 1"),
    ),
    "above max": (
        ("move", "n03", "hpc"),
        ("with n03 the service `hpc` would have 2", "its `max` is 1"),
    ),
    "failed": (
        ("move", "matlab2", "design"),
        ("matlab2 has failed in research: it burnt", "`cobweb pool reset matlab2`"),
    ),
    "stopped": (
        ("move", "n03", "web"),
        ("the service `web` takes no part", "`cobweb pool start web`"),
    ),
    "owned": (
        ("add", "n01", "hpc"),
        ("n01 is in the service `batch`", "`cobweb pool move n01 hpc` takes it from there"),
    ),
    "nothing to reset": (("reset", "n01"), ("n01 is not reset: it has not failed",)),
    "reset to a service that cannot use it": (
        ("reset", "matlab1", "--to", "hpc"),
        ("the service `hpc` cannot use matlab1",),
    ),
    "reset above max": (
        ("reset", "matlab2", "--to", "design"),
        ("with matlab2 the service `design` would have 2", "its `max` is 1"),
    ),
    "reset to a stopped service": (
        ("reset", "n05", "--to", "web"),
        ("the service `web` takes no part", "`cobweb pool start web`"),
    ),
    "reset of nothing": (("reset", "nx"), ("there is no resource `nx`",)),
    "lost, and unknown": (("lost", "nx"), ("there is no resource `nx`",)),
    "adopt unknown": (("adopt", "hpx"), ("there is no service `hpx`",)),
    "stop unknown": (("stop", "hpx"), ("there is no service `hpx`",)),
    "start unknown": (("start", "hpx"), ("there is no service `hpx`",)),
    "no time": (("move", "n01", "web", "--drain", "soon"), ("--drain soon", "as in `10m`")),
}


@pytest.fixture
def decided(hands: Hands) -> Hands:
    """Return a site of which much is decided, and nothing carried out: it must not come to that."""
    hands.edit("batch: {adapter: processes,", "batch: {min: 1, adapter: processes,")
    hands.edit("hpc: {adapter: processes,", "hpc: {max: 1, adapter: processes,")
    hands.edit("design: {adapter", "design: {max: 1, adapter")
    hands.edit('"n[01:04]": {}', '"n[01:05]": {}')
    hands.edit("    n04: {", "    n05: {type: host}\n    n04: {")
    places = {"n01": "batch", "n02": "hpc", "n03": "spare", "matlab1": "design"}
    for id_, service in places.items():
        hands.decide(id_, service=service, phase="in", since=1)
    hands.decide("matlab2", service="research", phase="failed", since=1, reason="it burnt")
    hands.decide("n05", service="batch", phase="failed", since=1, reason="it burnt")
    hands.decide("services/web", stopped=True)
    return hands


@pytest.mark.gate("all that is refused, on one site")
def test_refusals_say_why_and_what_helps(decided: Hands) -> None:
    before = decided.revision()
    for name, (words, parts) in REFUSED.items():
        ran = decided.pool(*words)
        assert (ran.code, ran.out) == (USAGE, ""), (name, ran)
        for part in parts:
            assert part in ran.err, name
        assert "Traceback" not in ran.err, name
        assert decided.revision() == before, name
    assert not (decided.base / "batch").exists(), "nothing was carried out"


def test_an_order_is_not_taken_back_above_max(hands: Hands) -> None:
    """While it was leaving another one has taken its place."""
    hands.edit("hpc: {adapter: processes,", "hpc: {max: 1, adapter: processes,")
    hands.decide("n01", service="hpc", phase="leaving", to="batch", since=1)
    hands.decide("n02", service="hpc", phase="in", since=1)
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == USAGE
    assert "with n01 the service `hpc` would have 2" in ran.err
    assert "its `max` is 1" in ran.err
    assert hands.revision() == 2


def test_nobody_who_can_be_asked_is_refused(hands: Hands) -> None:
    commands = [
        ("move", "n03", "batch"),
        ("add", "n03", "spare"),
        ("remove", "n03"),
        ("reset", "matlab2"),
        ("adopt", "batch"),
        ("lost", "n01"),
        ("stop", "batch"),
        ("start", "web"),
    ]
    for words in commands:
        ran = hands.run("pool", *words)
        assert ran.code == USAGE, words
        assert "--yes" in ran.err, words
    assert hands.revision() == 0


def test_a_site_without_pools_says_so(hands: Hands) -> None:
    text = "cobweb: 1\nname: plain\ninventory: {all: {hosts: {n01: {}}}}\n"
    (hands.site / "site.yml").write_text(text, encoding="utf-8")
    for words in (("status",), ("resources",), ("why", "n01"), ("move", "n01", "hpc", "--yes")):
        ran = hands.run("pool", *words)
        assert ran.code == USAGE, words
        assert "the site has no section `pools`" in ran.err
        assert "cobweb init --example pools" in ran.err


@pytest.mark.gate("whose a resource is that nothing is decided of is asked, by Ansible itself")
def test_a_claimed_resource_is_nobodys_to_give(hands: Hands) -> None:
    path = hands.claim("hpc", "n03")
    before = hands.revision()
    ran = hands.pool("move", "n03", "batch")
    assert ran.code == USAGE
    assert "n03 is in the service `hpc` already" in ran.err
    assert "`cobweb pool adopt hpc`" in ran.err
    assert (hands.revision(), hands.owners("n03")) == (before, ["hpc"])
    path.unlink()


@pytest.mark.full("a service that cannot be asked; the gate has one that can")
def test_nobody_knows_whose_it_is_while_a_service_does_not_answer(hands: Hands) -> None:
    (hands.base / "hpc").write_text("no folder", encoding="utf-8")
    before = hands.revision()
    ran = hands.pool("move", "n03", "batch")
    assert ran.code == USAGE
    assert "nobody knows whose n03 is: `hpc` does not answer" in ran.err
    assert "is not a folder" in ran.err
    assert "`cobweb pool stop hpc`" in ran.err
    assert hands.revision() == before
    assert hands.pool("stop", "hpc").code == 0
    ran = hands.pool("move", "n03", "batch")
    assert ran.code == 0, ran.err
    assert (hands.base / "batch" / "members" / "n03").exists()
