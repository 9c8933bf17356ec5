"""`cobweb show`: evaluated hosts and their COBs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from cobweb._tables import Column, Tone
from cobweb._text import did_you_mean, plain
from cobweb.cli._complete import complete_reference
from cobweb.cli._options import examples, site_request
from cobweb.cli._output import Output, as_yaml
from cobweb.cli._plain_data import cob_data, need_data_text, one_line, shown
from cobweb.cli._render import write_table
from cobweb.cli._session import open_site
from cobweb.cli._text import count
from cobweb.errors import ModelError, SiteError, UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.cli._request import Request
    from cobweb.model import CobId, Graph, Host, Need

_LONGEST = 200
"""Longer values are cut short in text."""


@click.command(
    "show",
    epilog=examples(
        "cobweb show",
        "cobweb show 'web*'",
        "cobweb show 'web*/app' -o json",
        "cobweb show --vars",
        "cobweb show catalog services",
    ),
)
@click.argument("pattern", required=False, shell_complete=complete_reference)
@click.argument("words", metavar="[WORD]...", nargs=-1)
@click.option("--vars", "variables", is_flag=True, help="Show the hosts' variables as well.")
@site_request()
def command(
    request: Request, pattern: str | None, words: tuple[str, ...], *, variables: bool
) -> None:
    """Show the evaluated hosts and their COBs.

    PATTERN is an Ansible host pattern, or HOSTS/NAME for the COBs of that
    name; NAME may have the wildcards * and ?. Secrets are shown as (vaulted).

    Where PATTERN is a section of a plugin, such as catalog, that is shown, and
    each WORD leads further into it.
    """
    output = Output.of(request)
    with open_site(request) as session:
        if pattern and is_section(session, pattern, output):
            section = section_data(session, pattern, words)
            if not output.data(section):
                tell_section(output, section)
            return
        if words:
            raise UsageError(f"{pattern} is no section", hint="one PATTERN is enough")
        data = show_data(session, pattern, variables=variables)
    if output.data(data):
        return
    for host in data["hosts"]:
        for depth, text in _host_lines(host):
            output.line("  " * depth + text, Tone.NONE if depth else Tone.HEAD)
    cobs = sum(len(host["cobs"]) for host in data["hosts"])
    output.summary(f"{count(len(data['hosts']), 'host')}, {count(cobs, 'COB')}")


def show_data(
    session: Site, pattern: str | None = None, *, variables: bool = False
) -> dict[str, Any]:
    """Return what `cobweb show -o json` writes; UsageError where a COB pattern fits nothing."""
    hosts_pattern, _, name = (pattern or "").partition("/")
    site = session.evaluated
    names = site.select(hosts_pattern) if hosts_pattern else tuple(site.hosts)
    cobs = _by_host(session.graph(hosts_pattern or None), name or "*")
    hosts = [_host_data(site.hosts[host], cobs.get(host, []), variables) for host in names]
    if name:
        hosts = [host for host in hosts if host["cobs"]]
        if not hosts:
            raise UsageError(f"no COB fits {pattern!r}", hint="`cobweb show` lists all")
    return {"format": 1, "hosts": hosts}


def _by_host(graph: Graph, name: str) -> dict[str, list[dict[str, Any]]]:
    needs: dict[CobId, list[Need]] = {}
    for need in graph.needs:
        needs.setdefault(need.cob, []).append(need)
    hosts: dict[str, list[dict[str, Any]]] = {}
    for cob in graph.cobs.values():
        if fnmatchcase(cob.name, name):
            hosts.setdefault(cob.host, []).append(cob_data(cob, needs.get(cob.id, ())))
    return hosts


def _host_data(host: Host, cobs: Sequence[dict[str, Any]], variables: object) -> dict[str, Any]:
    data: dict[str, Any] = {"name": host.name, "groups": list(host.groups)}
    if variables:
        data["variables"] = shown(host.variables)
    return data | {"cobs": list(cobs)}


def _host_lines(host: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    groups = f" (groups: {', '.join(host['groups'])})" if host["groups"] else ""
    yield 0, f"{host['name']}{groups}"
    for key, value in host.get("variables", {}).items():
        yield 1, f"{key} = {_short(value)}"
    for cob in host["cobs"]:
        states = ", ".join(cob["states"])
        yield 1, f"{cob['name']}: {cob['type']} ({states}; preferred {cob['preferred']})"
        for key, value in cob["spec"].items():
            yield 2, f"{key}: {_short(value)}"
        for need in cob["needs"]:
            yield 2, f"needs {need_data_text(need)}"


def _short(value: Any) -> str:
    """Return a value on one line; of a long one its beginning and how long it is."""
    text = one_line(value)
    line = text.partition("\n")[0]
    if len(text) <= _LONGEST and text.rstrip("\n") == line:
        return text.rstrip("\n")
    return f"{line[:_LONGEST]} ... ({count(len(text), 'character')}; -o json has all)"


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
    from cobweb.cli._access import CliAccess

    access = CliAccess(click.get_current_context(), session)
    sections, plugins = access.sections(), access.plugins
    make = getattr(plugins.sections[name], "show", None)
    try:
        data = make(sections, plugins) if make else sections.get(name)
    except ModelError as error:
        raise access.placed(error) from error
    path = [name]
    for word in words:
        data = _inner(data or {}, word, path)
        path.append(word)
    return {"format": 1, "section": name, "path": list(words), "data": shown(data)}


def _inner(data: Any, word: str, path: Sequence[str]) -> Any:
    if isinstance(data, Mapping) and word in data:
        return data[word]
    known = list(data) if isinstance(data, Mapping) else []
    listed = f"there is {', '.join(known)}" if known else f"see `cobweb show {path[0]}`"
    hint = did_you_mean(word, known, otherwise=listed)
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
