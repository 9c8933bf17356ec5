"""What the benchmark of agents reads of processes: their time, their memory, and which they are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks._agents_company import Used
from benchmarks._agents_proc import cpu_s, memory, named

BUSY = "while sum(os.times()[:2]) < 0.2: pass"
"""Has a process use a fifth of a second, however long that takes."""

PARENT = f"""
import os, subprocess, sys
subprocess.run([sys.executable, "-c", "import os\\n{BUSY}"], check=True)
child = subprocess.Popen(
    [sys.executable, "-c", "import os\\n{BUSY}\\nprint(flush=True); input()"],
    stdin=subprocess.PIPE,
)
input()
child.communicate(b"\\n")
"""


@contextmanager
def _process(code: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that has printed a line and waits for one."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate(b"\n")
    assert process.returncode == 0


def test_the_time_of_a_process_has_that_of_children_that_live_and_that_have_ended() -> None:
    with _process(PARENT) as process:
        assert cpu_s([process.pid]) >= 0.35  # twice 0.2 s, in whole ticks


def test_a_process_below_another_one_counts_once() -> None:
    with _process(PARENT) as process:
        (child,) = _children(process.pid)
        whole = cpu_s([process.pid])
        assert cpu_s([process.pid, child, process.pid]) < whole + cpu_s([child])
        assert cpu_s([child]) >= 0.15


def test_a_process_that_is_gone_has_used_nothing() -> None:
    with _process("print(flush=True); input()") as process:
        pass
    assert cpu_s([process.pid]) == 0


def test_processes_are_found_by_their_command_lines() -> None:
    word = f"a-word-of-{os.getpid()}"
    with _process("print(flush=True); input()", word) as process:
        assert named(f"input() {word}") == [process.pid]
    assert named(word) == []


def test_memory_that_is_shared_counts_for_each_in_part() -> None:
    kept = memory(os.getpid())
    assert 0 < kept.shared_out <= kept.resident


def test_what_was_used_since_an_earlier_look() -> None:
    before, after = Used(agents_s=1.0, server_s=0.5), Used(agents_s=3.5, server_s=0.75)
    assert after.since(before) == Used(agents_s=2.5, server_s=0.25)


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]
