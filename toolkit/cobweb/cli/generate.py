"""`cobweb generate`: the files of the site that are made from a data model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb._tables import Tone
from cobweb.cli._options import examples, output_option, pass_request, site_options
from cobweb.cli._output import Output
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count
from cobweb.errors import Finding, ModelError, SiteError, UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.operations import MadeFile
    from cobweb.plugin import Generator
    from cobweb.site import Model

_Made = list[tuple["Model", tuple["MadeFile", ...]]]
"""The files that are made from each model."""

_PENDING = 2
_TONES = {"+": Tone.GOOD, "-": Tone.BAD, "@": Tone.HEAD}


@click.command("generate", epilog=examples("cobweb generate", "cobweb generate --check --diff"))
@click.option("--check", is_flag=True, help="Write nothing; exit with 2 where something would be.")
@click.option("--diff", is_flag=True, help="Show what changes, line by line.")
@output_option()
@site_options
@pass_request
def command(request: Request, *, check: bool, diff: bool) -> int:
    """Make files of the site from its data models.

    `generate` in site.yml names each model, the adapter that makes files from
    it, and their folder; the site imports them beside files written by hand.
    Files that were made before and are no more are removed.
    """
    from cobweb.operations import FileChange, write_made

    output = Output.of(request)
    with open_site(request) as session:
        made = _make_all(session)
    changed = [it for _, files in made for it in files if it.change is not FileChange.SAME]
    if not check:
        write_made(changed)
    if not output.data(_data(made)):
        for model, files in made:
            _tell(output, model, files, diff=diff)
        tone = Tone.CAREFUL if check and changed else Tone.GOOD
        output.summary(_summary(made, changed, check=check), tone)
    return _PENDING if check and changed else 0


def _make_all(session: Site) -> _Made:
    """Return the files of each model; nothing is written before all could be made."""
    from cobweb.operations import made_files
    from cobweb.site import find_models

    models = find_models(session.path, allow_outside=session.allow_outside)
    if not models:
        raise UsageError(
            "the site has no data model", hint="`generate` in site.yml names one, see docs/site.md"
        )
    made = []
    for model in models:
        generator = _generator(session, model)
        digest, data = _generated(model, generator)
        made.append((model, made_files(model, digest, data)))
    return _apart(made)


def _apart(made: _Made) -> _Made:
    """Leave out what is gone from one model and comes from another one now.

    SiteError where two make one file: the second would replace what the first needs.
    """
    makers: dict[Path, Model] = {}
    findings = []
    for model, files in made:
        for it in files:
            other = makers.setdefault(it.path, model) if it.text else model
            if other is not model:
                message = f"{_name(model, it.path)} is made from {other.name} already"
                hint = f"give {model.name} a folder of its own by `into`"
                findings.append(Finding(place=model.place, message=message, hint=hint))
    if findings:
        raise SiteError(findings)
    return [
        (model, tuple(it for it in files if it.text or it.path not in makers))
        for model, files in made
    ]


def _generator(session: Site, model: Model) -> Generator:
    known = session.plugins.generators
    if model.adapter in known:
        return known[model.adapter]
    failed = ", ".join(plugin.name for plugin in session.plugins.failed)
    hint = f"there are {', '.join(sorted(known)) or 'none'}"
    if failed:
        hint += f"; left out: {failed}, see `cobweb plugins`"
    message = f"there is no adapter {model.adapter} that makes files"
    raise SiteError([Finding(place=model.place, message=message, hint=hint)])


def _generated(model: Model, generator: Generator) -> tuple[str, Any]:
    from cobweb.site import read_model

    content = read_model(model, generator.schema)
    try:
        return content.digest, generator.generate(content.data)
    except ModelError as error:
        raise content.error(error) from error


def _data(made: _Made) -> dict[str, Any]:
    """Return what `cobweb generate -o json` writes."""
    return {
        "format": 1,
        "files": [
            {
                "path": _name(model, it.path),
                "change": str(it.change),
                "model": model.name,
                "adapter": model.adapter,
            }
            for model, files in made
            for it in files
        ],
    }


def _tell(output: Output, model: Model, files: tuple[MadeFile, ...], *, diff: bool) -> None:
    tones = {"new": Tone.GOOD, "changed": Tone.CAREFUL, "gone": Tone.BAD, "same": Tone.QUIET}
    for it in files:
        name = _name(model, it.path)
        output.line(f"{it.change:8} {name}", tones[it.change])
        if diff:
            for line in it.diff(name):
                output.line(f"  {line}", _TONES.get(line[:1], Tone.NONE))


def _summary(made: _Made, changed: list[MadeFile], *, check: bool) -> str:
    total = count(sum(len(files) for _, files in made), "file")
    if not changed:
        return f"{total} as the model says"
    done = "would change; run `cobweb generate`" if check else "written or removed"
    return f"{len(changed)} of {total} {done}"


def _name(model: Model, path: Path) -> str:
    return str(path.relative_to(model.site_dir))
