"""A site whose hosts move for real on this machine, and what of that is seen from outside.

The services `batch`, `hpc` and `web` are queues of files, `design` and `research` have licences.
Whenever a host joins or leaves, a hook says which services have it at that moment; it fails, or
waits in a FIFO, where a test says so. A watcher looks at all owners' files without an end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil
import pytest

from cobweb.cli import main

PATIENCE_S = 90
MARK = "COBWEB_TEST_MARK"
LOOK_EVERY_S = 0.0005

SITE = """\
cobweb: 1
name: moves
inventory:
  all:
    hosts: {{head: {{}}, "n[01:04]": {{}}}}
    vars: {{ansible_connection: local, ansible_python_interpreter: "{python}"}}
pools:
  resources:
    "n[01:03]": {{type: host}}
    n04: {{type: host, static: true}}
    "matlab[1:2]": {{type: licence}}
  services:
    batch: {{adapter: processes, on: head, with: {{folder: {base}/batch, {scripts}}}}}
    hpc: {{adapter: processes, on: head, with: {{folder: {base}/hpc, {scripts}}}}}
    web: {{adapter: processes, on: head, with: {{folder: {base}/web, {scripts}}}}}
    design: {{adapter: counter, on: head, with: {{folder: {base}/design}}}}
    research: {{adapter: counter, on: head, with: {{folder: {base}/research}}}}
    spare: {{adapter: spare}}
"""
SCRIPTS = 'prologue: "step=prologue; . {base}/hook", epilogue: "step=epilogue; . {base}/hook"'

HOOK = """\
step=$step-$COBWEB_SERVICE
set -- {base}/*/members/$COBWEB_RESOURCE
echo "$step $#" >> {base}/steps
for cause in {base}/fail/$step {base}/fail/$step-$COBWEB_RESOURCE; do
  if [ -e $cause ]; then cat $cause >&2; exit 1; fi
done
if [ -p {base}/hold/$step ]; then
  echo "$step" > {base}/told
  read line < {base}/hold/$step
fi
"""

JOB = """\
echo {name} $COBWEB_SERVICE $COBWEB_RESOURCE >> {base}/begun
if [ -p {base}/hold/{name} ]; then
  echo {name} > {base}/told
  read line < {base}/hold/{name}
fi
echo {name} >> {base}/ended
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a call of the command line did."""

    code: int
    out: str
    err: str


class Watcher:
    """Looks which services say that they have a resource, as often as it can."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.doubles: list[str] = []
        self.looks = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Look once.

        What is found in two folders was there at one moment if it is still in the first one, for
        both were not looked at in the same moment.
        """
        owners: dict[str, Path] = {}
        for folder in self._folders:
            for name in _names(folder):
                first = owners.setdefault(name, folder)
                if first != folder and (first / name).exists():
                    self.doubles.append(f"{name}: {first}, {folder}")
        self.looks += 1

    def _watch(self) -> None:
        while not self._ends.wait(LOOK_EVERY_S):
            self.look()


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []


@dataclass
class Hands:
    """A site with pools in `site`, and the folders of its services in `base`."""

    site: Path
    base: Path
    capsys: pytest.CaptureFixture[str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    services: tuple[str, ...] = ("batch", "hpc", "web", "design", "research")
    by_hand: bool = False
    """Whether the test itself has made two owners."""
    _told: int = -1

    def make(self) -> None:
        """Write the site, and the hook of its services."""
        for folder in (self.site, self.base / "fail", self.base / "hold"):
            folder.mkdir(parents=True)
        (self.base / "hook").write_text(HOOK.format(base=self.base), encoding="utf-8")
        os.mkfifo(self.base / "told")
        self._told = os.open(self.base / "told", os.O_RDWR | os.O_NONBLOCK)
        scripts = SCRIPTS.format(base=self.base)
        text = SITE.format(base=self.base, scripts=scripts, python=sys.executable)
        (self.site / "site.yml").write_text(text, encoding="utf-8")

    def edit(self, old: str, new: str) -> None:
        """Change the site's text."""
        file = self.site / "site.yml"
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        file.write_text(text.replace(old, new), encoding="utf-8")

    def add(self, text: str) -> None:
        """Write more of the site, at its end."""
        with (self.site / "site.yml").open("a", encoding="utf-8") as file:
            file.write(text)

    # --- commands

    def run(self, *arguments: str) -> Ran:
        """Run `cobweb` in this process."""
        self.capsys.readouterr()
        code = main(["-C", str(self.site), *arguments])
        captured = self.capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    def pool(self, *arguments: str) -> Ran:
        """Run `cobweb pool`, and answer its question."""
        return self.run("pool", *arguments, "--yes")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `cobweb` in a process of its own, which can be killed."""
        process = subprocess.Popen(
            [sys.executable, "-m", "cobweb", "-C", str(self.site), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, MARK: str(self.base)},
        )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Ran:
        """Wait for the end of a process that was started."""
        out, err = process.communicate(timeout=PATIENCE_S)
        return Ran(process.returncode, out, err)

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill a command at once, as the machine's end would."""
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL

    def decide(self, key: str, **body: Any) -> None:
        """Decide of a resource or a service, and carry nothing out."""
        text = json.dumps(body)
        ran = self.run("decide", "pools", key, text, "--reason", "to begin with")
        assert ran.code == 0, ran.err

    def give(self, **services: str) -> None:
        """Have resources in services, by one run."""
        for id_, service in services.items():
            self.decide(id_, service=service, phase="in", since=1)
        ran = self.run("apply", "--yes")
        assert ran.code == 0, ran.err
        for id_, service in services.items():
            assert self.owners(id_) == ([] if service == "spare" else [service])

    # --- what can be seen

    def owners(self, id_: str) -> list[str]:
        """Return the services that have a resource, by their files."""
        return [it for it in self.services if (self.base / it / "members" / id_).exists()]

    def drains(self, id_: str, service: str) -> bool:
        """Say whether a resource takes no new work in a service."""
        return (self.base / service / "draining" / id_).exists()

    def claim(self, service: str, id_: str) -> Path:
        """Write an owner's file by hand, as if the service had the resource; return it."""
        path = self.base / service / "members" / id_
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": 1, "service": service, "resource": id_}), "utf-8")
        return path

    def resource(self, id_: str, *, asks: bool = False) -> Mapping[str, Any]:
        """Return what `pool resources -o json` says of a resource."""
        ran = self.run("pool", "resources", "-o", "json", *([] if asks else ["--no-ask"]))
        assert ran.code == 0, ran.err
        (found,) = [it for it in json.loads(ran.out)["resources"] if it["id"] == id_]
        return dict(found)

    def whose(self, id_: str) -> tuple[str, str | None, str | None]:
        """Return the state of a resource, its service, and to whom it is to go."""
        found = self.resource(id_)
        return found["state"], found["service"], found["to"]

    def revision(self) -> int:
        """Return the revision of what was decided."""
        ran = self.run("decisions", "pools", "-o", "json")
        assert ran.code == 0, ran.err
        return int(json.loads(ran.out)["sections"]["pools"]["revision"])

    def steps(self) -> list[str]:
        """Return the prologues and epilogues that were begun, one that was cut off as well."""
        return [line.split()[0] for line in self._lines("steps")]

    def most_owners(self) -> int:
        """Return how many services had a resource at most, as prologues and epilogues saw it."""
        return max((int(line.split()[1]) for line in self._lines("steps")), default=0)

    def begun(self) -> list[str]:
        """Return the jobs that were begun: job, service, resource."""
        return self._lines("begun")

    def ended(self) -> list[str]:
        """Return the jobs that came to their end."""
        return self._lines("ended")

    def _lines(self, name: str) -> list[str]:
        path = self.base / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    # --- faults and jobs

    def fails(self, step: str, cause: str) -> None:
        """Have a prologue or an epilogue fail until it is mended.

        It is `epilogue-batch`, or `epilogue-batch-n01` on one host.
        """
        (self.base / "fail" / step).write_text(f"{cause}\n", encoding="utf-8")

    def mend(self, step: str) -> None:
        """Have a step go well again."""
        (self.base / "fail" / step).unlink()

    def hold(self, name: str) -> Path:
        """Have a job, a prologue or an epilogue wait until it is let go."""
        path = self.base / "hold" / name
        os.mkfifo(path)
        return path

    def let_go(self, name: str) -> None:
        """Let what is held go on, and hold it no more."""
        path = self.base / "hold" / name
        held = os.open(path, os.O_WRONLY)  # which waits until it reads
        path.unlink()
        os.write(held, b"\n")
        os.close(held)

    def no_hold(self, name: str) -> None:
        """Hold a step no more of which nothing is at work."""
        (self.base / "hold" / name).unlink()

    def wait_told(self, name: str) -> None:
        """Wait until something that is held has said that it is at work."""
        ready, _, _ = select.select([self._told], [], [], PATIENCE_S)
        assert ready, f"{name} was not begun"
        assert os.read(self._told, 1000).decode().split() == [name]

    def put(self, service: str, name: str) -> None:
        """Put a job into the queue of a service."""
        folder = self.base / service / "queue"
        draft = folder / f".{name}"
        draft.write_text(JOB.format(name=name, base=self.base), encoding="utf-8")
        draft.rename(folder / name)

    def wait_done(self, service: str, name: str) -> None:
        """Wait until a job has ended well."""
        self.wait_for((self.base / service / "done" / f"{name}.0").exists, f"{name} ends")

    def wait_for(self, comes: Callable[[], object], what: str) -> None:
        """Wait until something that no file descriptor tells has come."""
        ends = threading.Event()
        for _ in range(int(PATIENCE_S / 0.02)):
            if comes():
                return
            ends.wait(0.02)
        pytest.fail(f"waited too long: {what}")

    # --- the end

    def mine(self) -> list[psutil.Process]:
        """Return the processes that belong to the site, by environment or command line."""
        return [it for it in psutil.process_iter() if it.pid != os.getpid() and self._is_mine(it)]

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            words = (*process.cmdline(), *process.environ().values())
        except psutil.Error:
            return False
        return any(str(self.base) in word or str(self.site) in word for word in words)

    def close(self) -> None:
        """End all that the site has left, by its process id."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        left = self.mine()
        for it in left:
            it.kill()
        os.close(self._told)
        self.wait_for(lambda: not any(map(_lives, left)), "what is left ends")


_Kind = TypeVar("_Kind", bound=Hands)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def opened_hands(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: type[_Kind]
) -> Iterator[_Kind]:
    """Make a site in a folder; in the end no process of it is left, and none had two owners."""
    made = kind(site=folder / "site", base=folder / "base", capsys=capsys)
    made.make()
    try:
        with Watcher([made.base / it / "members" for it in made.services]) as watcher:
            yield made
        assert watcher.looks > 0
        if not made.by_hand:
            assert watcher.doubles == []
            assert made.most_owners() <= 1
    finally:
        made.close()
