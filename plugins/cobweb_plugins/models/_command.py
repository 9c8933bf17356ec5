"""`cobweb generate`: the files of the site that are made from a data model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb.errors import Finding, ModelError, SiteError, UsageError
from cobweb.plugin import Generator, SiteAccess, Tone, site_access
from cobweb_plugins.models._models import Model, find_models

if TYPE_CHECKING:
    from cobweb_plugins.models._made_files import MadeFile

_PENDING = 2
_TONES = {"+": Tone.GOOD, "-": Tone.BAD, "@": Tone.HEAD}
_EXAMPLES = """\b
Examples:
  cobweb generate
  cobweb generate --check --diff"""


@click.command("generate", epilog=_EXAMPLES)
@click.option("--check", is_flag=True, help="Write nothing; exit with 2 where something would be.")
@click.option("--diff", is_flag=True, help="Show what changes, line by line.")
@click.pass_context
def command(context: click.Context, *, check: bool, diff: bool) -> int:
    """Make files of the site from its data models.

    `generate` in site.yml names each model, the adapter that makes files from
    it, and their folder; the site imports them beside files written by hand.
    Files that were made before and are no more are removed.
    """
    from cobweb_plugins.models._made_files import write_made

    access = site_access(context)
    made = _make_all(access)
    changed = [it for _, files in made for it in files if it.change != "same"]
    if not check:
        write_made(changed)
    if not access.data(_data(made)):
        for model, files in made:
            _tell(access, model, files, diff=diff)
        access.summary(_summary(made, changed, check=check), _tone(changed, check=check))
    return _PENDING if check and changed else 0


def _make_all(access: SiteAccess) -> list[tuple[Model, tuple[MadeFile, ...]]]:
    """Return the files of each model; nothing is written before all could be made."""
    from cobweb_plugins.models._made_files import made_files

    models = find_models(access)
    if not models:
        raise UsageError(
            "the site has no data model", hint="`generate` in site.yml names one, see docs/site.md"
        )
    made = []
    for model in models:
        digest, data = _generated(access, model, _generator(access, model))
        made.append((model, made_files(model, digest, data)))
    return _apart(made)


def _apart(
    made: list[tuple[Model, tuple[MadeFile, ...]]],
) -> list[tuple[Model, tuple[MadeFile, ...]]]:
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


def _generator(access: SiteAccess, model: Model) -> Generator:
    known = access.plugins.generators
    if model.adapter in known:
        return known[model.adapter]
    failed = ", ".join(plugin.name for plugin in access.plugins.failed)
    hint = f"there are {', '.join(sorted(known)) or 'none'}"
    if failed:
        hint += f"; left out: {failed}, see `cobweb plugins`"
    message = f"there is no adapter {model.adapter} that makes files"
    raise SiteError([Finding(place=model.place, message=message, hint=hint)])


def _generated(access: SiteAccess, model: Model, generator: Generator) -> tuple[str, Any]:
    content = access.document(model.name, generator.schema, "the model")
    try:
        return content.digest, generator.generate(content.data)
    except ModelError as error:
        raise content.error(error) from error


def _data(made: list[tuple[Model, tuple[MadeFile, ...]]]) -> dict[str, Any]:
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


def _tell(access: SiteAccess, model: Model, files: tuple[MadeFile, ...], *, diff: bool) -> None:
    tones = {"new": Tone.GOOD, "changed": Tone.CAREFUL, "gone": Tone.BAD, "same": Tone.QUIET}
    for it in files:
        name = _name(model, it.path)
        access.line(f"{it.change:8} {name}", tones[it.change])
        if diff:
            for line in it.diff(name):
                access.line(f"  {line}", _TONES.get(line[:1], Tone.NONE))


def _summary(
    made: list[tuple[Model, tuple[MadeFile, ...]]], changed: list[MadeFile], *, check: bool
) -> str:
    number = sum(len(files) for _, files in made)
    total = f"{number} file{'' if number == 1 else 's'}"
    if not changed:
        return f"{total} as the model says"
    done = "would change; run `cobweb generate`" if check else "written or removed"
    return f"{len(changed)} of {total} {done}"


def _tone(changed: list[MadeFile], *, check: bool) -> Tone:
    return Tone.CAREFUL if check and changed else Tone.GOOD


def _name(model: Model, path: Path) -> str:
    return str(path.relative_to(model.site_dir))
