"""The storage site on hosts of a fabric: an edited model, applies with their events, a client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.support.fabric import Fabric, FabricHost
from tests.support.power import PowerSwitch

__all__ = ["Applied", "Probe", "ProbeResult", "StorageLab"]

SITE = Path(__file__).parents[2] / "inventories" / "storage"
_COBWEB = str(Path(sys.executable).with_name("cobweb"))
_PROBE = SITE / "probe.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """How a run ended: exit code, seconds by the events, and the events themselves."""

    code: int
    events: Sequence[Mapping[str, Any]]

    @property
    def seconds(self) -> float:
        """How long it took."""
        times = [event["time"] for event in self.events if "time" in event]
        return times[-1] - times[0] if times else 0.0

    @property
    def done(self) -> list[tuple[str, str]]:
        """Object and new state of all transitions that ended well, in their order."""
        return [
            (it["cob"], it["to"])
            for it in self.events
            if it["type"] == "transition.end" and it["result"] == "ok"
        ]

    def place(self, cob: str, state: str) -> int:
        """Return the place of the first arrival of an object in a state; LookupError if none."""
        return self.done.index((cob, state))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What a client saw: rounds of write, sync and read back, errors, and the longest gap."""

    rounds: int
    errors: int
    messages: Sequence[str]
    longest_s: float


class Probe:
    """A program of a client that works on the volume (the site's probe.py) until it is ended."""

    def __init__(self, fabric: Fabric, host: FabricHost, folder: str) -> None:
        self._fabric = fabric
        self._host = host
        argv = fabric.inside_host(
            host, "/usr/bin/python3", "-c", _PROBE.read_text(), folder, "0.05"
        )
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "at work\n":
            raise AssertionError(f"the probe on {host.name} did not begin")

    def end(self) -> ProbeResult:
        """End it and return what it saw."""
        self._fabric.run(self._host, "pkill", "-TERM", "-f", "def one_round")
        out, _ = self._process.communicate(timeout=120)
        return ProbeResult(**json.loads(out))

    def kill(self) -> None:
        """End it in any way, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@dataclass(slots=True)
class StorageLab:
    """Six bare hosts with a power switch, and a copy of the site with a model that names them."""

    folder: Path
    fabric: Fabric = field(init=False)
    site: Path = field(init=False)
    _runs: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.site = self.folder / "site"
            ignored = shutil.ignore_patterns(".cobweb", "__pycache__", "demo.py", "probe.py")
            shutil.copytree(SITE, self.site, ignore=ignored)
            model = self.model()
            names = [*model["servers"], *model["clients"]]
            (self.folder / "fabric").mkdir()
            self.fabric = stack.enter_context(
                Fabric(
                    self.folder / "fabric",
                    plain=0,
                    systemd=len(names),
                    names=names,
                    image="deps",
                    disks=2,
                    disk_mb=256,
                )
            )
            power = stack.enter_context(PowerSwitch(self.fabric))
            self.edit_model(lambda it: self._at_home(it, power.url))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def model(self) -> dict[str, Any]:
        """Return what the model says now."""
        text = (self.site / "model.yml").read_text(encoding="utf-8")
        found: dict[str, Any] = yaml.safe_load(text)
        return found

    def edit_model(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the model as a user would, and make the files again."""
        model = self.model()
        change(model)
        text = yaml.safe_dump(model, sort_keys=False)
        (self.site / "model.yml").write_text(text, encoding="utf-8")
        done = self.cobweb("generate", quiet=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def host(self, name: str) -> FabricHost:
        """Return a host by its name."""
        return next(host for host in self.fabric.hosts if host.name == name)

    def probe(self, name: str) -> Probe:
        """Start a program on a client that works on the volume."""
        probe = Probe(self.fabric, self.host(name), f"/mnt/data/{name}")
        self._stack.callback(probe.kill)
        return probe

    def apply(self, *options: str, quiet: bool = False) -> Applied:
        """Run an apply; unless `quiet` its output goes where ours goes."""
        self._runs += 1
        events = self.folder / f"events-{self._runs}.jsonl"
        agreed = ("--yes", "--max-removals", "100%")  # a server of a few is a large part
        done = self.cobweb("apply", *agreed, "--events", str(events), *options, quiet=quiet)
        lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
        return Applied(code=done.returncode, events=[json.loads(line) for line in lines])

    def cobweb(self, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command of cobweb in the fabric's network; unless `quiet` for all to see."""
        argv = self.fabric.inside(_COBWEB, "-C", str(self.site), *arguments)
        kept = {key: it for key, it in os.environ.items() if not key.startswith("ANSIBLE_")}
        return subprocess.run(
            argv,
            check=False,
            capture_output=quiet,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**kept, "HOME": str(self.folder)},
        )

    def _at_home(self, model: dict[str, Any], power_url: str) -> None:
        addresses = {host.name: host.address for host in self.fabric.hosts}
        model["connection"] = self.fabric.connection
        model["power"] = {"url": power_url}
        for group in ("servers", "clients"):
            for name, it in model[group].items():
                it["address"] = addresses[name]
