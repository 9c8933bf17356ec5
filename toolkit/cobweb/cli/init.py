"""`cobweb init`: a site repository that runs as it is."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import click

from cobweb.cli._options import examples, log_options, pass_request
from cobweb.cli._output import Output, Tone, as_json
from cobweb.cli._request import Request
from cobweb.cli.schema import read_schema
from cobweb.errors import CobwebError, UsageError

_TEMPLATES: Mapping[str, str] = {
    "site.yml": "site.yml",
    "hosts.yml": "hosts.yml",
    ".gitignore": "gitignore.txt",
}
_CI: Mapping[str, tuple[str, str]] = {
    "github": (".github/workflows/cobweb.yml", "github.yml"),
    "gitlab": (".gitlab-ci.yml", "gitlab.yml"),
}
_LONGEST = 40
_SCHEMAS = ("site", "inventory")


@click.command("init", epilog=examples("cobweb init site", "cobweb init --ci gitlab site"))
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--ci",
    type=click.Choice([*_CI, "none"]),
    default="github",
    show_default=True,
    help="Whose CI the example is for.",
)
@log_options
@pass_request
def command(request: Request, directory: Path, ci: str) -> None:
    """Make a site repository that runs as it is.

    It has one host, this machine, with a folder, a file and a process that
    reads it, an example for CI, and schemas for editors. Nothing that exists
    is overwritten.
    """
    output = Output.of(request)
    contents = site_files(directory, ci)
    _refuse_overwriting(directory, contents)
    _write(directory, contents)
    for name in contents:
        output.line(str(directory / name))
    where = "" if directory == Path() else f"-C {directory} "
    output.summary("a site that runs as it is; next:", Tone.GOOD)
    for step in ("validate", "plan", "apply"):
        output.summary(f"  cobweb {where}{step}")


def site_files(directory: Path, ci: str) -> dict[str, str]:
    """Return the text of each file of a new site, by its path in the site."""
    name = _name(directory)
    values = {"@NAME@": name, "@BASE@": f"/tmp/cobweb-{name}-{secrets.token_hex(3)}"}  # noqa: S108 - made with mode 700, and its owner is checked
    templates = dict(_TEMPLATES)
    if ci in _CI:
        path, template = _CI[ci]
        templates[path] = template
    contents = {path: _filled(template, values) for path, template in templates.items()}
    for schema in _SCHEMAS:
        contents[f"schemas/{schema}.schema.json"] = as_json(read_schema(schema))
    return contents


def _name(directory: Path) -> str:
    """Return a name for the site that is safe anywhere, made from its folder's."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower())[:_LONGEST].strip("-")
    return name if name and not name[0].isdigit() else f"site-{name}".rstrip("-")


def _filled(template: str, values: Mapping[str, str]) -> str:
    text = (files("cobweb.cli") / "_init" / template).read_text(encoding="utf-8")
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text


def _refuse_overwriting(directory: Path, contents: Mapping[str, str]) -> None:
    taken = [name for name in contents if (directory / name).exists()]
    if taken:
        message = f"{directory} has {', '.join(taken)} already; nothing was written"
        raise UsageError(message, hint="choose a new folder: cobweb init DIR")


def _write(directory: Path, contents: Mapping[str, str]) -> None:
    for name, text in contents.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise CobwebError(f"cannot write {path}: {error.strerror}") from error
