"""Machines of a site from outside: runs, boot server and simulated machines as processes."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cobweb_plugins.metal._client import AnswerError
from cobweb_plugins.metal.simulated import two_writers
from tests.cli.conftest import Ran, Run
from tests.plugins.metal.live import (
    PORT,
    SERVES,
    VICTIMS,
    LiveSite,
    ended,
    exit_code,
    kill,
    most_out,
    system,
    until,
)

pytestmark = pytest.mark.timeout(300)

Apply = Callable[..., Ran]
LINES = 60
"""Fewer lines than run, boot server and machines write in any run that changes two machines."""

NOTHING = "nothing to do, all is as it should be (0 transitions"


@pytest.fixture
def live(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveSite]:
    """Return a site with two machines, of which nothing runs in the end."""
    made = LiveSite(tmp_path, machines=getattr(request, "param", 2))
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def apply(live: LiveSite, run: Run) -> Apply:
    """Call a command of the site, here; return what that said."""

    def call(*arguments: str, command: str = "apply") -> Ran:
        words = [*command.split(), *(["--yes"] if command != "drift" else [])]
        return run(*words, "-C", live.folder, *arguments)

    return call


def check_active(live: LiveSite, content: bytes) -> None:
    """Check that all machines run a content, and that nothing went wrong on their disks."""
    assert {name: live.disk(name).read_bytes() == content for name in live.names} == dict.fromkeys(
        live.names, True
    )
    for name, said in live.metal["machines"].items():
        assert live.answer(name).startswith(f"Hello from {said['name']}.")
    assert two_writers(live.ledger) == []


@pytest.mark.gate("the way of machines from the power button to a system, once")
def test_machines_are_made_active_and_stay_so(live: LiveSite, apply: Apply, run: Run) -> None:
    ran = apply()
    assert ran.code == 0, ran.out + ran.err
    check_active(live, system(SERVES))
    assert [it for it in live.server.iterdir() if it.is_file() and it.stat().st_mode & 0o77] == []
    ran = run("-C", live.folder, "metal", "list", "-o", "json")
    found = {it["id"]: it["phase"] for it in json.loads(ran.out)["machines"]}
    assert found == {"m01": "active", "m02": "active"}
    before = live.disks(), live.history()
    again = apply()
    assert (again.code, NOTHING in again.out + again.err) == (0, True), again
    assert (live.disks(), live.history()) == before


# Images that are not what they should be.


@pytest.mark.gate("a digest that is wrong, on the first day and later")
def test_a_wrong_digest_changes_no_disk(live: LiveSite, apply: Apply) -> None:
    wanted = "0" * 64
    digest = live.metal["images"]["web"]["sha256"]
    live.metal["images"]["web"]["sha256"] = wanted
    live.write()
    check_refused(apply(), wanted, digest)
    assert live.disks() == {}
    live.store("web", system(SERVES))
    assert apply().code == 0
    before = live.disks(), live.history()
    digest = live.store("web", system("hang"))
    live.metal["images"]["web"]["sha256"] = wanted
    live.write()
    check_refused(apply(), wanted, digest)
    assert (live.disks(), live.history()) == before
    check_active(live, system(SERVES))


def check_refused(ran: Ran, *words: str) -> None:
    """Check that a run failed, and said these words of the image."""
    said = " ".join((ran.out + ran.err).split())
    assert ran.code == 1, said
    assert [it for it in ("image-web", *words) if it not in said] == [], said


@pytest.mark.full("a file of the boot server's folder that was changed")
def test_an_image_that_was_damaged_on_the_server_touches_no_disk(
    live: LiveSite, apply: Apply
) -> None:
    last = live.metal["machines"].pop("m02")
    live.write()
    assert apply().code == 0
    before = live.disks(), live.history()
    stored = live.server / "images" / live.metal["images"]["web"]["sha256"]
    stored.write_bytes(gzip.compress(system("hang"), 1, mtime=0))
    live.metal["machines"]["m02"] = last
    live.write()
    ran = apply()
    assert (ran.code, "was damaged on the boot server" in ran.out + ran.err) == (1, True), ran
    assert live.switch("m02", "status") == "off"
    assert live.history("write-begin") == [("m01", "write-begin")]
    assert live.disks() == before[0]
    assert live.answer("m01")


# Death at any moment.


def apply_with_death(live: LiveSite, who: str, moment: Callable[[], object]) -> int:
    """Apply, and kill at a moment; return the exit code of the run, or -9."""
    pid = live.begin()
    until(lambda: ended(pid) or moment())
    kill(*(it for it in VICTIMS[who](live, pid) if it))
    return exit_code(pid)


def after(live: LiveSite, lines: int) -> Callable[[], bool]:
    """Return a moment: so many lines from now, of run, boot server and machines together."""
    last = live.progress()
    return lambda: live.progress() >= last + lines


def check_death(live: LiveSite, apply: Apply, who: str, lines: int) -> None:
    """Apply with a death, and once more; check that all is as it is wanted then."""
    code = apply_with_death(live, who, after(live, lines))
    assert code in ((0, 1) if who == "server" else (-9,)), (lines, live.said())
    ran = apply()
    assert ran.code == 0, (lines, live.said(), ran.out, ran.err)


@pytest.mark.gate("a handful of the moments at which something may die, of all that may")
@pytest.mark.parametrize(("who", "lines"), [("run", 30), ("server", 15), ("all", 35)])
def test_a_death_in_the_first_run_is_mended_by_the_next_one(
    live: LiveSite, apply: Apply, who: str, lines: int
) -> None:
    check_death(live, apply, who, lines)
    check_active(live, system(SERVES))


@pytest.mark.full("the same while all machines get another image")
def test_a_death_in_a_change_is_mended_by_the_next_run(live: LiveSite, apply: Apply) -> None:
    assert apply().code == 0
    for number, who in enumerate(("run", "server")):
        content = system(f"# {number}", SERVES)
        live.store("web", content)
        check_death(live, apply, who, 20)
        check_active(live, content)


MOMENTS = range(0, LINES, 2)


@pytest.mark.full("twenty moments for each that may die")
@pytest.mark.parametrize("lines", MOMENTS)
@pytest.mark.parametrize("who", VICTIMS)
def test_a_death_at_any_moment_of_the_first_run(
    live: LiveSite, apply: Apply, who: str, lines: int
) -> None:
    check_death(live, apply, who, lines)
    check_active(live, system(SERVES))


@pytest.mark.full("twenty moments for each that may die")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("who", VICTIMS)
def test_a_death_at_any_moment_of_a_change(live: LiveSite, apply: Apply, who: str) -> None:
    assert apply().code == 0
    for lines in MOMENTS:
        content = system(f"# {lines}", SERVES)
        live.store("web", content)
        check_death(live, apply, who, lines)
        check_active(live, content)


LARGE = 64 << 20


SERVER_ALONE = pytest.param("server", marks=pytest.mark.full("the rest of this"))


@pytest.mark.gate("a death while an image is on its way to a disk")
@pytest.mark.parametrize("who", ["all", "machine", SERVER_ALONE])
def test_a_death_while_a_disk_is_written(live: LiveSite, apply: Apply, who: str) -> None:
    content = system(SERVES) + b"\0" + hashlib.shake_128(b"noise").digest(LARGE)
    live.store("web", content)
    disk = live.disk("m01")
    apply_with_death(live, who, lambda: disk.exists() and disk.stat().st_size)
    ran = apply()
    assert ran.code == 0, (live.said(), ran.out, ran.err)
    check_active(live, content)


# Systems that do not come up.


@pytest.mark.gate("all that a boot may do instead of serving")
@pytest.mark.parametrize("live", [4], indirect=True)
def test_a_failed_boot_ends_off_and_is_told(live: LiveSite, apply: Apply) -> None:
    live.store("bad", system("reset"))
    live.store("once", system("reset-once", SERVES))
    live.metal["templates"] |= {
        "bad": {"image": "bad", "ready": {"tcp": PORT}},
        "once": {"image": "once", "ready": {"tcp": PORT}},
        "twice": {"image": "once", "ready": {"tcp": PORT}, "boots": 2},
    }
    for name, template in (("m01", "bad"), ("m02", "once"), ("m03", "twice")):
        live.metal["machines"][name]["template"] = template
    live.write()
    ran = apply()
    assert ran.code == 1
    said = " ".join((ran.out + ran.err).split())
    for name in ("m01", "m02"):
        assert f"{name}: a failed boot: it asked again what to boot before it was ready" in said
        assert live.switch(name, "status") == "off"
    assert "(phase booting; last heard: its firmware asked what to boot" in said
    assert [bool(live.answer(it)) for it in live.names] == [False, False, True, True]


@pytest.mark.full("a limit that is missed")
def test_a_system_that_hangs_ends_off_and_is_told(live: LiveSite, apply: Apply) -> None:
    del live.metal["machines"]["m02"]
    live.store("web", system("hang"))
    live.metal["limits"] = {"active": "2s"}
    live.write()
    ran = apply()
    said = " ".join((ran.out + ran.err).split())
    assert (ran.code, ":8080 within 2 s" in said) == (1, True), said
    assert live.switch("m01", "status") == "off"


# What goes.


@pytest.mark.gate("machines that leave a site, and all of them")
def test_what_is_removed_is_off_and_the_rest_runs(live: LiveSite, apply: Apply) -> None:
    assert apply().code == 0
    of_m01 = [it for it in live.history() if it[0] == "m01"]
    del live.metal["machines"]["m02"]
    live.write()
    ran = apply("--max-removals", "100%")
    assert ran.code == 0, ran.out + ran.err
    assert live.switch("m02", "status") == "off"
    assert [it for it in live.history() if it[0] == "m01"] == of_m01
    assert live.answer("m01")
    assert "mark of this site" not in ran.out + ran.err, "there is none on what is off"
    live.data.pop("metal")
    live.data["inventory"] = {"spare": {"hosts": {"spare1": {}}}}
    live.write()
    ran = apply("--max-removals", "100%")
    assert ran.code == 0, ran.out + ran.err
    assert live.switch("m01", "status") == "off"
    assert list((live.server / "images").iterdir()) == []
    assert live.processes() == []


@pytest.mark.full("a change of two machines under a limit, seen from outside")
def test_a_limit_of_the_site_holds_for_machines(live: LiveSite, apply: Apply) -> None:
    live.data["limits"] = {"serving": {"on": "machines", "cob": "machine", "max": 1}}
    live.write()
    assert apply().code == 0
    first = len(live.history())
    content = system("# 2", SERVES)
    live.store("web", content)
    pid = live.begin()
    while not ended(pid):
        silent = [it for it in live.names if not live.answer(it)]
        still = [it for it in silent if not live.answer(it)]  # for they were asked one by one
        assert len(still) < 2
    assert exit_code(pid) == 0, live.said()
    check_active(live, content)
    assert most_out(live.history()[first:]) == 1


# People, and what happens without Cobweb.


def until_asked(live: LiveSite, text: str) -> None:
    """Wait until the boot server asks a person for something."""
    until(lambda: live.server_pid() and (live.server / "key").exists())
    client = live.client()
    until(lambda: text in (client.machine("m02") or {"asks": ""})["asks"])


@pytest.mark.gate("the hands of a person, on and off and on")
def test_a_person_switches_where_the_server_cannot(live: LiveSite, run: Run) -> None:
    live.metal["machines"]["m02"]["power"] = {"kind": "manual"}
    live.write()
    pid = live.begin()
    until_asked(live, "switch m02 on")
    assert "switch m02 on" in " ".join(run("-C", live.folder, "metal", "list").out.split())
    live.switch("m02", "on")
    assert exit_code(pid) == 0, live.said()
    content = system("# 2", SERVES)
    live.store("web", content)
    pid = live.begin()
    until_asked(live, "switch m02 off")
    live.switch("m02", "off")
    assert run("-C", live.folder, "metal", "power", "m02", "done").code == 0
    until_asked(live, "switch m02 on")
    live.switch("m02", "on")
    assert exit_code(pid) == 0, live.said()
    check_active(live, content)


@pytest.mark.full("the limits of what a person is asked for")
def test_a_person_who_does_nothing_is_told(live: LiveSite, apply: Apply) -> None:
    live.metal["machines"]["m02"]["power"] = {"kind": "manual"}
    live.metal["limits"] = {"trampoline": "4s", "off": "1s"}
    live.write()
    ran = apply()
    said = " ".join((ran.out + ran.err).split())
    assert (ran.code, "m02: it was not on the trampoline within 4 s" in said) == (1, True), said
    assert live.answer("m01")


@pytest.mark.gate("a machine that somebody has switched off")
def test_a_machine_that_is_found_off_is_booted_from_its_disk(live: LiveSite, apply: Apply) -> None:
    assert apply().code == 0
    before = live.history("write-begin")
    live.switch("m01", "off")
    assert apply(command="drift").code == 2
    assert apply().code == 0
    check_active(live, system(SERVES))
    assert live.history("write-begin") == before


@pytest.mark.full("a system that stops to answer")
def test_a_silent_machine_is_told_and_left_alone(live: LiveSite, apply: Apply, run: Run) -> None:
    assert apply().code == 0
    before = live.disks(), live.history()
    with live.hung("m01"):
        for command in ("drift", "apply --refresh all"):
            ran = apply(command=command)
            said = " ".join((ran.out + ran.err).split())
            assert ran.code == 1, said
            assert "m01 is silent" in said
            assert "cobweb metal power m01 reset" in said
        assert (live.disks(), live.history()) == before
    assert run("-C", live.folder, "metal", "power", "m01", "reset", "--yes").code == 0
    assert apply().code == 0
    check_active(live, system(SERVES))
    assert live.history("write-begin") == [it for it in before[1] if it[1] == "write-begin"]


REFUSED = {
    "another site": ("other/9/1", "m01 is used by the site"),
    "an older run": ("{site}/0/1", "a newer run of the site has given orders"),
}


@pytest.mark.full("orders of others")
def test_orders_of_others_are_refused(live: LiveSite, apply: Apply) -> None:
    assert apply().code == 0
    before = live.history()
    view = live.client().machine("m01")
    assert view is not None
    power = live.metal["machines"]["m01"]["power"]
    goal = {"goal": "off", "mac": live.macs["m01"], "power": power}
    for key, message in REFUSED.values():
        with pytest.raises(AnswerError, match=message) as raised:
            live.client().order("m01", {**goal, "key": key.format(**view)})
        assert raised.value.status == 409
    assert live.client().machine("m01") == view
    assert live.history() == before
