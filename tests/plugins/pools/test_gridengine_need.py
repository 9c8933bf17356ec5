"""Hosts move between two real Grid Engines by need, under a controller, and no job is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.gridengine import GridEngine
from tests.support.needed import need_fabric
from tests.support.operator import Operator, StartedRun

pytestmark = [pytest.mark.netns, pytest.mark.timeout(600)]

SITE = """\
cobweb: 1
name: grid
inventory: hosts.yml
pools:
  resources: {{"n[01:{last}]": {{type: host}}}}
  services:
    day:
      adapter: gridengine
      on: scd
      slos: [{{kind: pending, above: 0, urgency: 50, quantity: {step}}}]
    night:
      adapter: gridengine
      on: scn
      slos: [{{kind: pending, above: 0, urgency: 40, quantity: {step}}}]
  grow_after: 0s
  shrink_after: 5s
  immunity: 0s
  leave_within: 20s
"""


@dataclass(slots=True)
class Grid:
    """Two masters, `day` and `night`, hosts of which some are day's, and a site that has them."""

    fabric: Fabric
    operator: Operator
    day: GridEngine
    night: GridEngine
    doubled: list[str] = field(default_factory=list)

    def nodes(self) -> Sequence[FabricHost]:
        """Return the hosts that may belong to either."""
        return self.fabric.hosts[2:]

    def host(self, name: str) -> FabricHost:
        """Return a host by its name."""
        return next(it for it in self.fabric.hosts if it.name == name)

    def of(self, engine: GridEngine) -> set[str]:
        """Return the hosts that a master lets work."""
        said = engine.say("qconf -shgrp_resolved @allhosts", check=False)
        return {it.split(".")[0] for it in said.split() if it.startswith("n")}

    def data(self, *words: str) -> Any:
        """Return what a command says as JSON."""
        ran = self.operator.cobweb(*words, "-o", "json")
        assert ran.out, ran.err
        return json.loads(ran.out)

    def resource(self, name: str) -> Any:
        """Return what is decided of a host."""
        found = self.data("pool", "resources", "--no-ask")["resources"]
        return next(it for it in found if it["id"] == name)

    def notes(self, subject: str) -> str:
        """Return what is noted of a resource or a service, and why a resource is where it is."""
        (pools,) = (it for it in self.data("deciders")["deciders"] if it["name"] == "pools")
        reason = self.resource(subject)["reason"] if subject.startswith("n0") else ""
        return f"{pools['notes'].get(subject, '')} {reason}".strip()

    def await_note(self, subject: str, words: str) -> str:
        """Wait until words are noted, and return the note; `pool why` stands in the failure."""
        seen: list[str] = []

        def said() -> bool:
            seen.append(self.notes(subject))
            return words in seen[-1]

        try:
            self.day.wait_for(said, f"{words!r} is noted of {subject}", 60)
        except AssertionError as error:
            asked = self.operator.cobweb("pool", "why", subject)
            raise AssertionError(f"{set(seen)}\n{asked.out}{asked.err}\n{error}") from None
        return seen[-1]

    def look(self) -> None:
        """Note hosts that both masters let work: none should ever be."""
        self.doubled += sorted(self.of(self.day) & self.of(self.night))


@contextmanager
def grid(folder: Path, *, hosts: int, at_work: int, step: int = 2) -> Iterator[Grid]:
    """Make a grid; so many hosts work for `day`, by hand, and `step` are asked for at a time."""
    need_fabric()
    names = ["scd", "scn", *(f"n{number:02d}" for number in range(1, hosts + 1))]
    for name in ("fabric", "site"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        made = Fabric(folder / "fabric", plain=len(names), names=names, image="full")
        fabric = stack.enter_context(made)
        operator = Operator(fabric, folder / "site")
        operator.write_inventory({"all_hosts": fabric.hosts})
        text = SITE.format(last=f"{hosts:02d}", step=step)
        (folder / "site" / "site.yml").write_text(text, encoding="utf-8")
        day, night = (GridEngine(fabric, it) for it in fabric.hosts[:2])
        day.make()
        night.make()
        found = Grid(fabric=fabric, operator=operator, day=day, night=night)
        for host in found.nodes()[:at_work]:
            day.join(host)
        yield found


@contextmanager
def serving(found: Grid) -> Iterator[StartedRun]:
    """Have a controller serve the site, and look at who has what all the time."""
    ends = threading.Event()

    def watch() -> None:
        while not ends.wait(0.5):
            found.look()

    watcher = threading.Thread(target=watch)
    with found.operator.start("serve", "--every", "2s") as started:
        watcher.start()
        try:
            yield started
        finally:
            ends.set()
            watcher.join()
            started.process.terminate()
            said = started.end()
            print(said.out, said.err)  # noqa: T201 - pytest shows it where the test has failed
    assert found.doubled == [], "hosts that both masters let work"


def gated(engine: GridEngine, gate: str, count: int = 1, options: str = "") -> list[str]:
    """Submit jobs that end once `opened` opens their gate."""
    command = f"while [ ! -e /tmp/{gate} ]; do sleep 0.3; done"
    return [engine.submit(command, options) for _ in range(count)]


def opened(found: Grid, gate: str, dead: str = "") -> None:
    """Open a gate on all hosts but one that is dead."""
    for host in (it for it in found.nodes() if it.name != dead):
        found.day.on(host, f"touch /tmp/{gate}", check=False)


def settled(found: Grid, started: StartedRun) -> None:
    """Wait until the first rounds are over, and see that they have left all as it was."""
    said = "qhost | cut -c-40; qstat -f | cut -c-50"
    before = found.day.say(said), found.night.say(said, check=False)
    started.await_error_line("by pools")
    started.await_error_line("done: run")
    assert (found.day.say(said), found.night.say(said, check=False)) == before


@contextmanager
def lying(host: FabricHost, engine: GridEngine, tool: str, answer: str) -> Iterator[None]:
    """Have a tool of a scheduler say something else, with exit code 0."""
    text = f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n" if answer else "#!/bin/sh\n"
    place = engine.on(host, f"command -v {tool}")
    engine.on(
        host, f"mv {place} {place}.true && cat > {place} <<'EOF'\n{text}\nEOF\nchmod 755 {place}"
    )
    try:
        yield
    finally:
        engine.on(host, f"mv {place}.true {place}")


@pytest.mark.gate("pools with the system that they are for: nothing else moves real hosts by need")
def test_hosts_follow_the_load_from_one_grid_engine_to_another(tmp_path: Path) -> None:
    """What is found stays as it is; what is at work stays until its job has ended, once."""
    with grid(tmp_path, hosts=4, at_work=3) as found:
        day, night = found.day, found.night
        long = day.submit("while [ ! -e /tmp/go ]; do sleep 0.2; done")
        day.wait_running(long)
        before = day.say("qhost | cut -c-40; qstat -f | cut -c-50")
        with serving(found) as started:
            started.await_error_line("by pools")
            started.await_error_line("done: run")
            assert day.say("qhost | cut -c-40; qstat -f | cut -c-50") == before
            owners = {it: found.resource(it)["service"] for it in ("n01", "n02", "n03", "n04")}
            assert owners == {"n01": "day", "n02": "day", "n03": "day", "n04": None}
            jobs = [night.submit("sleep 4") for _ in range(8)]
            night.wait_for(lambda: len(found.of(night)) >= 2, "two hosts work for night")
            night.wait_for(lambda: all(map(night.ends, jobs)), "all jobs of night end")
            assert day.state(long) == "r"
            for host in found.nodes():
                day.on(host, "touch /tmp/go")
            day.wait_for(lambda: day.ends(long), "the long job ends")
        assert [night.ends(job) for job in jobs] == [1] * len(jobs)
        assert day.ends(long) == 1


@pytest.mark.full(
    "twelve hosts there and back: as many moves at a time as a site of this size makes"
)
def test_twelve_hosts_go_to_night_and_back_around_a_job_of_two_minutes(tmp_path: Path) -> None:
    """The host of the long job is wanted by day all the time, and goes when it has ended."""
    with grid(tmp_path, hosts=12, at_work=8, step=12) as found, serving(found) as started:
        day, night = found.day, found.night
        settled(found, started)
        first = gated(night, "go-night", 20)
        night.wait_for(lambda: len(found.of(night)) >= 10, "ten hosts work for night")
        opened(found, "go-night")
        night.wait_for(lambda: all(map(night.ends, first)), "the jobs of night end")
        long = night.submit("sleep 120")
        night.wait_running(long)
        second = gated(day, "go-day", 30)
        day.wait_for(lambda: len(found.of(day)) >= 9, "nine hosts work for day")
        assert night.state(long) == "r"
        (place,) = found.of(night) - found.of(day)
        assert found.resource(place)["to"] == "day"
        night.wait_for(lambda: night.ends(long), "the long job ends")
        day.wait_for(lambda: place in found.of(day), "its host works for day")
        opened(found, "go-day")
        day.wait_for(lambda: all(map(day.ends, second)), "the jobs of day end")
        assert [night.ends(it) for it in (*first, long)] == [1] * 21
        assert [day.ends(it) for it in second] == [1] * 30


@pytest.mark.full("schedulers that lie or die, with the ones that people have")
def test_a_scheduler_that_lies_or_is_dead_moves_nothing_and_is_named(tmp_path: Path) -> None:
    """What it says is not believed, and its jobs go on."""
    lies = [
        ("qstat", "all is well", "qstat: its answer is no XML or was cut short: syntax error"),
        ("qstat", "<?xml version='1.0'?>\n<job_info>\n  <queue_info>\n   <job_l", "unclosed token"),
        ("qstat", "", "qstat: its answer is no XML or was cut short: no element"),
        ("qhost", "", "qhost"),
        ("qhost", "<?xml version='1.0'?>\n<qhost></qhost>", "gone"),
    ]
    names = [f"n{number:02d}" for number in range(1, 7)]
    with grid(tmp_path, hosts=6, at_work=3) as found, serving(found) as started:
        day, night = found.day, found.night
        settled(found, started)
        jobs = gated(night, "go", 4)
        night.wait_for(lambda: len(found.of(night)) >= 2, "hosts work for night")
        night.wait_for(lambda: all(night.state(it) == "r" for it in jobs), "jobs are at work")
        owners = {it: found.resource(it)["service"] for it in names}
        more = gated(day, "go-day", 8)
        for tool, answer, cause in lies:
            with lying(night.master, night, tool, answer):
                found.await_note("night", cause)
        night.say("kill -9 $(pgrep sge_qmaster)")
        found.await_note("night", "unable")
        assert {it: found.resource(it)["service"] for it in names} == owners
        opened(found, "go")
        night.say("/etc/init.d/gridengine-master start")
        night.wait_for(lambda: all(map(night.ends, jobs)), "the jobs of night end")
        day.wait_for(lambda: len(found.of(day)) >= 4, "moves go on")
        opened(found, "go-day")
        day.wait_for(lambda: all(map(day.ends, more)), "the jobs of day end")
        assert [night.ends(it) for it in jobs] == [1] * 4
        assert [day.ends(it) for it in more] == [1] * 8


def moved_by_hand(host: FabricHost, day: GridEngine, night: GridEngine) -> None:
    """Take a host from one, and have it work for the other."""
    name = host.name
    day.say(
        f"qmod -d '*@{name}'; qconf -dattr hostgroup hostlist {name} @allhosts; qconf -ke {name}"
    )
    gone = "! pgrep sge_execd > /dev/null && echo gone"
    day.wait_for(lambda: day.on(host, gone, check=False) == "gone", f"{name} has ended its daemon")
    day.wait_for(lambda: not day.fails(f"qconf -de {name}"), f"day forgets {name}")
    night.join(host)


@pytest.mark.full(
    "a cut link, a host moved by hand, a host that dies: with the system they are for"
)
def test_a_host_that_is_cut_off_moved_by_hand_or_dead_stays_alone_with_it(tmp_path: Path) -> None:
    """Each is named, other hosts move, and no job is lost."""
    with grid(tmp_path, hosts=8, at_work=5, step=1) as found, serving(found) as started:
        day, night = found.day, found.night
        settled(found, started)
        moved_by_hand(found.host("n01"), day, night)
        found.await_note("n01", "moved by hand")

        (cut,) = gated(day, "go-cut", options="-l hostname=n02")
        day.wait_running(cut)
        found.fabric.link_down(found.host("n02"))
        before = found.of(night)
        jobs = gated(night, "go-night", 4)
        night.wait_for(lambda: found.of(night) - before, "another host moves")
        night.wait_for(lambda: all(night.state(it) == "r" for it in jobs), "jobs are at work")
        day.wait_for(lambda: "u" in day.say("qstat -f | grep n02"), "day misses n02")
        found.await_note("n02", "day does not hear it")

        # All that is free goes to day, then what night has at work.
        more = gated(day, "go-day", 30)
        mine = sorted(found.of(night) - {"n01"})

        def leaving() -> list[str]:
            return [it for it in mine if found.resource(it)["to"] == "day"]

        day.wait_for(leaving, "a host at work leaves night")
        dead = leaving()[0]
        found.fabric.kill(found.host(dead))
        found.await_note(dead, "nothing was heard")
        found.fabric.link_up(found.host("n02"))
        ran = found.operator.cobweb("pool", "lost", dead, "--yes", "--wait", "2m")
        assert ran.code == 0, ran.out + ran.err
        opened(found, "go-cut", dead)
        opened(found, "go-night", dead)
        opened(found, "go-day", dead)
        night.wait_for(lambda: all(not night.state(it) for it in jobs), "the jobs of night end")
        day.wait_for(lambda: all(map(day.ends, (cut, *more))), "the jobs of day end")
        assert day.ran_on(cut) == ["n02"]
        # The accounting names the runs that the dead host took with it, too.
        runs = {it: night.ran_on(it) for it in jobs}
        assert dead in [host for hosts in runs.values() for host in hosts]
        ran_on = {it: [host for host in hosts if host != dead] for it, hosts in runs.items()}
        assert {it: len(hosts) for it, hosts in ran_on.items()} == dict.fromkeys(jobs, 1)
        assert [day.ends(it) for it in more] == [1] * 30


@pytest.mark.full(
    "a host that Cobweb has joined and somebody moves: by the master that it works for"
)
def test_a_host_that_is_moved_by_hand_keeps_the_master_that_it_was_given(tmp_path: Path) -> None:
    """The service that has lost it takes back nothing that is the other's by now."""
    with grid(tmp_path, hosts=6, at_work=3, step=3) as found, serving(found) as started:
        day, night = found.day, found.night
        settled(found, started)
        jobs = gated(night, "go", 6)
        night.wait_for(lambda: found.of(night) >= {"n04", "n05", "n06"}, "they work for night")
        opened(found, "go")
        night.wait_for(lambda: all(map(night.ends, jobs)), "the jobs of night end")
        moved_by_hand(found.host("n04"), night, day)
        found.await_note("n04", "moved by hand: day has it")
        started.await_error_line("moved by hand")
        started.await_error_line("done: run")
        path = "/var/lib/gridengine/default/common/act_qmaster"
        assert day.on(found.host("n04"), f"cat {path}", check=False) == day.say(f"cat {path}")
        job = day.submit("true", "-l hostname=n04")
        day.wait_for(lambda: day.ends(job) == 1, "it works for day")


@pytest.mark.full(
    "a host that ssh does not reach, and whose master hears it: with the system it is for"
)
def test_a_host_that_ssh_does_not_reach_gets_no_new_work_while_it_is_to_leave(
    tmp_path: Path,
) -> None:
    """Its master alone sees to that; once it is reached it moves, and each job is run once."""
    keys = "/etc/fabric/authorized_keys"
    with grid(tmp_path, hosts=1, at_work=1, step=1) as found:
        day, night, n01 = found.day, found.night, found.host("n01")
        site = tmp_path / "site" / "site.yml"
        site.write_text(site.read_text(encoding="utf-8").replace("urgency: 40", "urgency: 60"))
        with serving(found) as started:
            settled(found, started)
            day.on(n01, f"mv {keys} {keys}.kept; kill $(pgrep -x sshd | grep -vx 1)", check=False)
            (urgent,) = gated(night, "go-night")
            disabled = "qstat -f | awk '/@n01/ {print $6}'"
            day.wait_for(lambda: "d" in day.say(disabled), "n01 gets no new work of day", 60)
            (late,) = gated(day, "go-day")
            refused = f"qstat -j {late}"
            day.wait_for(lambda: "it is disabled" in day.say(refused, check=False), "no place")
            assert (day.state(late), found.of(night)) == ("qw", set())
            assert found.resource("n01")["service"] == "day"
            day.on(n01, f"mv {keys}.kept {keys}")
            night.wait_running(urgent)
            assert day.state(late) == "qw"
            opened(found, "go-night")
            day.wait_running(late)
            opened(found, "go-day")
            day.wait_for(lambda: day.ends(late), "the job of day ends")
        assert (night.ran_on(urgent), day.ran_on(late)) == (["n01"], ["n01"])
