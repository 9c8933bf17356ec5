"""The pools demo: machines follow the load between a real Grid Engine and a real Slurm.

    make pools-demo                                    (root; hosts are namespaces of this machine)
    python inventories/schedulers/demo.py [PICTURES]   from the checkout's root, with PYTHONPATH=.

`cobweb serve` decides all of it; the demo submits jobs and looks at the schedulers. The exit code
is 0 only if all came about that it expects. The picture of who had what when is left in the folder
PICTURES (default: pools-demo).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.demo import Story, play
from tests.support.fabric import Fabric
from tests.support.gridengine import GridEngine
from tests.support.operator import Operator
from tests.support.scheduler import Scheduler
from tests.support.slurm import Slurm

SITE = Path(__file__).parent
NODES = [f"n{number}" for number in range(1, 7)]
AT_WORK = 4
"""How many of them are execution hosts of the Grid Engine before Cobweb comes."""

FOR_SLURM, FOR_GRID = 20, 30
"""How many jobs come."""

SLOTS = 2
"""How many of them a host does at a time."""

PATIENCE_S = 240.0

_RAN = "/tmp/ran"  # noqa: S108 - on hosts of the demo
"""Where a job writes its name on the host on which it has come to its end."""


class Demo(Story):
    """The story, step by step."""

    def __init__(self, fabric: Fabric, folder: Path) -> None:
        super().__init__()
        self.fabric = fabric
        self.grid, self.slurm = GridEngine(fabric, fabric.hosts[0]), Slurm(fabric, fabric.hosts[1])
        self.nodes = {it.name: it for it in fabric.hosts[2:]}
        self.operator = Operator(fabric, folder)
        self.turns = folder / "turns.jsonl"
        self.jobs: list[str] = []
        self.doubled: set[str] = set()

    def run(self, picture: Path) -> None:
        """Play all of it; DemoError where it goes wrong."""
        self._set_up()
        with self._serving():
            long = self._found_as_it_is()
            self._load_on_slurm(long)
            self._load_on_grid()
            self._nobody_needs_them()
        self._once_each()
        self._drawn(picture)

    def _set_up(self) -> None:
        self.tell("A Grid Engine with four hosts at work, a Slurm with none, two hosts are free")
        shutil.copy(SITE / "site.yml", self.operator.folder)
        self.operator.write_inventory({"machines": self.fabric.hosts})
        self.grid.make()
        self.slurm.make()
        for name in NODES[:AT_WORK]:
            self.grid.join(self.nodes[name])
        print(self.grid.say("qhost | cut -c-60"))

    def _found_as_it_is(self) -> str:
        long = self._submit(self.grid, "long")
        self.grid.wait_running(long)
        self.tell("`cobweb serve` finds what is there, and leaves it as it is")
        asked = "qhost | cut -c-40; qstat -f | cut -c-50"
        before = self.grid.say(asked)
        self._await("what is free is spare", lambda: self._whose()["spare"] == NODES[AT_WORK:])
        self.expect(self.grid.say(asked) == before, "`qhost` and `qstat -f` say what they said")
        self.expect(self._whose()["grid"] == NODES[:AT_WORK], "its four hosts are the grid's")
        return long

    def _load_on_slurm(self, long: str) -> None:
        self.tell(f"{FOR_SLURM} jobs for Slurm: idle hosts of the grid come, then spare ones")
        self._submit_many(self.slurm, "slurm", FOR_SLURM)
        self._await("Slurm has five nodes", lambda: len(self._of_slurm()) == len(NODES) - 1)
        waiting = FOR_SLURM - SLOTS * (len(NODES) - 1)
        self._await(f"{waiting} jobs wait still", lambda: self._pending("slurm") == waiting)
        self.expect(self.grid.state(long) == "r", "the long job of the grid is at work all along")
        self._show()
        self._let_end("slurm", FOR_SLURM)

    def _load_on_grid(self) -> None:
        self.tell(f"{FOR_GRID} jobs for the grid: all come back to it")
        self._submit_many(self.grid, "grid", FOR_GRID)
        self._await("the grid has six hosts", lambda: len(self._of_grid()) == len(NODES))
        self._show()
        self._let_end("grid", FOR_GRID)

    def _nobody_needs_them(self) -> None:
        self.tell("The long job ends, too: what nobody needs is spare")
        self._let_end("long", 1)
        self._await("all are decided to be spare", lambda: self._whose()["spare"] == NODES)
        self._await("no scheduler has a host", lambda: not self._of_grid() | self._of_slurm())

    def _once_each(self) -> None:
        self.tell("What the hosts and the accounting say of the jobs")
        self.expect(self._ran() == Counter(self.jobs), f"each of {len(self.jobs)} jobs ran once")
        self.expect(not self.doubled, "no host was in two schedulers at any look")
        counts = {it["job_id"]: it["restart_cnt"] for it in self.slurm.jobs()}
        self.expect(not any(counts.values()), "Slurm began none anew")

    def _drawn(self, picture: Path) -> None:
        self.tell("Who had what when")
        words = ("--chart", str(picture), "--record", str(self.turns))
        drawn = self.operator.cobweb("pool", "history", *words)
        self.expect(drawn.code == 0, f"cobweb pool history --chart (it said {drawn.err.strip()})")

    # --- what each step does

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """Have a controller keep the site, and look all the time at who has what."""
        ends = threading.Event()

        def look() -> None:
            while not ends.wait(0.5):
                self.doubled |= self._of_grid() & self._of_slurm()

        looking = threading.Thread(target=look)
        words = ("serve", "--every", "2s", "--record", str(self.turns))
        with self.operator.start(*words) as serving:
            looking.start()
            try:
                yield
            except BaseException:
                serving.process.terminate()
                print(f"The controller has said:\n{serving.end().err}")
                raise
            finally:
                ends.set()
                looking.join()
                serving.process.terminate()

    def _submit(self, scheduler: Scheduler, name: str) -> str:
        """Submit a job that says on its host that it has come to its end, once it is let."""
        self.jobs.append(name)
        gate = name.partition("-")[0]
        waits = f"while [ ! -e /tmp/{gate} ]; do sleep 0.5; done"
        return scheduler.submit(f"{waits}; echo {name} >> {_RAN}")

    def _submit_many(self, scheduler: Scheduler, name: str, count: int) -> None:
        for number in range(count):
            self._submit(scheduler, f"{name}-{number}")

    def _let_end(self, name: str, count: int) -> None:
        """Let jobs end, also those that have not begun yet, and wait until all have."""
        for node in self.nodes.values():
            self.grid.on(node, f"touch /tmp/{name}")

        def ended() -> bool:
            return sum(it.partition("-")[0] == name for it in self._ran()) == count

        self._await(f"all {count} have ended" if count > 1 else "it has ended", ended)

    def _ran(self) -> Counter[str]:
        """Return how often each job has come to its end."""
        said = [self.grid.on(it, f"cat {_RAN}", check=False) for it in self.nodes.values()]
        return Counter(name for it in said for name in it.split())

    def _of_grid(self) -> set[str]:
        """Return the hosts that the Grid Engine lets work."""
        said = self.grid.say("qconf -shgrp_resolved @allhosts", check=False)
        return {it.split(".")[0] for it in said.split()} & set(NODES)

    def _of_slurm(self) -> set[str]:
        """Return the nodes of the Slurm."""
        return set(self.slurm.nodes())

    def _whose(self) -> Mapping[str, list[str]]:
        """Return what is decided: members by service."""
        asked = self.operator.cobweb("pool", "services", "--no-ask", "-o", "json")
        services = json.loads(asked.out)["services"]
        return {it["name"]: sorted(it["members"]) for it in services}

    def _pending(self, service: str) -> float:
        """Return how many jobs a service says wait for hosts."""
        asked = self.operator.cobweb("pool", "services", "-o", "json")
        found = {it["name"]: it["kpis"] for it in json.loads(asked.out)["services"]}
        return next((it["value"] for it in found[service] if it["name"] == "pending"), -1)

    def _show(self) -> None:
        print(self.operator.cobweb("pool", "status").out, end="")

    def _await(self, what: str, holds: Callable[[], object]) -> None:
        try:
            self.grid.wait_for(holds, what, PATIENCE_S)
        except AssertionError:
            self._show()
            print(self.slurm.say(self.slurm.SHOWS, check=False))
            raise
        self.hold(what)


def main() -> int:
    """Run the demo; return the exit code."""
    pictures = Path(sys.argv[1] if len(sys.argv) > 1 else "pools-demo").absolute()
    pictures.mkdir(parents=True, exist_ok=True)
    picture = pictures / "who-had-what.svg"

    def story(folder: Path) -> None:
        for name in ("fabric", "site"):
            (folder / name).mkdir()
        names = ["sge", "slc", *NODES]
        with Fabric(folder / "fabric", plain=len(names), names=names, image="full") as fabric:
            Demo(fabric, folder / "site").run(picture)

    code = play("pools", story)
    if code == 0:
        print(f"The picture: {os.path.relpath(picture)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
