"""The command group: one line per command here, the command's module when it is called.

The tables below are all that `cobweb --help` needs; tests hold them to the commands' own help.
Commands of plugins are looked up after the built-in ones. The plugins are loaded only for a command
of theirs, or where an entry point exists that is not one of Cobweb's own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

import click

from cobweb import __version__
from cobweb.cli._options import examples, group_options, output_option, site_options
from cobweb.cli._request import Format, current_request

COMMANDS: Mapping[str, str] = {
    "init": "Make a site repository that runs as it is.",
    "validate": "Check the site: schema, references, types, circular waits.",
    "generate": "Make files of the site from its data models.",
    "show": "Show the evaluated hosts and their COBs.",
    "explain": "Say where a value of the site came from.",
    "graph": "Write the graph of COBs and needs.",
    "plan": "Show what an apply would do, in which order and why.",
    "apply": "Bring the site to its desired state.",
    "drift": "Find what was changed by hand.",
    "simulate": "Run the site without hosts.",
    "status": "Show states, locks and the last run.",
    "why": "Say what an object waits for.",
    "generations": "List the generations of the site, the newest first.",
    "diff": "Show what differs between two generations.",
    "rollback": "Go back to an earlier generation (default: the last one reached).",
    "restart": "Have objects leave and come back, under their needs and limits.",
    "gc": "Delete old generations, and old runs with their events.",
    "forget": "Give up objects that are gone from the site.",
    "runs": "List the runs of the site, the newest first.",
    "report": "Tell what happened in a run (default: the last one).",
    "plugins": "List the plugins that were loaded, and what was left out.",
    "lock": "Show, hold or break the lock of the site.",
    "schema": "List or print the JSON Schemas of what Cobweb reads and writes.",
    "completion": "Print the completion script of a shell.",
    "cluster": "Create, change, look at and delete clusters of the catalog's templates.",
    "pool": "Move resources between services, and see why.",
    "metal": "Machines that boot from the network: see them, switch them.",
    "vcluster": "Virtual clusters: machines for some time, with names of their own.",
    "agents": "Owners on many hosts, and the servers over which they speak.",
    "agent": "Be the agent of one host.",
    "run": "Run a command on hosts, and group the answers.",
    "put": "Put a file, a folder or an archive on hosts.",
    "get": "Get a file or a folder from each host.",
    "app": "Run applications in phases on many nodes, and see how they are.",
    "decisions": "List what was decided: desired state that is in no file.",
    "decide": "Decide what a section of the site has under a key.",
    "deciders": "List what decides by itself, and why it did or did not.",
    "serve": "Keep a site as it should be: look, decide, plan, ask, apply, again and again.",
    "approvals": "List what waits to be admitted, and why.",
    "approve": "Let a controller admit what waits.",
    "reject": "Keep a controller from admitting what waits.",
    "pin": "Have a controller hold a generation.",
    "unpin": "Let a controller go on.",
    "import": "Read what other tools have written into the site.",
    "install": "Install the roles and collections that requirements.yml names.",
}
"""Name and short help of each command of Cobweb, in the order of `cobweb --help`."""

_NAMES = (
    "agent agents app approvals approve cluster decide deciders decisions generate get import "
    "install metal pin pool put reject report run serve unpin vcluster"
)
PLUGGED = frozenset(_NAMES.split())
"""Those of them that built-in plugins bring."""

_OWN_PLUGINS = "cobweb_plugins."
_OURS = re.compile(r"cobweb(-\d.*)?\.(dist|egg)-info")


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the built-in commands, then those of plugins by name."""
        return [*COMMANDS, *_strangers(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        if cmd_name in COMMANDS and cmd_name not in PLUGGED:
            command: click.Command = import_module(f"cobweb.cli.{cmd_name}").command
            return command
        found = (_loaded if cmd_name in PLUGGED else _foreign)(ctx).get(cmd_name)
        return _with_site(ctx, found) if found else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one line per command without importing the built-in ones."""
        foreign = _foreign(ctx)
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])
        rows = [(name, foreign[name].get_short_help_str()) for name in _strangers(ctx)]
        if rows:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; without any argument the help is shown, as for wrong usage."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(64)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` name; the error for an unknown one offers close names."""
        name = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            raise click.UsageError(f"there is no command {name!r}{self._close(ctx, name)}", ctx)
        return super().resolve_command(ctx, args)

    def _close(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches

        if name in PLUGGED:
            return " (its plugin was left out, see `cobweb plugins`)"
        close = get_close_matches(name, self.list_commands(ctx), n=3)
        return f" (did you mean {' or '.join(close)}?)" if close else ""


def _strangers(ctx: click.Context) -> list[str]:
    """Return the names of commands that no table has, sorted."""
    return sorted(_foreign(ctx).keys() - PLUGGED)


def _foreign(ctx: click.Context) -> Mapping[str, click.Command]:
    """Return the commands of plugins by name; loads plugins only where there are foreign ones."""
    return _loaded(ctx) if _has_foreign_plugins() else {}


def _loaded(ctx: click.Context) -> Mapping[str, click.Command]:
    """Return the commands of all plugins by name, those with a built-in's name left out."""
    key = "cobweb.commands"
    if key not in ctx.meta:
        from cobweb.plugin import load_plugins

        every = load_plugins(strict=current_request(ctx).strict_plugins).commands
        ctx.meta[key] = {k: it for k, it in every.items() if k in PLUGGED or k not in COMMANDS}
    found: Mapping[str, click.Command] = ctx.meta[key]
    return found


def _has_foreign_plugins() -> bool:
    if not _may_have_foreign_plugins():
        return False
    from importlib.metadata import entry_points

    return any(not entry.value.startswith(_OWN_PLUGINS) for entry in entry_points(group="cobweb"))


def _may_have_foreign_plugins() -> bool:
    """Say whether a closer look can find any; that takes as long as all else of `--help`.

    Only what installers write into folders is looked at: where a distribution may be elsewhere (a
    zip file, an importer of its own), a closer look is taken.
    """
    finders = [it for it in sys.meta_path if hasattr(it, "find_distributions")]
    folders = list(map(Path, dict.fromkeys(sys.path)))
    if finders != [PathFinder] or any(map(Path.is_file, folders)):
        return True
    files = (it for folder in folders for it in folder.glob("*.*-info/entry_points.txt"))
    strange = (it for it in files if not _OURS.fullmatch(it.parent.name))
    try:
        return any(b"[cobweb]" in it.read_bytes() for it in strange)
    except OSError:
        return True


def _with_site(ctx: click.Context, command: click.Command) -> click.Command:
    """Give a command of a plugin what it asked for: shared options, and access to the site."""
    from cobweb.cli._access import CliAccess
    from cobweb.plugin import ACCESS_KEY, forms_of

    ctx.meta[ACCESS_KEY] = CliAccess
    forms = forms_of(command)
    for leaf in () if forms is None else _leaves(command):
        if not any(parameter.name == "site" for parameter in leaf.params):
            shared = click.Command(None)
            site_options(output_option(*map(Format, forms or ()))(shared))
            leaf.params += [shared.params[0], *reversed(shared.params[1:])]
    return command


def _leaves(command: click.Command) -> Iterator[click.Command]:
    """Yield the commands of a group, and of its groups; a command that is none yields itself."""
    for each in getattr(command, "commands", {}).values():
        yield from _leaves(each)
    if not hasattr(command, "commands"):
        yield command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog=examples("cobweb init site", "cobweb -C site validate", "cobweb -C site plan"),
)
@click.version_option(__version__, message="cobweb %(version)s")
@group_options
def cobweb() -> None:
    """Change distributed systems in the right order, across hosts.

    A site is a folder with a site.yml that says which objects exist on which hosts and what they
    need of each other. The order of all changes follows from these needs.
    """
