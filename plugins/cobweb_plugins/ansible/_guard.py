"""Runs a command for `ansible-plain` and ends it, with all that it started, when we are gone.

`python -m cobweb_plugins.ansible._guard SOCKET NUMBER COMMAND...`: connects, says hello, starts the
command in a session of its own and ends with its exit code. When the connection is lost, the
coordinator is gone: everything below is ended. Ansible's workers open sessions of their own, so
that neither a hang-up nor the end of ansible-playbook would reach them.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence

from cobweb_plugins.ansible._processes import Tree
from cobweb_plugins.ansible._wire import encode

__all__ = ["main"]

GRACE_S = 1.0


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of the command."""
    path, number, *command = arguments
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(encode({"op": "guard", "number": int(number), "pid": os.getpid()}))
        child = subprocess.Popen(command, start_new_session=True)
        pidfd = os.pidfd_open(child.pid)
        watched: list[socket.socket | int] = [connection, pidfd]
        if pidfd not in select.select(watched, [], [])[0]:
            tree = Tree(child.pid)
            tree.terminate()
            tree.gone(GRACE_S)
            tree.kill()
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
