"""What a run tells the pipeline that it runs in: GitHub annotations, a section of a GitLab log."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from cobweb.plugin import plain

if TYPE_CHECKING:
    from cobweb_plugins.report._report import Report

_MOST_TOLD = 50
"""How many failures, lost hosts and causes of waits the section of a log names."""


def in_pipeline() -> bool:
    """Say whether this process runs in a pipeline that `tell_pipeline` knows."""
    return _is_set("GITHUB_ACTIONS") or _is_set("GITLAB_CI")


def tell_pipeline(report: Report) -> None:
    """Write on standard error what the pipeline shows of a run; nothing where all went well."""
    from cobweb_plugins.report._annotations import github_commands, troubles_of

    with suppress(OSError):
        if _is_set("GITHUB_ACTIONS"):
            for line in github_commands(report):
                sys.stderr.write(plain(line) + "\n")
        elif _is_set("GITLAB_CI"):
            troubles = troubles_of(report)
            if troubles:
                shown = troubles[:_MOST_TOLD]
                lines = [line for it in shown for line in (it.title, *_indented(it.lines))]
                more = len(troubles) - len(shown)
                _section([*lines, f"... and {more} more"] if more else lines)


def _section(lines: list[str]) -> None:
    """Write lines as a section of the log that can be folded."""
    now = int(time.time())
    sys.stderr.write(f"\x1b[0Ksection_start:{now}:cobweb_report\r\x1b[0KWhat went wrong\n")
    for line in lines:
        sys.stderr.write(plain(line) + "\n")
    sys.stderr.write(f"\x1b[0Ksection_end:{now}:cobweb_report\r\x1b[0K\n")


def _indented(lines: tuple[str, ...]) -> list[str]:
    return [f"  | {line}" for line in lines if line]


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() == "true"
