"""The demo: bring two services up, change a configuration, and watch from outside.

    python inventories/demo/demo.py [--keep | --end FOLDER]

It copies this site to a temporary folder, chooses free ports, and runs `cobweb` as an operator
would, while a client polls both ports. It says what happened in which order; the exit code is 0
only if that is the order that the needs of the objects ask for. It needs `cobweb` on the PATH and
nothing else; no process is left afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ADDRESS = "127.0.0.1"
CONNECT_S = 0.05
"""A service is down for some tenths of a second: a client that waits longer does not see it."""
POLL_S = 0.01
END_WAIT_S = 30.0
GREETING = "good morning"
WANTED = ("B down", "A down", "A up", "B up")


class DemoError(Exception):
    """Something is not as promised."""


class Client:
    """Polls ports by name and notes each change: when, and what happened."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.ports = ports
        self.seen: list[tuple[float, str]] = []
        self._up = dict.fromkeys(ports, False)
        self._sweep = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def catch_up(self) -> int:
        """Wait until all that happened before is noted; return how many changes that is."""
        self._sweep.clear()
        self._sweep.wait()
        self._sweep.clear()
        self._sweep.wait()
        return len(self.seen)

    def _poll(self) -> None:
        while not self._stop.wait(POLL_S):
            self._sweep.set()
            for name, port in self.ports.items():
                up = listens(port)
                if up != self._up[name]:
                    self._up[name] = up
                    self.seen.append((time.monotonic(), f"{name} {'up' if up else 'down'}"))


@dataclass(frozen=True, slots=True)
class Demo:
    """The copied site, and what is done with it."""

    site: Path
    client: Client
    cobweb: str

    def run(self) -> None:
        """Play the whole story; DemoError where it goes wrong."""
        tell("1. The first apply brings everything up.")
        self._apply(["A up", "B up"])
        self._expect_greeting("hello")

        tell("2. The second apply finds nothing to do.")
        self._apply([])

        tell(f"3. The configuration changes: A shall say {GREETING!r}.")
        set_variable(self.site, "greeting", GREETING)
        self._cobweb("plan")

        tell("4. Apply: nobody wrote this order down.")
        self._apply(list(WANTED))
        self._expect_greeting(GREETING)

    def _apply(self, expected: list[str]) -> None:
        before, began = self.client.catch_up(), time.monotonic()
        self._cobweb("apply", "--yes")
        took_s = time.monotonic() - began
        after = self.client.catch_up()
        seen = self.client.seen[before:after]
        print(f"\nSeen from outside ({took_s:.1f} s):{'' if seen else ' no change'}", flush=True)
        for at, what in seen:
            print(f"  {at - began:6.2f} s  {what}", flush=True)
        if [what for _, what in seen] != expected:
            raise DemoError(f"expected from outside: {', '.join(expected) or 'no change'}")

    def _cobweb(self, *arguments: str) -> None:
        print(f"\n$ cobweb {' '.join(arguments)}", flush=True)
        command = [self.cobweb, "-C", str(self.site), *arguments]
        done = subprocess.run(command, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise DemoError(f"cobweb {arguments[0]} ended with exit code {done.returncode}")

    def _expect_greeting(self, greeting: str) -> None:
        url = f"http://{ADDRESS}:{self.client.ports['B']}/"
        with urllib.request.urlopen(url, timeout=END_WAIT_S) as answer:
            said = answer.read().decode().strip()
        print(f"  asked B:  {said}", flush=True)
        if said != f"B heard: A says: {greeting}":
            raise DemoError(f"B should pass on {greeting!r}")


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description="Run the Cobweb demo.")
    parser.add_argument("--keep", action="store_true", help="leave site and services behind")
    parser.add_argument("--end", type=Path, metavar="FOLDER", help="end what --keep left behind")
    options = parser.parse_args()
    if options.end:
        end(options.end)
        return 0
    cobweb = find_cobweb()
    if cobweb is None:
        print("the demo needs `cobweb` on the PATH", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = Path(tempfile.mkdtemp(prefix="cobweb-demo-"))
    with ExitStack() as at_end:
        at_end.callback(tell_what_is_kept if options.keep else end, folder)
        return play(folder, cobweb)


def play(folder: Path, cobweb: str) -> int:
    """Run the story in a folder; return the exit code."""
    try:
        site, ports = copy_site(folder)
        with Client(ports) as client:
            Demo(site=site, client=client, cobweb=cobweb).run()
    except DemoError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    tell("All as promised: B down, A down, configuration, A up, B up.")
    return 0


def copy_site(folder: Path) -> tuple[Path, dict[str, int]]:
    """Copy this site and give it free ports and a folder of its own."""
    site = folder / "site"
    here = Path(__file__).resolve().parent
    shutil.copytree(here, site, ignore=shutil.ignore_patterns(".cobweb", "__pycache__"))
    ports = free_ports("A", "B")
    set_variable(site, "port_a", ports["A"])
    set_variable(site, "port_b", ports["B"])
    set_variable(site, "demo_dir", str(folder / "hosts"))
    return site, ports


def set_variable(site: Path, name: str, value: object) -> None:
    """Change a variable of all hosts, as an operator would with an editor."""
    path = site / "group_vars" / "all.yml"
    line = f"{name}: {json.dumps(value)}"
    text, count = re.subn(
        rf"^{name}:.*$", line, path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    if count != 1:
        raise DemoError(f"{path} should set {name} once")
    path.write_text(text, encoding="utf-8")


def free_ports(*names: str) -> dict[str, int]:
    """Choose a free loopback port per name."""
    with ExitStack() as sockets:
        opened = {name: sockets.enter_context(socket.socket()) for name in names}
        for opening in opened.values():
            opening.bind((ADDRESS, 0))
        return {name: opening.getsockname()[1] for name, opening in opened.items()}


def listens(port: int) -> bool:
    """Say whether a port accepts connections; one that is only slow to do so does."""
    try:
        with socket.create_connection((ADDRESS, port), timeout=CONNECT_S):
            return True
    except OSError as error:
        return isinstance(error, TimeoutError)


def find_cobweb() -> str | None:
    """Return the command on the PATH, or beside this Python."""
    return shutil.which("cobweb") or shutil.which("cobweb", path=str(Path(sys.executable).parent))


def end_services(folder: Path) -> None:
    """End the services through their supervisors, and wait for it."""
    found = (folder / "hosts" / "state" / "process").glob("*/status.json")
    supervisors = [json.loads(path.read_text(encoding="utf-8"))["supervisor"][0] for path in found]
    for pid in supervisors:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + END_WAIT_S
    while any(map(lives, supervisors)) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def lives(pid: int) -> bool:
    """Say whether a process is there."""
    with suppress(OSError):
        return Path("/proc", str(pid), "stat").read_text(encoding="utf-8").split()[2] != "Z"
    return False


def tell(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}\n{'=' * len(text)}", flush=True)


def tell_what_is_kept(folder: Path) -> None:
    """Say where everything is and how to end it."""
    print(f"\nKept: the site {folder / 'site'}, with its services running.")
    print(f"  cobweb -C {folder / 'site'} status")
    print(f"  python {Path(__file__).name} --end {folder}")


def end(folder: Path) -> None:
    """End the services and remove the folder."""
    end_services(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
