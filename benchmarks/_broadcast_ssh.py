"""One command on all SSH hosts: `cobweb run` beside clush and pdsh, with the same ssh options."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping

from benchmarks._tasks_cost import Spent
from benchmarks._tasks_places import Place, tool
from benchmarks._tasks_tools import write_json

COMMAND = "hostname"
FANOUT = "64"
LIMIT_S = 5
ANY_CODE = range(256)
_SSH = "-o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 -o ServerAliveCountMax=2"
"""What Cobweb calls ssh with by itself."""

Ask = Callable[..., Spent | None]
"""Asks all hosts of a place, with `is_limited` in LIMIT_S seconds; None: the tool is missing."""


def cobweb(place: Place, *, is_limited: bool = False) -> Spent:
    """Ask by `cobweb run`."""
    site = place.folder / "broadcast"
    write_json(site / "hosts.yml", place.inventory({}))
    write_json(site / "site.yml", {"cobweb": 1, "name": "bench", "inventory": "hosts.yml"})
    limit = ["--timeout", f"{LIMIT_S}s"] if is_limited else []
    words = ["run", "--on", "all", "--fanout", FANOUT, *limit, "--", COMMAND]
    return place.run([tool("cobweb"), "-C", str(site), *words], cwd=site, ok=ANY_CODE)


def clush(place: Place, *, is_limited: bool = False) -> Spent | None:
    """Ask by clush, which gathers what is the same."""
    if shutil.which("clush") is None:
        return None
    where = ["-l", "root", "-o", _ssh(place), "-w", _addresses(place)]
    limit = ["-u", f"{LIMIT_S}"] if is_limited else []
    words = ["clush", "-b", "-S", "-f", FANOUT, *limit, *where, COMMAND]
    return place.run(words, cwd=place.folder, ok=ANY_CODE)


def pdsh(place: Place, *, is_limited: bool = False) -> Spent | None:
    """Ask by pdsh."""
    if shutil.which("pdsh") is None:
        return None
    limit = ["-u", f"{LIMIT_S}"] if is_limited else []
    words = ["pdsh", "-R", "ssh", "-S", "-f", FANOUT, *limit, "-l", "root"]
    return place.run(
        [*words, "-w", _addresses(place), COMMAND],
        cwd=place.folder,
        ok=ANY_CODE,
        PDSH_SSH_ARGS=f"{_ssh(place)} -l%u %h",
    )


PEERS: Mapping[str, Ask] = {"clush": clush, "pdsh": pdsh}


def _ssh(place: Place) -> str:
    assert place.fabric is not None
    return f"-T -i {place.fabric.key} {place.variables['ansible_ssh_common_args']} {_SSH}"


def _addresses(place: Place) -> str:
    return ",".join(values["ansible_host"] for values in place.hosts.values())
