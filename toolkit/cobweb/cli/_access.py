"""What a command of a plugin gets of the command line: the site, the journal, the output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cached_property, partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb import operations
from cobweb._tables import Cell, Column, Tone
from cobweb.cli._output import Output
from cobweb.cli._parameters import FAILURES
from cobweb.cli._render import write_table
from cobweb.cli._request import Format, Request, current_request, remember
from cobweb.cli._running import removal_bound
from cobweb.cli._session import open_site
from cobweb.cli._streams import refuse_unasked
from cobweb.errors import ModelError, SiteError, UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.model import CobId, Decision, Decisions, Graph, Results, State
    from cobweb.plugin import Answer, Plugins, Question
    from cobweb.site import Document, SectionData


class CliAccess:
    """The `SiteAccess` of a call of `cobweb`; see there. No observer hears of what it does."""

    def __init__(self, context: click.Context, session: Site | None = None) -> None:
        self._context = context
        self._session = session or open_site(self._request)
        self._has_color = True

    @property
    def _request(self) -> Request:
        return replace(current_request(self._context), observers=(), hears_unasked=False)

    @cached_property
    def dir(self) -> Path:
        """The folder of `site.yml`."""
        path = self._session.path.absolute()
        return path if path.is_dir() else path.parent

    @property
    def file(self) -> str:
        """The name of the site's own file."""
        path = self._session.path
        return "site.yml" if path.is_dir() else path.name

    @property
    def plugins(self) -> Plugins:
        """All plugins that could be loaded."""
        return self._session.plugins

    def sections(self) -> Mapping[str, Any]:
        """Return the sections of plugins, by name."""
        return self._sections().data

    def placed(self, error: ModelError) -> SiteError:
        """Return problems of sections at their places."""
        return self._sections().error(error)

    def read(self, name: str) -> str | None:
        """Return the text of a file of the site, or None."""
        from cobweb.site import read_text

        return read_text(self._session.path, name, allow_outside=self._request.allow_outside)

    def decisions(self, section: str, at: int | None = None) -> Decisions:
        """Return what was decided in a section."""
        with self._fresh() as session:
            return session.decisions(section, at)

    def decision_history(self, section: str | None = None) -> Sequence[Decision]:
        """Return all that was decided, the newest first."""
        with self._fresh() as session:
            return session.history().decision_history(section)

    def decide(self, section: str, expected: int, writes: Mapping[str, Any], reason: str) -> int:
        """Decide in the name of who calls."""
        from cobweb.store import this_process

        author = this_process(run="", reason="", since=0.0).user
        operations.check_decisions(self.plugins, section, writes, author, reason)
        with self._fresh() as session:
            if any(body is not None for body in writes.values()):
                anew = _decided_anew(session.decisions(section), section, writes, author, reason)
                with open_site(self._request, decisions={**session.decided, section: anew}) as site:
                    if section not in site.evaluated.sections:
                        hint = "only a section of the site makes anything of what is decided in it"
                        raise UsageError(f"the site has no section `{section}`", hint=hint)
            return session.decide(section, expected, writes, author, reason)

    def document(self, name: str | Path, schema: Mapping[str, Any], what: str = "") -> Document:
        """Return a file of the site, or of none, whose content is of a schema."""
        from cobweb.site import read_document

        path, name = (name, name.name) if isinstance(name, Path) else (self._session.path, name)
        outside = self._request.allow_outside
        return read_document(path, name, schema, what or name, allow_outside=outside)

    def site(self) -> Site:
        """Return a session whose inventory may run programs, as a run's may."""
        return open_site(self._request, runs_tasks=True)

    def graph(self) -> Graph:
        """Return the evaluated site's objects."""
        with self._fresh() as session:
            return session.graph()

    def states(self) -> Mapping[CobId, State]:
        """Return what the journal believes."""
        with self._fresh() as session:
            return {cob: record.state for cob, record in session.history().states().items()}

    def results(self) -> Results:
        """Return what tasks handed back."""
        with self._fresh() as session:
            return session.history().results()

    def run_facts(self, run: str | None = None) -> Mapping[str, Any]:
        """Return what the journal knows of a run."""
        with self._fresh() as session:
            return session.run_facts(run)

    def events(self, run: str) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a run."""
        with self._fresh() as session:
            yield from session.history().events(run)

    def refuse_removals(self, deletes: Collection[CobId] = (), most: str | None = None) -> None:
        """Refuse what an apply would remove."""
        bound = removal_bound(None if most is None else FAILURES.convert(most, None, None))
        with self._fresh() as session:
            desired, store = session.desired(), session.store()
            gone = frozenset(deletes)
            states = store.states()
            found = operations.refusals_of(desired, store, states, max_removals=bound, deletes=gone)
            operations.refuse(found)

    def run(self, command: str, *arguments: str, deletes: Collection[CobId] = ()) -> int:
        """Call a command of Cobweb on this site."""
        from cobweb.cli._group import cobweb

        words = [*self._shared(), command, *arguments]
        try:
            with cobweb.make_context("cobweb", words) as context:
                remember("deletes", frozenset(deletes))
                result = cobweb.invoke(context)
        except click.exceptions.Exit as end:
            return end.exit_code
        return result if isinstance(result, int) else 0

    def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Ask hosts."""
        with open_site(self._request, runs_tasks=True) as session:
            return session.ask_all(questions)

    def refuse_unasked(self) -> None:
        """Refuse to go on where nobody can be asked."""
        refuse_unasked()

    @property
    def output(self) -> str:
        """The format that is asked for."""
        return str(self._request.format or Format.TEXT)

    def data(self, data: Any, form: str = "") -> bool:
        """Write data where JSON or YAML is asked for, or as `form` says."""
        output = self._output()
        return replace(output, format=Format(form or output.format)).data(data)

    def write(self, text: str) -> None:
        """Write text as it is."""
        self._output().write(text)

    def line(self, text: str = "", tone: Tone = Tone.NONE) -> None:
        """Write one line to standard output."""
        self._output().line(text, tone)

    def table(self, columns: Sequence[str | Column], rows: Sequence[Sequence[str | Cell]]) -> None:
        """Write a table."""
        whole = [
            Column(title=it, flexible=place > 0) if isinstance(it, str) else it
            for place, it in enumerate(columns)
        ]
        write_table(self._output(), whole, rows)

    def summary(self, text: str, tone: Tone = Tone.NONE) -> None:
        """Write one line to standard error."""
        self._output().summary(text, tone)

    def captured(self, write: Callable[[], None]) -> str:
        """Return what is written to standard output, without colours."""
        self._has_color = False
        with redirect_stdout(StringIO()) as stream:
            write()
        self._has_color = True
        return stream.getvalue()

    def _output(self) -> Output:
        output = Output.of(self._request)
        return output if self._has_color else replace(output, color=False)

    def _fresh(self) -> Site:
        """Return a session that has read nothing yet."""
        return open_site(self._request)

    def _sections(self) -> SectionData:
        from cobweb.site import read_sections

        schemas = {name: section.schema for name, section in self.plugins.sections.items()}
        return read_sections(self._session.path, schemas, allow_outside=self._request.allow_outside)

    def _shared(self) -> list[str]:
        """Return the shared options of this call as words, but for the format of data."""
        request = self._request
        words = ["-C", str(self._session.path), *["-v"] * request.verbosity]
        words += ["--log-format", str(request.log_format)]
        flags = {
            "--no-color": request.no_color,
            "--strict-plugins": request.strict_plugins,
            "--no-cache": request.no_cache,
            "--allow-outside": request.allow_outside,
            "--trust-inventory": request.trust_inventory,
        }
        return [*words, *(flag for flag, is_set in flags.items() if is_set)]


def tell_notes(session: Site, output: Output) -> None:
    """Tell what sections of plugins have to say of the site before anything is done with it."""
    access = CliAccess(click.get_current_context(), session)
    for section in access.plugins.sections.values():
        for note in section.notes(access) if hasattr(section, "notes") else ():
            output.note(note)


def reasons_of(session: Site, cob: CobId) -> list[str]:
    """Return what sections of plugins have to say of an object, for a person who asks why."""
    access = CliAccess(click.get_current_context(), session)
    sections = access.plugins.sections.values()
    return [line for it in sections if hasattr(it, "reasons") for line in it.reasons(access, cob)]


def _decided_anew(
    before: Decisions, section: str, writes: Mapping[str, Any], author: str, reason: str
) -> Decisions:
    """Return what a section has as soon as this is decided, to try what follows from it."""
    from cobweb.model import Decision, Decisions

    revision = before.revision + 1
    by_key = {key: it for key, it in before.by_key.items() if key not in writes}
    make = partial(Decision, section=section, revision=revision, author=author, reason=reason)
    for key, body in writes.items():
        if body is not None:
            by_key[key] = make(key=key, body=body, time=0.0)
    return Decisions(revision=revision, by_key=by_key)
