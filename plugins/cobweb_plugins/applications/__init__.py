"""Built-in plugin: commands, files and applications on many hosts at once (Plush-M)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from cobweb.errors import UsageError
from cobweb.plugin import (
    Extension,
    RegisteredType,
    Section,
    data_dir,
    hookimpl,
    on_site,
    seconds_of,
    site_access,
    type_file,
)

if TYPE_CHECKING:
    from cobweb.model import Expansion
    from cobweb.plugin import ExpandContext
    from cobweb_plugins.applications._run import Target

__all__ = ["cobweb_interface"]

cobweb_interface = 1

_F = TypeVar("_F", bound=Callable[..., Any])


class ChannelPoint:
    """The extension point `command_channel`, at which plugins add ways to hosts."""

    point: ClassVar[str] = "extension-point"
    name: ClassVar[str] = "command_channel"


def _file(kind: str, name: str) -> Path:
    return Path(str(data_dir(kind))) / name  # type: ignore[arg-type]


def _schema(name: str) -> Mapping[str, Any]:
    text = _file("schemas", f"sections/{name}.schema.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


class ApplicationsSection:
    """Applications in phases; which instance is at work, and how far it is, is decided."""

    name: ClassVar[str] = "applications"
    schema: ClassVar[Mapping[str, Any]] = _schema("applications")
    decision_schema: ClassVar[Mapping[str, Any]] = _schema("applications.decision")

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return the objects of all phases."""
        from cobweb_plugins.applications._section import expand_applications

        return expand_applications(sections, context)


def _target(function: _F) -> _F:
    """Add the options that say which hosts are called, and how long and how many at once."""
    for option in (
        click.option(
            "--fanout", metavar="N", type=click.IntRange(1), help="Call so many hosts at once."
        ),
        click.option("--timeout", metavar="DURATION", help="Give each host so long; default: any."),
        click.option(
            "--on",
            "pattern",
            metavar="PATTERN",
            required=True,
            help="The hosts: an Ansible host pattern.",
        ),
    ):
        function = option(function)
    return function


def _made(pattern: str, timeout: str | None, fanout: int | None) -> Target:
    """Return what the options of `_target` say; UsageError for what is no duration."""
    from cobweb_plugins.applications._broadcast import Limits
    from cobweb_plugins.applications._run import Target

    try:
        timeout_s = None if timeout is None else seconds_of(timeout)
    except ValueError as error:
        raise UsageError(f"`{timeout}` {error}", hint="as in `--timeout 5s`") from error
    return Target(pattern=pattern, limits=Limits(timeout_s=timeout_s, fanout=fanout))


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n  cobweb run --on all --timeout 5s -- hostname\n"
    "  cobweb run --on web -o json -- 'df -h / | tail -1'",
)
@_target
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True)
@click.pass_context
def run_command(
    context: click.Context,
    /,
    *,
    words: Sequence[str],
    **target: Any,
) -> int:
    """Run a command on hosts, and group the answers.

    Hosts that say the same are told together, those without an answer by name
    and with the reason. Several words are one command with its arguments; one
    word alone is a line of the hosts' `sh`. The command should disturb
    nothing: it takes no lock of the site and no slot of a limit. It goes over
    the hosts' agents where they are, and over SSH elsewhere.
    """
    import shlex

    from cobweb_plugins.applications._run import run

    command = words[0] if len(words) == 1 else shlex.join(words)
    return run(site_access(context), _made(**target), command)


@click.command(
    "put",
    epilog="\b\nExamples:\n  cobweb put --on web motd /etc/motd\n"
    "  cobweb put --on all --unpack --sha256 SHA256 ring.tar.gz /opt/ring",
)
@_target
@click.option("--sha256", default="", help="Refuse a source that has another SHA-256.")
@click.option("--mode", default="", help="The file's mode there, as chmod takes it; default 644.")
@click.option(
    "--unpack", is_flag=True, help="SOURCE is an archive, of which DEST gets the content."
)
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("dest")
@click.pass_context
def put_command(  # noqa: PLR0913  # each is an option
    context: click.Context,
    /,
    *,
    source: Path,
    dest: str,
    sha256: str,
    mode: str,
    unpack: bool,
    **target: Any,
) -> int:
    """Put a file, a folder or an archive on hosts.

    Each host checks the SHA-256 of what came before it puts it into its place:
    DEST, or in DEST if that is a folder. Who has the file is sent nothing. Of
    a folder, and of an archive with --unpack, DEST gets the content; what is
    in DEST else stays.
    """
    from cobweb_plugins.applications._files import Put, put

    what = Put(source=source, dest=dest, sha256=sha256, mode=mode, is_unpacked=unpack)
    return put(site_access(context), _made(**target), what)


@click.command(
    "get",
    epilog="\b\nExamples:\n  cobweb get --on web /var/log/syslog logs\n"
    "  cobweb get --on all --most 4096 /var/crash crashes",
)
@_target
@click.option(
    "--most",
    metavar="MIB",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="Take at most so much of each host.",
)
@click.argument("source")
@click.argument("dest", type=click.Path(file_okay=False, path_type=Path))
@click.pass_context
def get_command(
    context: click.Context, /, *, source: str, dest: Path, most: int, **target: Any
) -> int:
    """Get a file or a folder from each host.

    It is DEST/HOST/NAME here, and takes the place of one that is there. What
    does not come whole changes nothing.
    """
    from cobweb_plugins.applications._files import get

    return get(site_access(context), _made(**target), source, dest, most * 2**20)


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `run`, `put`, `get` and `app`."""
    from cobweb_plugins.applications._app import app

    return [on_site(it) for it in (run_command, put_command, get_command, app)]


@hookimpl
def cobweb_register_extensions() -> Sequence[type[Extension]]:
    """Register the point `command_channel`."""
    return [ChannelPoint]


@hookimpl
def cobweb_register_sections() -> Sequence[type[Section]]:
    """Register `applications`."""
    return [ApplicationsSection]


@hookimpl
def cobweb_register_types() -> Sequence[type[RegisteredType]]:
    """Register the type of a phase on a node."""
    return [type_file(_file("playbooks", "applications/phase/type.yml"))]
