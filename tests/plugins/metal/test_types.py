"""The types `machine` and `machine-image` against the boot server's API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cobweb.errors import CobwebError
from cobweb.plugin import Found
from cobweb.testing import NamedCheck, TypeCase, type_checks
from cobweb_plugins.metal._types import Machine, MachineImage, found_state
from tests.plugins.metal.fake import (
    DIGEST,
    LIMITS,
    MAC,
    OLDER,
    WANTED,
    FakeServer,
    image_context,
    machine_context,
    view,
)

HELD = "metal_digest_of_"

STATES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # what the server says, what is wanted, the state
    ({"phase": "new", "power": "off"}, WANTED, "off"),
    ({"phase": "new", "power": "unknown"}, WANTED, "off"),
    ({"phase": "new", "power": "on"}, WANTED, "outdated"),
    ({"phase": "new", "power": "on"}, {}, "outdated"),
    ({"phase": "off", "power": "off"}, WANTED, "off"),
    ({"phase": "off", "power": "off"}, {}, "off"),
    ({"phase": "off", "power": "on"}, {}, "outdated"),
    ({"phase": "starting"}, WANTED, "trampoline"),
    ({"phase": "starting"}, {}, "trampoline"),
    ({"phase": "trampoline"}, WANTED, "trampoline"),
    ({"phase": "priming"}, WANTED, "trampoline"),
    ({"phase": "stopping"}, WANTED, "trampoline"),
    ({"phase": "unknown"}, WANTED, "trampoline"),
    ({"phase": "primed"}, WANTED, "primed"),
    ({"phase": "booting"}, WANTED, "primed"),
    ({"phase": "primed", "disk": None}, WANTED, "trampoline"),
    ({"phase": "primed", "disk": {"sha256": OLDER}}, WANTED, "trampoline"),
    ({"phase": "booting", "name": "web2"}, WANTED, "trampoline"),
    ({"phase": "primed"}, {}, "trampoline"),
    ({"ready": True}, WANTED, "active"),
    ({"ready": None}, WANTED, "active"),
    ({"image": {"sha256": OLDER, "bytes": 3}}, WANTED, "outdated"),
    ({"image": {"sha256": OLDER, "bytes": 3}, "ready": False}, WANTED, "outdated"),
    ({"image": None}, WANTED, "outdated"),
    ({"name": "web2"}, WANTED, "outdated"),
    ({"address": "127.72.5.12"}, WANTED, "outdated"),
    ({"ready": True}, {}, "outdated"),
    ({"ready": False}, {}, "outdated"),
]


def _conformance() -> list[NamedCheck]:
    return [it for make in (Machine, MachineImage) for it in type_checks(TypeCase(make=make))]


@pytest.mark.parametrize("check", _conformance(), ids=str)
def test_a_type_conforms(check: NamedCheck) -> None:
    check()


@pytest.mark.parametrize(("said", "wanted", "state"), STATES)
def test_the_state_follows_from_what_the_server_says(
    said: dict[str, Any], wanted: dict[str, Any], state: str
) -> None:
    assert found_state(view(**said), wanted) == state


def test_a_silent_machine_is_told_and_has_no_state() -> None:
    with pytest.raises(CobwebError, match="m01 is silent") as raised:
        found_state(view(ready=False), WANTED)
    assert "cobweb metal power m01 reset" in raised.value.hint


def test_a_check_has_the_server_look_by_the_settings_of_the_site(fake: FakeServer) -> None:
    fake.views["m01"] = view()
    assert Machine().check(machine_context(fake, WANTED)) == "active"
    said = {"mac": MAC, "power": {"kind": "manual"}, "ready": {"tcp": 22}, "boots": 1}
    assert fake.asked == [("POST", "/v1/machines/m01/look", said)]


def test_nothing_waits_for_a_server_that_has_never_begun(fake: FakeServer) -> None:
    (fake.folder / "key").unlink()
    fake.url = "http://127.72.5.200:7480"
    assert Machine().check(machine_context(fake, WANTED)) == "off"
    assert MachineImage().check(image_context(fake)) == "absent"
    assert fake.asked == []


def test_a_key_that_is_gone_is_not_taken_for_a_server_that_is(fake: FakeServer) -> None:
    (fake.folder / "key").unlink()
    with pytest.raises(CobwebError, match=r"there is no .*key, and somebody listens at"):
        Machine().check(machine_context(fake, WANTED))


@pytest.mark.parametrize("goal", ["trampoline", "primed", "active"])
def test_a_goal_has_all_that_the_server_needs(fake: FakeServer, goal: str) -> None:
    fake.views["m01"] = view(goal=goal)
    fake.images[DIGEST] = b"an image"
    getattr(Machine(), f"to_{goal}")(machine_context(fake, WANTED))
    (ordered,) = fake.of("PUT")
    assert ordered == {
        "key": "four/3/17",
        "goal": goal,
        "mac": MAC,
        "power": {"kind": "manual"},
        "limits": LIMITS,
        "image": {"sha256": DIGEST, "bytes": 8},
        "name": "web1",
        "address": "127.72.5.11",
        "owner": "m01",
        "ready": {"tcp": 22},
        "boots": 1,
    }


@pytest.mark.parametrize("goal", ["off", "trampoline"])
def test_a_node_that_no_decision_knows_is_left_alone(fake: FakeServer, goal: str) -> None:
    """The state database was lost, or brought back: its machine may be somebody's."""
    fake.views["m01"] = view(name="dd-1", vcluster="dd/4.000")
    context = machine_context(fake, {})
    lost = replace(context, shared={**context.shared, "undecided": ["m01"]})
    with pytest.raises(CobwebError, match="m01 runs dd-1 of the virtual cluster `dd`, and") as said:
        getattr(Machine(), f"to_{goal}")(lost)
    assert "cobweb metal power m01 off" in said.value.hint
    assert fake.of("PUT") == []
    fake.views["m01"] = view(phase="off", goal=goal)
    getattr(Machine(), f"to_{goal}")(lost)
    assert len(fake.of("PUT")) == 1


def test_off_asks_for_no_image(fake: FakeServer) -> None:
    fake.views["m01"] = view(phase="off", goal="off")
    Machine().to_off(machine_context(fake, WANTED))
    (ordered,) = fake.of("PUT")
    assert ordered.keys() == {"key", "goal", "mac", "power", "limits", "ready", "boots"}
    assert fake.of("GET") == []


def test_a_transition_lasts_until_the_goal_is_over(fake: FakeServer) -> None:
    fake.views["m01"] = view(phase="stopping", goal="off", over=False)
    fake.polls = [{}, {"phase": "off", "over": True}]
    Machine().to_off(machine_context(fake, {}))
    assert fake.polls == []


def test_what_the_server_says_of_a_failure_fails_the_transition(fake: FakeServer) -> None:
    fake.views["m01"] = view(phase="starting", goal="off", over=False)
    fake.polls = [{"phase": "off", "over": True, "failure": "no word within 10m"}]
    with pytest.raises(CobwebError, match="m01: no word within 10m"):
        Machine().to_off(machine_context(fake, {}))


def test_a_goal_that_another_one_has_replaced_is_not_reached(fake: FakeServer) -> None:
    fake.views["m01"] = view(phase="off", goal="off")
    fake.images[DIGEST] = b"an image"
    with pytest.raises(CobwebError, match="told to be off instead"):
        Machine().to_active(machine_context(fake, WANTED))


def test_a_machine_is_not_moved_for_an_image_that_is_not_there(fake: FakeServer) -> None:
    fake.views["m01"] = view()
    with pytest.raises(CobwebError, match=f"no image {DIGEST[:12]}"):
        Machine().to_trampoline(machine_context(fake, WANTED))
    assert fake.of("PUT") == []


@pytest.mark.parametrize("status", [0, 503])
def test_a_server_that_is_away_for_a_moment_is_asked_again(fake: FakeServer, status: int) -> None:
    fake.views["m01"] = view(phase="off", goal="off")
    fake.refused["PUT", "machines"] = status
    Machine().to_off(machine_context(fake, {}))
    assert len(fake.of("PUT")) == 2


def test_a_refusal_fails_the_transition_at_once(fake: FakeServer) -> None:
    fake.views["m01"] = view()
    fake.refused["PUT", "machines"] = 409
    with pytest.raises(CobwebError, match="PUT of machines is refused") as raised:
        Machine().to_off(machine_context(fake, {}))
    assert raised.value.hint == "ask again"
    assert len(fake.of("PUT")) == 1


# Images.


def _state(found: str | Found) -> str:
    return found.state if isinstance(found, Found) else found


def test_an_image_is_sent_once(fake: FakeServer) -> None:
    (fake.folder / "web.img").write_bytes(b"an image")
    context = image_context(fake)
    assert MachineImage().check(context) == "absent"
    for _ in range(2):
        assert MachineImage().store(context) == {f"{HELD}image-web": DIGEST}
    assert fake.images == {DIGEST: b"an image"}
    assert len(fake.of("PUT")) == 1
    assert _state(MachineImage().check(context)) == "stored"


def test_an_image_with_another_content_is_refused_and_the_old_one_stays(fake: FakeServer) -> None:
    (fake.folder / "web.img").write_bytes(b"something else")
    fake.images[OLDER] = b"an older image"
    with pytest.raises(CobwebError, match="another SHA-256"):
        MachineImage().store(image_context(fake, applied=OLDER))
    assert fake.images.keys() == {OLDER}


def test_a_file_that_is_not_there_is_named(fake: FakeServer) -> None:
    with pytest.raises(CobwebError, match=r"image web\.img cannot be read: No such file") as raised:
        MachineImage().store(image_context(fake))
    assert "relative to the site's folder" in raised.value.hint


def test_a_new_content_replaces_the_old_one_once_it_is_there(fake: FakeServer) -> None:
    (fake.folder / "web.img").write_bytes(b"an image")
    fake.images[OLDER] = b"an older image"
    context = image_context(fake, applied=OLDER)
    assert MachineImage().check(context) == "outdated"
    MachineImage().store(context)
    assert fake.images.keys() == {DIGEST}


def test_an_old_content_that_is_left_is_found_and_taken_away(fake: FakeServer) -> None:
    """A run was killed in between, or a machine still got it."""
    fake.images = {OLDER: b"an older image", DIGEST: b"an image"}
    context = image_context(fake, applied=OLDER)
    fake.refused["DELETE", "images"] = 409
    MachineImage().store(context)
    assert MachineImage().check(context) == "outdated"
    MachineImage().store(context)
    assert fake.images.keys() == {DIGEST}


def test_a_content_that_nodes_have_is_kept_until_they_have_another_one(fake: FakeServer) -> None:
    (fake.folder / "web.img").write_bytes(b"an image")
    fake.images[OLDER] = b"an older image"
    first = replace(image_context(fake, applied=OLDER), shared={"used": [OLDER]})
    results = MachineImage().store(first)
    assert fake.images.keys() == {DIGEST, OLDER}
    assert _state(MachineImage().check(first)) == "stored"
    assert results == {f"{HELD}image-web": DIGEST, "metal_kept_by_image-web": [OLDER]}
    later = MachineImage().store(image_context(fake, applied=DIGEST, results=results))
    assert fake.images.keys() == {DIGEST}
    assert later["metal_kept_by_image-web"] == []


def test_a_content_that_another_image_has_is_kept(fake: FakeServer) -> None:
    """It was renamed: the new one is found, and the old one goes."""
    fake.images[DIGEST] = b"an image"
    found = MachineImage().check(image_context(fake, name="image-front"))
    assert isinstance(found, Found)
    gone = image_context(fake, results=found.results)
    assert MachineImage().delete(gone) == {f"{HELD}image-web": None}
    assert fake.images.keys() == {DIGEST}
    MachineImage().delete(image_context(fake, results={f"{HELD}image-web": DIGEST}))
    assert fake.images == {}
