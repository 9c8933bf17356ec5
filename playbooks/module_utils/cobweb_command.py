# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that look at the host for a COB: with a time limit, and with what they print.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from typing import List, NamedTuple, Optional, Union

from ansible.module_utils import cobweb_supervisor as supervision
from ansible.module_utils.cobweb_host import Failed

OUTPUT_LIMIT = 2_000

Command = Union[str, List[str]]


class Ended(NamedTuple):
    """How a command ended, None if its time was over; `output` is the end of what it printed."""

    status: Optional[int]
    output: str

    def describe(self, limit_s: float) -> str:
        """Say how it ended, in words that follow its name."""
        how = f"ended with exit status {self.status}"
        if self.status is None:
            how = f"took longer than {limit_s:g} s"
        elif self.status < 0:
            how = f"was ended by {signal.Signals(-self.status).name}"
        return f"{how}: {self.output}" if self.output else how


def words(command: Command) -> List[str]:
    """Return program and arguments; a text is split as a shell would, and not given to one."""
    try:
        return shlex.split(command) if isinstance(command, str) else [str(it) for it in command]
    except ValueError as error:
        raise Failed(f"`{command}` is no command: {error}") from None


def run_command(argv: List[str], limit_s: float) -> Ended:
    """Run a program to its end, or to that of its time; Failed if there is no such program."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise Failed(f"cannot run `{argv[0]}`: {error.strerror or error}") from None
        status = _wait(process, limit_s)
        output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_LIMIT))
        text = output.read().decode("utf-8", errors="replace").strip()
    return Ended(status, text)


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> Optional[int]:
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        # It stays in the process group of the task, so that an interrupt of the run ends it too;
        # its own time limit therefore ends it by descent.
        supervision.kill_tree(process.pid)
        process.wait()
        return None
