"""A process of lightweight members: the agent's side of commands for many hosts.

Each has a link of its own, with its key, and answers commands as the agent of its host would; it
has no orders, and shares its Python with the others. The end of standard input ends all of them.
"""

from __future__ import annotations

import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from cobweb_plugins.agents._address import address_of
from cobweb_plugins.agents._commands import Commands
from cobweb_plugins.agents._link import connect
from cobweb_plugins.agents._part import COORDINATOR

FILES = 16
"""How many open files a member may need: two loops, a connection, the pipes of a command."""

AT_ONCE = 16
"""How many members of a process join at once."""

JOIN_S = 60.0
"""How long one may take for it; the others of its machine take turns with it."""


def main(address: str, *names: str) -> None:
    """Be these members, and say of each that it is there."""
    _allow_files(FILES * len(names) + 64)
    pinned = address_of(address).keys / f"{COORDINATOR}.pub"
    join = partial(_joined, address, pinned.read_text(encoding="utf-8").strip())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        members = list(pool.map(join, names))
    sys.stdin.read()
    for member in members:
        member.close()


def _joined(address: str, pinned: str, name: str) -> Commands:
    """Let a member join the others."""
    link = connect(address, name, lambda: None, JOIN_S)
    member = Commands(pinned, link.room)
    sys.stdout.write(f"{name} is there\n")
    sys.stdout.flush()
    return member


def _allow_files(count: int) -> None:
    """Have this process open so many files; ValueError where the system does not let it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
