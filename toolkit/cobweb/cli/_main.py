"""The border of the program: errors become messages and exit codes here, and only here."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum

import click

from cobweb._garbage import collect_rarely
from cobweb._text import plain
from cobweb.cli._group import cobweb
from cobweb.cli._streams import flush_stdout, forget_stdout, prepare_streams
from cobweb.cli._text import count
from cobweb.errors import CobwebError, Finding, SiteError

_COMPLETION = "_COBWEB_COMPLETE"
_BOUNDS = {
    RecursionError: "what it was given is nested too deeply (hand over plainer data)",
    MemoryError: "the memory does not suffice (hand over less, or give it more)",
}


class ExitCode(IntEnum):
    """The exit codes of section 7 of the design."""

    DONE = 0
    FAILED = 1
    PENDING = 2
    INVALID = 3
    STUCK = 4
    LOCKED = 5
    USAGE = 64
    INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run `cobweb` with these arguments (default: those of the process); return its exit code.

    A user's mistake and a failed operation are one message on standard error, and so is input that
    is too deep or too large where no reader refuses it by a limit of its own. Anything else that is
    raised is a defect of Cobweb or a plugin: its traceback is shown, and the code is 1.
    """
    if argv is None:  # the process is Cobweb's own
        collect_rarely()
    prepare_streams()
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        flush_stdout()
    except BrokenPipeError:
        forget_stdout()
        code = ExitCode.FAILED
    except CobwebError as error:
        _tell(error)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = _say("interrupted", ExitCode.INTERRUPTED)
    except (RecursionError, MemoryError) as error:
        code = _say(f"cobweb: {_BOUNDS[type(error)]}", ExitCode.FAILED)
    except Exception:  # noqa: BLE001 - the outermost border; the whole traceback is shown
        import traceback

        traceback.print_exc()
        code = _say("this is a defect of cobweb or of a plugin; please report it", ExitCode.FAILED)
    return code


def _run(argv: Sequence[str]) -> int:
    if _COMPLETION in os.environ:
        cobweb.main(list(argv), prog_name="cobweb", complete_var=_COMPLETION)
        raise SystemExit(ExitCode.DONE)
    try:
        with cobweb.make_context("cobweb", list(argv)) as context:
            result = cobweb.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _tell_click(error)
    return result if isinstance(result, int) else ExitCode.DONE


def _tell_click(error: click.ClickException) -> int:
    """Show what click found wrong, with foreign characters made visible."""
    text = io.StringIO()
    error.show(text)
    for line in text.getvalue().splitlines():
        _say(line)
    return ExitCode.USAGE if isinstance(error, click.UsageError) else ExitCode.FAILED


def _tell(error: CobwebError) -> None:
    if isinstance(error, SiteError):
        for finding in error.findings:
            _tell_finding(finding)
        _say(count(len(error.findings), "finding"))
    else:
        for line in f"cobweb: {error}".splitlines():
            _say(line)
    for note in getattr(error, "__notes__", ()):
        _say(f"note: {note}")


def _tell_finding(finding: Finding) -> None:
    """Show a finding; the steps of a circle are lines of their own, after the hint."""
    first, *steps = finding.message.split("\n")
    _say(str(replace(finding, message=first)))
    for step in steps:
        _say(step)


def _say(text: str, code: int = 0) -> int:
    sys.stderr.write(plain(text) + "\n")
    return code
