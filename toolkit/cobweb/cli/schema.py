"""`cobweb schema`: the JSON Schemas of everything that Cobweb reads or writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import Any

import click

from cobweb._resources import data_dir
from cobweb._tables import Column
from cobweb._text import did_you_mean
from cobweb.cli._options import examples, log_options, output_option, pass_request
from cobweb.cli._output import Output
from cobweb.cli._render import write_table
from cobweb.cli._request import Format, Request
from cobweb.errors import UsageError

_SUFFIX = ".schema.json"
_COLUMNS = (Column(title="SCHEMA"), Column(title="DESCRIBES", flexible=True))


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in schema_files() if name.startswith(incomplete)]


@click.command(
    "schema",
    epilog=examples("cobweb schema", "cobweb schema site", "cobweb schema events"),
)
@click.argument("name", required=False, shell_complete=_complete)
@output_option()
@log_options
@pass_request
def command(request: Request, name: str | None) -> None:
    """List or print the JSON Schemas of what Cobweb reads and writes.

    Without NAME they are listed. An editor with a YAML language server uses
    the one of site.yml by the comment `# yaml-language-server: $schema=FILE`.
    """
    output = Output.of(request)
    if name is not None:
        as_yaml = output.format is Format.YAML
        Output(format=Format.YAML if as_yaml else Format.JSON).data(read_schema(name))
        return
    titles = {known: read_schema(known)["title"] for known in schema_files()}
    listed = [{"name": known, "title": title} for known, title in titles.items()]
    if not output.data({"format": 1, "schemas": listed}):
        write_table(output, _COLUMNS, list(titles.items()))


def schema_files() -> dict[str, Traversable]:
    """Return the shipped schemas by name, sorted; those of types are `types/NAME`."""
    return dict(sorted(_files(data_dir("schemas"), "")))


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from _files(file, f"{prefix}{file.name}/")
        elif file.name.endswith(_SUFFIX):
            yield prefix + file.name.removesuffix(_SUFFIX), file


def read_schema(name: str) -> dict[str, Any]:
    """Return a schema; UsageError for an unknown name."""
    files = schema_files()
    if name not in files:
        hint = did_you_mean(name, files, otherwise=f"there are {', '.join(files)}")
        raise UsageError(f"there is no schema {name!r}", hint=hint)
    schema: dict[str, Any] = json.loads(files[name].read_text(encoding="utf-8"))
    return schema
