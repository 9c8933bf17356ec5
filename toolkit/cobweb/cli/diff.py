"""`cobweb diff`: what differs between two generations, or between one and the files of the site."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from cobweb import operations
from cobweb._garbage import no_collections
from cobweb._tables import Tone
from cobweb.cli._changes import SIGNS, Line, bounded, detail_lines, tone_of, write_lines
from cobweb.cli._options import examples, site_request
from cobweb.cli._output import Output
from cobweb.cli._plain_data import need_data_text
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.errors import UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.generation import Difference, FileDifference, SiteDiff
    from cobweb.store import Store

_DIFFERS = 2
_FILES = "site"
_MOST_LINES = 1000
"""So many lines are shown to people."""

_Files = Mapping[str, Sequence["FileDifference"]]
"""What differs in the file trees of objects."""

_NUMBER = re.compile(r"0*[1-9][0-9]{0,8}")
"""Ids that a database keeps."""


class _Side(click.ParamType[str]):
    """The id of a generation, or the word for the files of the site."""

    name = "generation"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value != _FILES and not _NUMBER.fullmatch(value):
            self.fail(f"{value!r} is neither the number of a generation nor `{_FILES}`", param, ctx)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One side of a comparison; `generation` is None for the files.

    Of a large site the content is long, and is made when it is asked for.
    """

    generation: int | None
    digest: str
    content: Callable[[], str]

    @property
    def label(self) -> str:
        return f"generation {self.generation}" if self.generation else "the site's files"


@click.command(
    "diff",
    epilog=examples(
        "cobweb diff", "cobweb diff 3", "cobweb diff 3 4 -o json", "cobweb diff --exit-code"
    ),
)
@click.argument("old", metavar="[A]", required=False, type=_Side())
@click.argument("new", metavar="[B]", required=False, type=_Side(), default=_FILES)
@click.option("--exit-code", is_flag=True, help="Exit with 2 where anything differs.")
@site_request()
def command(request: Request, *, old: str | None, new: str, exit_code: bool) -> int:
    """Show what differs between two generations.

    A and B are numbers of generations, or `site`: the files as they are now.
    A defaults to the newest generation, B to the files. Of a secret nothing is
    shown but that it is another one.
    """
    output = Output.of(request)
    with open_site(request) as session, no_collections():
        sides = [_found(session, old), _found(session, new)]
        found = _difference(*sides)
        files = _files_of(session, found)
    if not output.data(_data(sides, found, files)):
        write_lines(output, bounded(_lines(found, files), _MOST_LINES))
        _sum_up(output, sides, found)
    return _DIFFERS if exit_code and found else 0


def _found(session: Site, side: str | None) -> _Found:
    """Return one side; None is the newest generation."""
    if side == _FILES:
        evaluated = session.desired().evaluated
        return _Found(generation=None, digest=evaluated.digest, content=evaluated.text)
    store = session.history()
    number = int(side) if side else store.current_generation_id()
    generation = store.generation(number) if number else None
    if generation is None:
        raise _unknown(store, number)
    content = generation.content
    return _Found(generation=generation.id, digest=generation.digest, content=lambda: content)


def _unknown(store: Store, number: int) -> UsageError:
    ids = sorted(info.id for info in store.generations())
    if not ids:
        hint = "`cobweb plan` shows what the first apply would do"
        return UsageError(f"there is no generation yet in {store.label}", hint=hint)
    error = operations.no_generation(store, number)
    error.hint = f"known: {_ranges(ids)}"
    return error


def _ranges(ids: Sequence[int]) -> str:
    """Return ascending numbers as in `1, 4 to 6`."""
    numbered = groupby(enumerate(ids), lambda it: it[1] - it[0])
    runs = [[number for _, number in run] for _, run in numbered]
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _difference(old: _Found, new: _Found) -> SiteDiff:
    from cobweb.generation import SiteDiff, read_site

    if old.digest == new.digest:
        return SiteDiff()
    return read_site(old.content()).diff(read_site(new.content()))


def _files_of(session: Site, found: SiteDiff) -> _Files:
    """Return what differs in the file trees of objects that have other ones."""
    if not any(it.trees for it in found.cobs):
        return {}
    trees = operations.TreeComparison(operations.archives_of(session.desired(), session.history()))
    return {it.name: files for it in found.cobs if (files := trees.files(it.trees))}


# --- for programs


def _data(sides: Sequence[_Found], found: SiteDiff, files: _Files) -> dict[str, Any]:
    old, new = ({"generation": side.generation, "digest": side.digest} for side in sides)
    return {
        "format": 1,
        "old": old,
        "new": new,
        "hosts": _part_data("host", found.hosts),
        "cobs": [
            {
                "cob": it.name,
                "kind": str(it.kind),
                "old_type": it.old or None,
                "new_type": it.new or None,
                "diff": list(it.lines),
                **_file_data(files.get(it.name, ())),
            }
            for it in found.cobs
        ],
        "needs": [{"kind": str(it.kind), **it.need} for it in found.needs],
        "types": _part_data("type", found.types),
        "limits": _part_data("limit", found.limits),
        "files": [{"file": it.name, "kind": str(it.kind)} for it in found.files],
    }


def _part_data(word: str, found: Sequence[Difference]) -> list[dict[str, Any]]:
    return [{word: it.name, "kind": str(it.kind), "diff": list(it.lines)} for it in found]


def _file_data(files: Sequence[FileDifference]) -> dict[str, Any]:
    return {"files": operations.file_data(files)} if files else {}


# --- for people


def _lines(found: SiteDiff, files: _Files) -> Iterator[Line]:
    """Yield what differs, needs with the objects that have them."""
    yield from _part("host ", found.hosts)
    yield from _objects(found, files)
    yield from _part("type ", found.types)
    yield from _part("limit ", found.limits)
    yield from _part("file ", found.files)


def _part(word: str, found: Sequence[Difference]) -> Iterator[Line]:
    for it in found:
        yield from _thing(SIGNS[it.kind], f"{word}{it.name}", it.lines)


def _objects(found: SiteDiff, files: _Files) -> Iterator[Line]:
    needs: dict[str, list[str]] = {}
    for need in found.needs:
        text = f"{SIGNS[need.kind]}needs {need_data_text(need.need)}"
        needs.setdefault(need.need["cob"], []).append(text)
    cobs = {it.name: it for it in found.cobs}
    for name in sorted(cobs.keys() | needs.keys()):
        it = cobs.get(name)
        sign = SIGNS[it.kind] if it else SIGNS["changed"]
        text = f"{name} ({_types(it)})" if it and _types(it) else name
        lines = [*(it.lines if it else ()), *needs.get(name, ())]
        yield from _thing(sign, text, lines, files.get(name, ()))


def _types(it: Difference) -> str:
    """Return the type of an object that came or went, both where it changed."""
    if it.old and it.new:
        return f"{it.old} -> {it.new}" if it.old != it.new else ""
    return it.old or it.new


def _thing(
    sign: str, text: str, lines: Sequence[str], files: Sequence[FileDifference] = ()
) -> Iterator[Line]:
    yield f"{sign} {text}", tone_of(sign)
    yield from detail_lines(lines, files, whole=False)


def _sum_up(output: Output, sides: Sequence[_Found], found: SiteDiff) -> None:
    old, new = sides
    if not found:
        output.summary(f"nothing differs between {old.label} and {new.label}", Tone.GOOD)
        return
    parts: Mapping[str, Sequence[Any]] = {
        "hosts": found.hosts,
        "objects": found.cobs,
        "needs": found.needs,
        "types": found.types,
        "limits": found.limits,
        "files": found.files,
    }
    counts = [f"{name} {_counts(part)}" for name, part in parts.items() if part]
    output.summary(f"{old.label} -> {new.label}: {', '.join(counts)}")


def _counts(part: Sequence[Any]) -> str:
    numbers = Counter(SIGNS[it.kind] for it in part)
    return " ".join(f"{sign}{numbers[sign]}" for sign in SIGNS.values() if numbers[sign])
