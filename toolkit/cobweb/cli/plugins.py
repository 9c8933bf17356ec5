"""`cobweb plugins`: what was loaded from where, and what was left out and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from cobweb._tables import Cell, Column, Tone
from cobweb.cli._group import COMMANDS, PLUGGED
from cobweb.cli._options import examples, site_request
from cobweb.cli._output import Output
from cobweb.cli._render import write_table
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count

if TYPE_CHECKING:
    from cobweb.plugin import FailedPlugin, LoadedPlugin, Plugins

_COLUMNS = (
    Column(title="PLUGIN"),
    Column(title="FROM", flexible=True),
    Column(title="REGISTERS", flexible=True),
)
_FAILED_COLUMNS = (
    Column(title="LEFT OUT"),
    Column(title="FROM", flexible=True),
    Column(title="BECAUSE", flexible=True),
)


@click.command(
    "plugins",
    epilog=examples("cobweb plugins", "cobweb plugins -o json", "cobweb plugins --strict-plugins"),
)
@site_request()
def command(request: Request) -> None:
    """List the plugins that were loaded, and what was left out.

    A broken plugin is left out and named here with the reason; with
    --strict-plugins it is an error.
    """
    output = Output.of(request)
    with open_site(request) as session:
        plugins = session.plugins
    if output.data(plugins_data(plugins)):
        return
    write_table(output, _COLUMNS, [_row(plugin) for plugin in plugins.loaded])
    if plugins.loaded and plugins.failed:
        output.line()
    write_table(output, _FAILED_COLUMNS, [_failed_row(plugin) for plugin in plugins.failed])
    for plugin in plugins.loaded:
        for note in plugin.notes:
            output.note(f"plugin {plugin.name}: {note}")
    for name in sorted((COMMANDS.keys() - PLUGGED) & plugins.commands.keys()):
        output.summary(f"note: the command {name} of a plugin is hidden by the built-in one")
    loaded, left_out = len(plugins.loaded), len(plugins.failed)
    output.summary(f"{count(loaded, 'plugin')} loaded, {left_out} left out")


def plugins_data(plugins: Plugins) -> dict[str, Any]:
    """Return what `cobweb plugins -o json` writes."""
    return {
        "format": 1,
        "loaded": [_loaded_data(plugin) for plugin in plugins.loaded],
        "failed": list(map(asdict, plugins.failed)),
    }


def _row(plugin: LoadedPlugin) -> tuple[Cell | str, ...]:
    registers = "; ".join(f"{it}: {', '.join(names)}" for it, names in plugin.registered.items())
    return (Cell(text=plugin.name, tone=Tone.GOOD), _source(plugin), registers or "nothing")


def _failed_row(plugin: FailedPlugin) -> tuple[Cell | str, ...]:
    reason = f"{plugin.reason} ({plugin.hint})" if plugin.hint else plugin.reason
    return (Cell(text=plugin.name, tone=Tone.BAD), _source(plugin), reason)


def _source(plugin: LoadedPlugin | FailedPlugin) -> str:
    return f"{plugin.distribution} {plugin.version} ({plugin.module})"


def _loaded_data(plugin: LoadedPlugin) -> dict[str, Any]:
    registered = {str(kind): list(names) for kind, names in plugin.registered.items()}
    return {**asdict(plugin), "registered": registered, "notes": list(plugin.notes)}
