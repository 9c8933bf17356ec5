"""A boot server in a process of its own, whom a test speaks with as coordinator and as machine."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

KEYS = ("sha256", "bytes")
MAC = "52:54:00:00:00:01"
IMAGE = b"what is on the disk " * 1000
IMAGE_SHA256 = hashlib.sha256(IMAGE).hexdigest()
HARDWARE = {
    "cores": 2,
    "memory_mb": 1024,
    "disks": [{"name": "sda", "bytes": 1 << 20, "serial": "S1"}],
}
LIMIT_S = 30.0

# The power of a test's machine: a file says whether it is on, another one what was asked.
POWER = """
import pathlib, sys, time
folder, action = pathlib.Path(sys.argv[1]), sys.argv[2]
with (folder / "asked").open("a") as file:
    file.write(action + "\\n")
while (folder / f"hang-{action}").exists():
    time.sleep(0.01)
if (folder / f"fail-{action}").exists():
    sys.exit("the BMC says no")
if (folder / f"leave-{action}").exists():
    import subprocess
    none, files = subprocess.DEVNULL, {"close_fds": False, "start_new_session": True}
    left = subprocess.Popen(["sleep", "600"], stdin=none, stdout=none, stderr=none, **files)
    (folder / "left").write_text(str(left.pid))
state = folder / "state"
if action == "status":
    print("Chassis Power is", state.read_text() if state.exists() else "off")
else:
    state.write_text(action)
"""


class RealServer:
    """A boot server in a folder, and one machine `m01` that has its power from files there."""

    def __init__(self, folder: Path, domain: str | None = None) -> None:
        self.folder = folder
        self.domain = domain
        self.power_folder = folder / "machine"
        self.power_folder.mkdir(parents=True)
        self.address = f"127.{random.randint(130, 250)}.{random.randint(0, 255)}.1"
        self.orders = 0
        self.token = ""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def power(self) -> dict[str, Any]:
        command = [sys.executable, "-c", POWER, str(self.power_folder), "{action}"]
        return {"kind": "command", "command": command}

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        script = (
            "import sys, pathlib; from cobweb_plugins.metal.server import serve;"
            "serve(pathlib.Path(sys.argv[1]), *sys.argv[2:])"
        )
        arguments = [str(self.folder / "server"), f"{self.address}:7480"]
        arguments += [] if self.domain is None else [self.domain]
        self.process = subprocess.Popen([sys.executable, "-c", script, *arguments])

        def answers() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, "the server has ended"
            try:
                return self.ask("GET", "/v1/server")[0] == 200
            except OSError:
                return False

        until(answers)

    def kill(self) -> None:
        """Kill the server as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    @property
    def key(self) -> str:
        return (self.folder / "server" / "key").read_text()

    def ask(  # noqa: PLR0913 - what a request is made of
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        source: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Return status and body of an answer; `source` is the address that asks."""
        line = http.client.HTTPConnection(
            self.address, 7480, timeout=LIMIT_S, source_address=(source, 0)
        )
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        authorization = {"Authorization": f"Bearer {self.key if key is None else key}"}
        try:
            line.request(method, path, data, {**authorization, **(headers or {})})
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()

    # --- as a coordinator

    def store(self, image: bytes = IMAGE) -> None:
        """Have the image on the server."""
        digest = hashlib.sha256(image).hexdigest()
        assert self.ask("PUT", f"/v1/images/{digest}", image)[0] == 200

    def goal(self, goal: str, **more: Any) -> dict[str, Any]:
        """Return a goal of the machine."""
        self.orders += 1
        has_image = goal in ("primed", "active")
        return {
            "key": f"site/1/{self.orders}",
            "goal": goal,
            "mac": MAC,
            "power": self.power,
            "image": {"sha256": IMAGE_SHA256, "bytes": len(IMAGE)} if has_image else None,
            "name": "web1",
            "address": "127.0.0.1",
            "owner": "m01",
            "ready": {"tcp": 1},
            "boots": 1,
            **more,
        }

    def order(self, goal: str, **more: Any) -> dict[str, Any]:
        """Send the machine to a goal."""
        status, body = self.ask("PUT", "/v1/machines/m01", self.goal(goal, **more))
        assert status == 200, body
        return dict(json.loads(body))

    def view(self, wait: int = 0) -> dict[str, Any]:
        status, body = self.ask("GET", f"/v1/machines/m01?wait={wait}")
        assert status == 200, body
        return dict(json.loads(body))

    def over(self) -> dict[str, Any]:
        """Return the machine at the end of its goal."""
        found = self.view(wait=30)
        assert found["over"], found
        return found

    def asked(self) -> list[str]:
        """Return what the power was asked for."""
        path = self.power_folder / "asked"
        return path.read_text().split() if path.exists() else []

    # --- as the machine

    def boot(self) -> str:
        """Return the script that the firmware is told; a new token is kept."""
        status, body = self.ask("GET", f"/boot?mac={MAC.upper()}", key="")
        assert status == 200
        script = body.decode()
        if "cobweb.token=" in script:
            self.token = script.split("cobweb.token=")[1].split()[0]
        return script

    def booted(self) -> str:
        """Boot once the machine is on, and return the script."""
        until(lambda: self.view()["phase"] == "starting")
        until((self.power_folder / "state").exists)
        until(lambda: (self.power_folder / "state").read_text() == "on")
        return self.boot()

    def say(self, what: str, body: Any = None, *, method: str = "POST", **more: Any) -> Any:
        """Speak as the trampoline: hello, word, order, image."""
        sign = "&" if "?" in what else "?"
        path = f"/trampoline/{what}{sign}token={more.pop('token', self.token)}"
        return self.ask(method, path, body, key="", **more)

    def on_trampoline(self) -> None:
        """Bring the machine there."""
        self.order("trampoline")
        self.booted()
        assert self.say("hello", HARDWARE) == (200, b"ok\n")
        assert self.over()["phase"] == "trampoline"

    def primed(self) -> None:
        """Have the machine primed."""
        self.store()
        self.on_trampoline()
        self.order("primed")
        self.say("word?word=primed", IMAGE_SHA256.encode())
        assert self.over()["phase"] == "primed"


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that no event tells of."""
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end, "it never holds"
        time.sleep(0.01)
