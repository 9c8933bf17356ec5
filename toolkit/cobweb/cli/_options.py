"""The options that commands share, as decorators.

`site_options` is on every command that reads a site; the others where they make sense. Shared
values are kept in the `Request` that `pass_request` hands to the command as its first argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from cobweb.cli._complete import complete_host, complete_reference
from cobweb.cli._parameters import BOUND, DURATION, FAILURES
from cobweb.cli._request import Format, Request, current_request, remember
from cobweb.errors import UsageError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any] | click.Command)
_Callback = Callable[[click.Context, click.Parameter, Any], None]
_DATA = (Format.TEXT, Format.JSON, Format.YAML)

events_option = click.option(
    "--events",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True),
    help="Write what happens as JSON Lines to FILE; - is standard output.",
)
"""Adds `--events FILE`."""

executor_option = click.option(
    "--executor",
    metavar="NAME",
    help="Carry out with this executor (`cobweb plugins` lists them).",
)
"""Adds `--executor NAME`."""

parallel_option = click.option(
    "--parallel",
    metavar="N",
    type=click.IntRange(1, 100_000),
    help="At most N checks and transitions at once.",
)
"""Adds `--parallel N`."""

timeout_option = click.option(
    "--timeout",
    metavar="DURATION",
    type=DURATION,
    help="Longest time of one check or transition that has no own: 90, 10m, 1h30m.",
)
"""Adds `--timeout DURATION`, in seconds as a float, or None."""

max_failures_option = click.option(
    "--max-failures",
    metavar="N|P%",
    type=FAILURES,
    help="Start nothing new once more objects than this have failed.",
)
"""Adds `--max-failures N|P%`, an `Allowance` or None."""

budget_option = click.option(
    "--budget",
    "budgets",
    metavar="NAME=N",
    multiple=True,
    type=BOUND,
    help="Let so many be out under this limit, in this run; repeatable.",
)
"""Adds `--budget NAME=N`, pairs."""

only_option = click.option(
    "--only",
    metavar="REF",
    multiple=True,
    shell_complete=complete_reference,
    help="Move only this object and what it needs; repeatable.",
)
"""Adds `--only REF`, references."""

renew_option = click.option(
    "--renew",
    metavar="REF",
    multiple=True,
    shell_complete=complete_reference,
    help="Take this object for changed; repeatable.",
)
"""Adds `--renew REF`, references."""

max_removals_option = click.option(
    "--max-removals",
    metavar="N|P%",
    type=FAILURES,
    help="Refuse to remove more of the known objects than this; default 20%, at least 3.",
)
"""Adds `--max-removals N|P%`, an `Allowance` or None."""

refresh_option = click.option(
    "--refresh",
    type=click.Choice(["changed", "all", "none"]),
    default="changed",
    show_default=True,
    help="Check the objects in doubt (changed, new, interrupted), all, or as few as can be.",
)
"""Adds `--refresh changed|all|none`."""

store_timeout_option = click.option(
    "--store-timeout",
    metavar="DURATION",
    type=DURATION,
    default="60s",
    show_default=True,
    help="Wait so long for a state database that goes away in the run; then end it.",
)
"""Adds `--store-timeout DURATION`, in seconds as a float."""

wait_option = click.option(
    "--wait",
    metavar="DURATION",
    type=DURATION,
    help="Wait so long for a site that another run holds: 90, 10m, 1h30m.",
)
"""Adds `--wait DURATION`, in seconds as a float or None; it arrives as `wait`."""

yes_option = click.option("-y", "--yes", is_flag=True, help="Ask no question.")
"""Adds `--yes`."""


def examples(*lines: str) -> str:
    """Return the epilog of a command: its examples, one a line, each a real command line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def pass_request(function: Callable[Concatenate[Request, _P], _R]) -> Callable[_P, _R]:
    """Hand the shared options to a command function as its first argument."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        request = current_request()
        if not request.verbosity and request.log_format is not Format.JSON:
            return function(request, *args, **kwargs)
        from cobweb.cli._logging import logging_of

        with logging_of(request):
            return function(request, *args, **kwargs)

    return call


def output_option(*formats: Format) -> Callable[[_F], _F]:
    """Add `-o FORMAT`; without formats those of plain data: text, json and yaml."""
    choices = formats or _DATA

    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        chosen = Format(value) if value else current_request(ctx).format or Format.TEXT
        if chosen not in choices:
            raise click.BadParameter(f"{chosen} is not one of {', '.join(choices)}", ctx, param)
        remember("format", chosen)

    return _format_option(choices, keep, f"; default {Format.TEXT}")


def site_request(
    *formats: Format,
) -> Callable[[Callable[Concatenate[Request, _P], _R]], Callable[_P, _R]]:
    """Add the options of a site and `output_option`; what they ask for is the first argument."""

    def add(function: Callable[Concatenate[Request, _P], _R]) -> Callable[_P, _R]:
        return output_option(*formats)(site_options(pass_request(function)))

    return add


def site_options(function: _F) -> _F:
    """Add `-C SITE`, what the site may do, `--strict-plugins`, `--no-cache` and `log_options`."""
    return _site_option(_shared_options(log_options(function)), None)


def group_options(function: _F) -> _F:
    """Add all shared options to the group, where they stand before the command's name."""
    format_option = _format_option(_DATA, _keep("format", Format))
    return _site_option(_shared_options(format_option(log_options(function))), "COBWEB_SITE")


def log_options(function: _F) -> _F:
    """Add `--no-color`, `-v` and `--log-format`."""
    color = _flag(
        "no_color", "Write no colours (so does NO_COLOR, and standard output that is no terminal)."
    )
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        callback=_keep("verbosity"),
        expose_value=False,
        help="Log to standard error what is done; -vv logs more.",
    )
    log_format = click.option(
        "--log-format",
        type=click.Choice([Format.TEXT.value, Format.JSON.value]),
        callback=_keep("log_format", Format),
        expose_value=False,
        help="Format of the log on standard error.",
    )
    return color(verbose(log_format(function)))


def limit_option(function: _F) -> _F:
    """Add `--limit PATTERN`, the hosts that are concerned."""
    return click.option(
        "--limit",
        metavar="PATTERN",
        callback=_limit,
        shell_complete=complete_host,
        help="Move only what is on these hosts (an Ansible host pattern, or @FILE with one in each"
        " line).",
    )(function)


def _limit(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a host pattern, with the lines of a file in the place of `@FILE`."""
    if value is None or not value.startswith("@"):
        return value
    try:
        text = Path(value[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise click.BadParameter(f"cannot read `{value[1:]}`: {reason}") from error
    lines = [line.strip() for line in text.splitlines()]
    if patterns := [line for line in lines if line and not line.startswith("#")]:
        return ",".join(patterns)
    raise click.BadParameter(f"`{value[1:]}` names no host")


def max_unreachable_option(default: str | None) -> Callable[[_F], _F]:
    """Add `--max-unreachable N|P%`, an `Allowance`, or None where there is no default."""
    return click.option(
        "--max-unreachable",
        metavar="N|P%",
        type=FAILURES,
        default=default,
        show_default=default is not None,
        help="Change nothing while more hosts than this cannot be reached.",
    )


def refuse_two_parts(limit: str | None, only: Iterable[str], *, rolls_back: bool = False) -> None:
    """Raise UsageError where options ask for two parts, or for one where all goes back."""
    parts = ["--limit"] * (limit is not None) + ["--only"] * bool(tuple(only))
    if len(parts) > 1:
        raise UsageError("--limit and --only do not go together", hint="leave one of them out")
    if parts and rolls_back:
        message = "--on-failure rollback is for the whole site"
        raise UsageError(message, hint=f"leave {parts[0]} out")


def last_option(things: str) -> Callable[[_F], _F]:
    """Add `--last N`: how many of these things are listed."""
    return click.option(
        "-n",
        "--last",
        metavar="N",
        type=click.IntRange(1, 100_000),
        default=20,
        show_default=True,
        help=f"Only the last N {things}.",
    )


def reference_argument(*, required: bool = True) -> Callable[[_F], _F]:
    """Add an argument that names a COB (`host/name`), completed from the site."""
    metavar = "REF" if required else "[REF]"
    return click.argument(
        "reference", metavar=metavar, required=required, shell_complete=complete_reference
    )


def _keep(name: str, make: Callable[[Any], Any] = lambda value: value) -> _Callback:
    """Return a callback that remembers what `make` makes of an option's value, if it has one."""

    def keep(_ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value:
            remember(name, make(value))

    return keep


def _format_option(
    choices: Sequence[Format], keep: _Callback, default: str = ""
) -> Callable[[_F], _F]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice([str(choice) for choice in choices]),
        callback=keep,
        expose_value=False,
        help=f"Format of the data on standard output{default}.",
    )


def _site_option(function: _F, envvar: str | None) -> _F:
    return click.option(
        "-C",
        "--site",
        metavar="SITE",
        envvar=envvar,
        type=click.Path(path_type=Path),
        callback=_keep("site"),
        expose_value=False,
        help="Folder or file of the site; default $COBWEB_SITE, or the nearest site.yml upwards.",
    )(function)


def _shared_options(function: _F) -> _F:
    outside = _flag("allow_outside", "Let the site use files outside of its Git repository.")
    trust = _flag(
        "trust_inventory", "Let an inventory run programs; what plans or runs tasks does so anyway."
    )
    strict = _flag(
        "strict_plugins", "Stop if a plugin cannot be loaded, instead of leaving it out."
    )
    cache = _flag(
        "no_cache", "Evaluate everything anew and keep nothing (so does COBWEB_NO_CACHE)."
    )
    return outside(trust(strict(cache(function))))


def _flag(name: str, words: str) -> Callable[[_F], _F]:
    """Return what adds a flag that is remembered by its name; `words` are its help."""
    return click.option(
        f"--{name.replace('_', '-')}",
        is_flag=True,
        callback=_keep(name),
        expose_value=False,
        help=words,
    )
