"""Where node tasks are measured: hosts that are all this machine, and SSH hosts of namespaces."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._tasks_cost import Spent, cgroup_root, run_measured

if TYPE_CHECKING:
    from tests.support.fabric import Fabric


HERE = Path(__file__).resolve().parents[1]
_DROPPED = ("ANSIBLE_", "COBWEB_", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Hosts and the way to work on them; `fabric` is None where they are this machine.

    `root` is the folder, on the hosts, that all tools write below; `folder` is the controller's.
    """

    folder: Path
    root: Path
    hosts: Mapping[str, Mapping[str, Any]]
    variables: Mapping[str, Any]
    fabric: Fabric | None = None

    @property
    def is_local(self) -> bool:
        """Whether all hosts are this machine."""
        return self.fabric is None

    def run(
        self, argv: Sequence[str], *, cwd: Path, ok: Sequence[int] = (0,), **environment: str
    ) -> Spent:
        """Run a command where the hosts can be reached, and measure it."""
        hosts = None
        if self.fabric is not None:
            argv = self.fabric.inside(*argv)
            groups = cgroup_root()
            assert groups is not None  # the fabric has refused to start without
            hosts = groups / self.fabric.cgroup_name
        given = self.environment(**environment)
        return run_measured(argv, cwd=cwd, environment=given, hosts=hosts, ok=ok)

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of commands; nothing of the caller's settings of tools is in it.

        Paths of Python stay: a checkout beside the installed one can be measured as well. What has
        each process compile all modules anew goes: it would be most of what is measured.
        """
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED)}
        return {**kept, "HOME": str(self.folder), "NO_COLOR": "1", "LC_ALL": "C.UTF-8", **more}

    def on_host(self, host: str, script: str) -> str:
        """Run a shell script on a host, past SSH, and return what it printed."""
        assert self.fabric is not None
        (found,) = [each for each in self.fabric.hosts if each.name == host]
        return self.fabric.run(found, "sh", "-c", script, check=False).stdout

    def inventory(self, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return an Ansible inventory of the hosts, as a mapping for YAML."""
        members: dict[str, Any] = {
            group: {"hosts": {name: {} for name in row}} for group, row in groups.items()
        }
        hosts = {name: dict(values) for name, values in self.hosts.items()}
        return {"all": {"vars": dict(self.variables), "hosts": hosts, "children": members}}


def tool(name: str) -> str:
    """Return the path of a command that is installed with Cobweb, or else by the system."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or ""


@contextmanager
def local_place(count: int) -> Iterator[Place]:
    """Give hosts n001, n002, ... that are all this machine."""
    with tempfile.TemporaryDirectory(prefix="cobweb-bench-") as folder:
        root = Path(folder, "root")
        root.mkdir()
        yield Place(
            folder=Path(folder),
            root=root,
            hosts={f"n{number:03}": {} for number in range(1, count + 1)},
            variables={
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
            },
        )


def what_hosts_lack() -> str:
    """Say in one line why there can be no SSH hosts, or nothing."""
    if not (HERE / "tests" / "support" / "fabric").is_dir():
        return "no fabric of hosts beside the benchmarks"
    from tests.support.fabric import what_is_missing

    return what_is_missing() or ""


@contextmanager
def fabric_place(count: int) -> Iterator[Place]:
    """Give SSH hosts s01, s02, ... made of namespaces, with systemd."""
    from tests.support.fabric import Fabric

    with tempfile.TemporaryDirectory(prefix="cobweb-bench-") as folder:
        (Path(folder) / "fabric").mkdir()
        with Fabric(Path(folder) / "fabric", plain=0, systemd=count) as fabric:
            yield Place(
                folder=Path(folder),
                root=Path("/srv"),
                hosts={host.name: {"ansible_host": host.address} for host in fabric.hosts},
                variables=fabric.connection,
                fabric=fabric,
            )
            Path(folder, "fabric").mkdir(exist_ok=True)
