"""The storage demo: a cluster from bare hosts, changed while clients work, and taken away again.

    make storage-demo                                  (root; hosts are namespaces of this machine)
    python inventories/storage/demo.py [REPORTS]       from the checkout's root, with PYTHONPATH=.

Each step says what it expects from outside, and the exit code is 0 only if all of it came about.
The reports of all runs are left in the folder REPORTS (default: storage-demo).
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.demo import DemoError, Story, play
from tests.support.storage import Applied, Probe, StorageLab

LEAST_OBJECTS = 50
LEAST_NEEDS = 250
PING_TIMEOUT_S = 5.0
GAP_S = 2 * PING_TIMEOUT_S
"""A client waits for `network.ping-timeout` at most when a server goes without a word."""


class Demo(Story):
    """The story, step by step."""

    def __init__(self, lab: StorageLab, reports: Path) -> None:
        super().__init__()
        self._lab = lab
        self._reports = reports
        self.steps: list[tuple[str, float, int]] = []

    def run(self) -> None:
        """Play all of it; DemoError where it goes wrong."""
        self._size()
        self._set_up()
        self._again()
        self._rolling()
        self._connections(200, "raise")
        self._connections(100, "lower")
        self._one_away("st3")
        self._all_away()

    def _size(self) -> None:
        self.tell("The site, made from model.yml")
        graph = self._data("graph")
        per_host = Counter(cob["host"] for cob in graph["cobs"])
        servers = self._lab.model()["servers"]
        least = min(per_host[name] for name in servers)
        hosts = {cob["id"]: cob["host"] for cob in graph["cobs"]}
        across = sum(hosts[need["cob"]] != hosts[need["on"]] for need in graph["needs"])
        print(f"  {len(per_host)} hosts, {len(graph['cobs'])} objects, {least} or more a server")
        print(f"  {len(graph['needs'])} needs, {across} of them over hosts")
        self.expect(least >= LEAST_OBJECTS, f"{LEAST_OBJECTS} objects on each server")
        self.expect(across >= LEAST_NEEDS, f"{LEAST_NEEDS} needs over hosts")

    def _set_up(self) -> None:
        applied = self._apply("From bare hosts to a storage cluster: one apply")
        self._before(
            applied,
            ("st1/bricks", "up"),
            ("st1/volume", "started"),
            ("cl1/data-mount", "up"),
        )
        self._writes()

    def _again(self) -> None:
        applied = self._apply("All objects are looked at again: nothing to do", "--refresh", "all")
        self.expect(not applied.done, "no transition")

    def _rolling(self) -> None:
        self._lab.edit_model(lambda it: it["volume"].update(log_level="WARNING"))
        probes = {name: self._lab.probe(name) for name in self._lab.model()["clients"]}
        applied = self._apply("Daemons get another setting, one server at a time, clients work on")
        self._end(probes)
        order = [cob for cob, state in applied.done if (cob.endswith("glusterd"))]
        print("  daemons went down and up: " + ", ".join(order))
        busy = _most_at_once(applied, "heal-gate", "busy")
        self.expect(busy == 1, "never two servers out of the volume at once")

    def _connections(self, number: int, direction: str) -> None:
        self._lab.edit_model(lambda it: it["postgres"]["settings"].update(max_connections=number))
        title = f"max_connections: {direction} to {number}"
        applied = self._apply(title)
        states = ("raised", "up") if direction == "raise" else ("up", "up")
        primary = applied.place("st1/primary-connections", states[0])
        standbys = [
            applied.place(f"{name}/standby-connections", states[0])
            for name in self._lab.model()["postgres"]["standbys"]
        ]
        if direction == "raise":
            self.expect(max(standbys) < primary, "each standby before the primary")
        else:
            self.expect(primary < min(standbys), "the primary before each standby")
        for name in ("st1", *self._lab.model()["postgres"]["standbys"]):
            shown = self._sql(name, "SHOW max_connections")
            self.expect(shown == str(number), f"{name} says {shown}")
        lag = self._sql("st1", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
        self.expect(lag == str(len(standbys)), f"{lag} standbys stream")

    def _one_away(self, name: str) -> None:
        def without(model: dict[str, Any]) -> None:
            del model["servers"][name]
            model["postgres"]["standbys"].remove(name)

        probes = {each: self._lab.probe(each) for each in self._lab.model()["clients"]}
        self._lab.edit_model(without)
        applied = self._apply(f"{name} goes: out of volume, database and cluster, clients work on")
        self._end(probes)
        self._before(applied, (f"{name}/bricks", "down"), (f"{name}/glusterd", "down"))

    def _all_away(self) -> None:
        self._lab.edit_model(lambda it: it.update(present=False))
        number = len(self._lab.model()["servers"])
        all_at_once = ("--budget", f"one-server-busy={number}")
        applied = self._apply("All goes: present is false, all servers at once", *all_at_once)
        volume = applied.place("st1/volume", "stopped")
        mounts = [
            applied.place(f"{name}/data-mount", "down") for name in self._lab.model()["clients"]
        ]
        self.expect(max(mounts) < volume, "no volume stops while a client has it mounted")

    # --- what each step does

    def _sql(self, name: str, query: str) -> str:
        host = self._lab.host(name)
        argv = ("runuser", "-u", "postgres", "--", "psql", "-XAtc", query)
        return self._lab.fabric.run(host, *argv).stdout.strip()

    def _apply(self, title: str, *options: str) -> Applied:
        self.tell(title)
        applied = self._lab.apply(*options)
        number = len(self.steps) + 1
        report = self._reports / f"{number}.html"
        made = self._lab.cobweb("report", "-o", "html", quiet=True)
        report.write_text(made.stdout, encoding="utf-8")
        self.steps.append((title, applied.seconds, len(applied.done)))
        print(f"  {applied.seconds:.0f} s, {len(applied.done)} transitions; report: {report}")
        self.expect(applied.code == 0, f"exit code 0 (it was {applied.code})")
        return applied

    def _before(self, applied: Applied, *arrivals: tuple[str, str]) -> None:
        places = [applied.place(*arrival) for arrival in arrivals]
        text = ", then ".join(f"{cob} {state}" for cob, state in arrivals)
        self.expect(places == sorted(places), text)

    def _writes(self) -> None:
        probes = {name: self._lab.probe(name) for name in self._lab.model()["clients"]}
        self._end(probes)

    def _end(self, probes: Mapping[str, Probe]) -> None:
        for name, probe in probes.items():
            seen = probe.end()
            print(
                f"  {name} wrote and read {seen.rounds} times; longest gap {seen.longest_s:.2f} s"
            )
            self.expect(not seen.errors, f"{name} saw no error {list(seen.messages) or ''}")
            self.expect(seen.rounds > 0, f"{name} has worked")
            self.expect(seen.longest_s < GAP_S, f"{name} never waited for {GAP_S:.0f} s")

    def _data(self, command: str) -> dict[str, Any]:
        done = self._lab.cobweb(command, "-o", "json", quiet=True)
        if done.returncode != 0:
            raise DemoError(f"cobweb {command} said: {done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def _most_at_once(applied: Applied, name: str, state: str) -> int:
    """Return how many objects of a name were in a state at the same time, at most."""
    there: set[str] = set()
    most = 0
    for cob, now in applied.done:
        if cob.endswith(f"/{name}"):
            there = there | {cob} if now == state else there - {cob}
            most = max(most, len(there))
    return most


def main() -> int:
    """Run the demo; return the exit code."""
    reports = Path(sys.argv[1] if len(sys.argv) > 1 else "storage-demo").absolute()
    reports.mkdir(parents=True, exist_ok=True)
    steps: list[tuple[str, float, int]] = []

    def story(folder: Path) -> None:
        with StorageLab(folder) as lab:
            demo = Demo(lab, reports)
            demo.run()
            steps.extend(demo.steps)

    code = play("storage", story)
    for number, (title, seconds, done) in enumerate(steps, 1):
        print(f"  {number}  {seconds:4.0f} s  {done:4} transitions  {title}")
    if code == 0:
        print(f"Report pages: {os.path.relpath(reports)}/1.html and so on")
    return code


if __name__ == "__main__":
    sys.exit(main())
