"""A process that kills itself before a step of its own: forked from the test, and nobody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["kill_self_before"]


def kill_self_before(number: int, steps: Iterable[tuple[Any, str]]) -> None:
    """Have this process kill itself when it is about to take its step `number`, from 0.

    Steps are calls of functions, each named by what has it and its name there.
    """
    left, kill = [number], os.kill

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if left[0] == 0:
                kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*args, **kwargs)

        return step

    for owner, name in steps:
        setattr(owner, name, counted(getattr(owner, name)))
