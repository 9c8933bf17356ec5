"""Runs of `cobweb` that die at one of their writes to the state database.

There are two moments for each transaction: 2k is when all before transaction k (from 0) is stored
and it is not; 2k + 1 is when it is on the disk, and nothing was done about it yet. The death is
SIGKILL's. A run that has fewer moments lives, and ends as it does.

Run as a program it is a nursery: it loads Cobweb once, and for each line of JSON that it reads,
[moment, arguments, file for the output, file for errors], forks a process that is such a run, and
writes its return code.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NoReturn

from sqlalchemy import Connection

import cobweb.operations  # noqa: F401  # what all runs need is loaded once
from cobweb.cli import main
from cobweb.plugin import load_plugins
from cobweb.store._database import Database

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

Writing = Callable[[Database], AbstractContextManager[Connection]]


def dying_at(moment: int, write: Writing) -> Writing:
    """Return `write` as it is in a process that dies at `moment`."""
    moments = itertools.count()

    def pass_moment() -> None:
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def dying(database: Database) -> Iterator[Connection]:
        pass_moment()
        with write(database) as connection:
            yield connection
        pass_moment()

    return dying


def be_born(moment: int, arguments: Sequence[str], out: str, err: str) -> NoReturn:
    """Be a run, in a process of its own."""
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, _WRITE), (2, err, _WRITE)):
        os.dup2(os.open(path, flags, 0o600), number)
    Database.write = dying_at(moment, Database.write)  # type: ignore[assignment,method-assign]  # to die
    code = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve() -> None:
    """Let runs live and die until the input ends."""
    load_plugins()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            be_born(*json.loads(line))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
