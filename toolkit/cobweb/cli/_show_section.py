"""`cobweb show SECTION [WORDS...]`: what the site says in a section of a plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from textwrap import wrap
from typing import Any

from cobweb.api import Site
from cobweb.cli._output import Output, as_yaml
from cobweb.cli._plain_data import shown
from cobweb.cli._render import Column, write_table
from cobweb.cli._text import count, plain
from cobweb.errors import ModelError, SiteError, UsageError

__all__ = ["is_section", "section_data", "tell_section"]

_COLUMNS = (Column(title="NAME"), Column(title="DESCRIPTION", flexible=True))


def is_section(session: Site, name: str, output: Output) -> bool:
    """Say whether a word means a section of the site and no host or group; a note if both."""
    if name not in session.plugins.sections:
        return False
    try:
        hosts = session.evaluated.select(name)
    except (SiteError, UsageError):
        return True  # there is none, or nobody can say
    output.summary(f"note: {name} is a host or group; the section has this name, too")
    return not hosts


def section_data(session: Site, name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what `cobweb show SECTION -o json` writes; UsageError for a word that is not there.

    A section class with a method `show(sections, plugins)` says itself what there is to see.
    """
    from cobweb.site import read_sections

    sections = session.plugins.sections
    schemas = {each: it.schema for each, it in sections.items()}
    read = read_sections(session.path, schemas, allow_outside=session.allow_outside)
    make = getattr(sections[name], "show", None)
    try:
        data = make(read.data, session.plugins) if make else read.data.get(name)
    except ModelError as error:
        raise read.error(error) from error
    path = [name]
    for word in words:
        data = _inner(data or {}, word, path)
        path.append(word)
    return {"format": 1, "section": name, "path": list(words), "data": shown(data)}


def _inner(data: Any, word: str, path: Sequence[str]) -> Any:
    if isinstance(data, Mapping) and word in data:
        return data[word]
    known = list(data) if isinstance(data, Mapping) else []
    close = get_close_matches(word, known, n=1)
    listed = f"there is {', '.join(known)}" if known else f"see `cobweb show {path[0]}`"
    hint = f"did you mean {close[0]}?" if close else listed
    raise UsageError(f"there is no {word!r} in {' '.join(path)}", hint=hint)


def tell_section(output: Output, data: Mapping[str, Any]) -> None:
    """Write a section as text: the names of what it has, a table, or all of it as YAML."""
    content, name = data["data"], " ".join([data["section"], *data["path"]])
    if not content:
        output.summary(f"{name} has nothing")
    elif _is_of_kinds(content):
        for line in _overview(content, output.width):
            output.line(line)
        output.summary(f"`cobweb show {name} {next(reversed(content))}` shows more")
    elif _is_described(content):
        rows = [(key, plain(str(it.get("description", "")))) for key, it in content.items()]
        write_table(output, _COLUMNS, rows)
        output.summary(f"{name}: {count(len(rows), 'entry', 'entries')}")
    else:
        text = as_yaml(content) if isinstance(content, dict | list) else f"{content}\n"
        for line in text.splitlines():
            output.line(line)


def _is_of_kinds(content: Any) -> bool:
    """Say whether data is of kinds of things that have names, with all that is said of each."""
    return isinstance(content, Mapping) and all(
        isinstance(kind, Mapping) and all(isinstance(it, Mapping) for it in kind.values())
        for kind in content.values()
    )


def _is_described(content: Any) -> bool:
    """Say whether data is of things that have names, and some of them descriptions."""
    return (
        isinstance(content, Mapping)
        and all(isinstance(it, Mapping) for it in content.values())
        and any("description" in it for it in content.values())
    )


def _overview(content: Mapping[str, Mapping[str, Any]], width: int) -> Iterator[str]:
    for kind, things in content.items():
        names = ", ".join(things) or "none"
        text = f"{kind}: {names}"
        yield from wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
