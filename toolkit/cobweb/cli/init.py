"""`cobweb init`: a site repository that runs as it is."""

from __future__ import annotations

import re
import secrets
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from cobweb._resources import data_dir
from cobweb._tables import Tone
from cobweb.cli._options import examples, log_options, pass_request
from cobweb.cli._output import Output, as_json
from cobweb.cli._request import Request
from cobweb.cli.schema import read_schema
from cobweb.errors import CobwebError, UsageError

_EXAMPLES: Mapping[str, str] = {
    "process": "a file and a process that reads it, on this machine",
    "namespaces": "a cluster from a template, on machines of namespaces",
    "pools": "hosts and licences that move between services, on this machine",
    "metal": "machines that boot from the network, simulated on this machine",
    "agents": "hosts with an agent each, on this machine",
    "ring": "an application in phases on eight nodes, on this machine",
}
_SHOWN: Mapping[str, str] = {"gitignore.txt": ".gitignore"}
"""Files that have another name in a package than in a site."""
_CI: Mapping[str, tuple[str, str]] = {
    "github": (".github/workflows/cobweb.yml", "github.yml"),
    "gitlab": (".gitlab-ci.yml", "gitlab.yml"),
}
_NEXT: Mapping[str, tuple[str, ...]] = {
    "process": ("validate", "plan", "apply"),
    "namespaces": (
        "cluster create web1 --template lamp --nodes 3",
        "cluster status web1",
        "cluster delete web1",
    ),
    "pools": ("pool add n01 batch", "pool move n01 hpc", "pool status"),
    "metal": ("plan", "apply", "metal list"),
    "agents": ("agents up", "apply", "status"),
    "ring": ("app run ring", "app status ring", "app logs ring"),
}
_LONGEST = 40
_SCHEMAS = ("site", "inventory")


@click.command(
    "init",
    epilog=examples(
        "cobweb init site",
        "cobweb init --ci gitlab site",
        "cobweb init --example namespaces clusters",
    ),
)
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--ci",
    type=click.Choice([*_CI, "none"]),
    default="github",
    show_default=True,
    help="Whose CI the example is for.",
)
@click.option(
    "--example",
    type=click.Choice([*_EXAMPLES]),
    default="process",
    show_default=True,
    help="What is in it: " + "; ".join(f"`{name}`: {it}" for name, it in _EXAMPLES.items()) + ".",
)
@log_options
@pass_request
def command(request: Request, directory: Path, ci: str, example: str) -> None:
    """Make a site repository that runs as it is.

    With schemas for editors and an example for CI. Nothing is overwritten.
    """
    output = Output.of(request)
    contents = site_files(directory, ci, example)
    _refuse_overwriting(directory, contents)
    _write(directory, contents)
    for name in contents:
        output.line(str(directory / name))
    where = "" if directory == Path() else f"-C {directory} "
    output.summary("a site that runs as it is; next:", Tone.GOOD)
    for step in _NEXT[example]:
        output.summary(f"  cobweb {where}{step}")


def site_files(directory: Path, ci: str, example: str = "process") -> dict[str, str]:
    """Return the text of each file of a new site, by its path in the site."""
    name = _name(directory)
    base, net = f"/tmp/cobweb-{name}-{secrets.token_hex(3)}", secrets.randbelow(1 << 14)  # noqa: S108 - made with mode 700, and its owner is checked
    values = {"@NAME@": name, "@NET@": f"127.{64 + net % 64}.{net // 64}", "@BASE@": base}
    keys = directory.resolve() / ".cobweb" / "agents"
    place = f"--address nats://{values['@NET@']}.1:4222/site?keys={keys}"
    values["@AGENT@"] = shlex.join([sys.executable, "-m", "cobweb", "agent", "run", *place.split()])
    root = files("cobweb.cli") / "_init"
    folder = data_dir("inventories") / "lamp" if example == "namespaces" else root / example
    contents = {_SHOWN.get(path, path): _filled(text, values) for path, text in _texts(folder, "")}
    if ci in _CI:
        path, template = _CI[ci]
        contents[path] = _filled((root / template).read_text(encoding="utf-8"), values)
    for schema in _SCHEMAS:
        contents[f"schemas/{schema}.schema.json"] = as_json(read_schema(schema))
    return contents


def _name(directory: Path) -> str:
    """Return a name for the site that is safe anywhere, made from its folder's."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower())[:_LONGEST].strip("-")
    return name if name and not name[0].isdigit() else f"site-{name}".rstrip("-")


def _texts(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the files below a folder, sorted: their paths in it and their texts."""
    for entry in sorted(folder.iterdir(), key=lambda it: it.name):
        if entry.name.startswith((".", "__")) or entry.name == "site.lock":
            continue  # what a run of the example has left in a checkout
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _texts(entry, f"{path}/")
        else:
            yield path, entry.read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
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
