"""Starting ansible-playbook through ansible-runner, in a thread (its interface blocks).

ansible-runner gives the process a session and a terminal of its own, so that Ctrl-C on ours does
not reach it, and keeps what it prints.

It finds events in what is printed, by escape sequences, and what a host says may be printed as it
is. So each process has a number that its own events carry (ansible-runner's `JOB_ID`) and that no
host is told; an event without it is a host's forgery and counts for nothing.
"""

from __future__ import annotations

import importlib.util
import secrets
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cobweb.errors import ExecutorError
from cobweb_plugins.ansible._results import bounded

OUTPUT_TAIL = 20_000
NUMBER_BITS = 62
ERROR_MARKS = ("[ERROR]", "ERROR!")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to start: `arguments` with `environment` added to ours, in `cwd`; files in `data`."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    data: Path
    cwd: Path
    ident: str


class RunnerThread:
    """One process started by ansible-runner; `on_end` is called in its thread when it ended."""

    def __init__(
        self,
        command: Command,
        *,
        on_end: Callable[[], None],
        on_event: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._command = command
        self._on_end = on_end
        self._on_event = on_event
        self._ended = threading.Event()
        self._problem = ""
        self._number = secrets.randbits(NUMBER_BITS)
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run, name=f"ansible-runner {command.ident}")
        self._thread.daemon = True
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._ended.is_set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, at most `timeout_s`; say whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def problem(self) -> str:
        """Say in one line why the process ended: the last that Ansible called an error."""
        if self._problem:
            return self._problem
        path = self._command.data / "artifacts" / self._command.ident / "stdout"
        try:
            text = path.read_text(encoding="utf-8", errors="replace")[-OUTPUT_TAIL:]
        except OSError:
            text = ""
        errors = [line for line in text.splitlines() if line.startswith(ERROR_MARKS)]
        said = errors[-1] if errors else text
        return bounded(said) or f"it ended with exit code {self.code} and said nothing"

    def _run(self) -> None:
        try:
            self._run_runner()
        except Exception as error:  # noqa: BLE001  # the border to ansible-runner
            self._problem = bounded(f"ansible-runner broke: {error!r}")
        finally:
            self._ended.set()
            self._on_end()

    def _run_runner(self) -> None:
        import ansible_runner  # heavy

        program, *arguments = self._command.arguments
        runner = ansible_runner.run(
            private_data_dir=str(self._command.data),
            project_dir=str(self._command.cwd),
            ident=self._command.ident,
            binary=program,
            cmdline=shlex.join(arguments),
            envvars={**self._command.environment, "JOB_ID": str(self._number)},
            fact_cache_type="none",
            quiet=True,
            suppress_env_files=True,
            event_handler=self._handle,
            cancel_callback=lambda: False,  # else ansible-runner may set signal handlers
        )
        self.code = runner.rc

    def _handle(self, event: Mapping[str, Any]) -> bool:
        if self._on_event is not None and event.get("job_id") == self._number:
            self._on_event(event)
        return False


def installed_version() -> tuple[int, ...]:
    """Return ansible-core's version as far as it is numbers; ExecutorError where it is missing."""
    try:
        text = version("ansible-core")
    except PackageNotFoundError:
        text = ""
    if not text or importlib.util.find_spec("ansible_runner") is None:
        raise ExecutorError(
            "ansible-core and ansible-runner are not installed",
            hint="install Cobweb with its extra `ansible`",
        )
    return tuple(int(part) for part in text.split(".") if part.isdigit())
