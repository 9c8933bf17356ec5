"""Runs a command and ends it, with all that it started, when the coordinator is gone.

`python -m cobweb_plugins.ansible._guard SOCKET FOLDER NUMBER MEMORY COMMAND...`: connects, says
hello, starts the command in a session of its own and ends with its exit code. No process of it may
take more than MEMORY bytes, if that is not 0. When the connection is lost, the coordinator was
killed: all below is ended, and the files of the run are removed. Neither a
hang-up nor the end of ansible-playbook would do: its workers, and our lanes, have sessions of their
own, and what it prints into a terminal that is gone ends it before it can clean up.
"""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cobweb_plugins.ansible._processes import Tree, end_ssh_masters
from cobweb_plugins.ansible._wire import encode

GRACE_S = 1.5


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of the command, 1 where the coordinator is gone."""
    path, data, number, memory, *command = arguments
    folders = (Path(path).parent, Path(data))
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            connection.sendall(encode({"op": "guard", "number": int(number), "pid": os.getpid()}))
        except OSError:
            _clean_up(*folders)
            return 1
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ansible-runner ignores it
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        signal.signal(signal.SIGHUP, before)
        if int(memory):
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.prlimit(child.pid, resource.RLIMIT_DATA, (int(memory), hard))
        if _outlived(connection, child.pid):
            return child.wait()
        tree = Tree(child.pid)
        tree.terminate()
        tree.gone(GRACE_S)
        tree.kill()
        child.wait()
        _clean_up(*folders)
        return 1


def _outlived(connection: socket.socket, pid: int) -> bool:
    """Wait for the end of the child or of the connection; say whether the child was the first."""
    pidfd = os.pidfd_open(pid)
    watched: list[socket.socket | int] = [connection, pidfd]
    return pidfd in select.select(watched, [], [])[0]


def _clean_up(sockets: Path, data: Path) -> None:
    end_ssh_masters(sockets / "cp")
    for folder in (sockets, data):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
