"""How a command of a plugin gets at the site that it is called for, and writes what it has to say.

The command line puts a `SiteAccess` behind `site_access`; plugins never see how it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cobweb._tables import Cell, Column, Tone
from cobweb.errors import ModelError, Place, SiteError
from cobweb.model import Action, CobId, Decision, Decisions, Graph, Outcome, Results, State
from cobweb.plugin._loading import Plugins

if TYPE_CHECKING:
    import click

ACCESS_KEY = "cobweb.site_access"
"""Where click's `meta` has the function that makes the access."""

_MARK = "cobweb_on_site"

_C = TypeVar("_C", bound="click.Command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A read-only `action` to be carried out once on one host, which changes nothing there.

    Its tasks see `spec` as `cob.spec`. `timeout_s` None means the executor's default.
    """

    host: str
    action: Action
    timeout_s: float | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a question ended; `data` is what its tasks set as `cob_results`, nothing unless ok."""

    outcome: Outcome
    data: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""


class Document(Protocol):
    """A file of the site: its plain data, with the schema's defaults, and its SHA-256."""

    @property
    def data(self) -> Mapping[str, Any]: ...

    @property
    def digest(self) -> str: ...

    def place(self, path: Sequence[str | int]) -> Place:
        """Return where the value is written that keys and indices lead to."""

    def error(self, error: ModelError) -> SiteError:
        """Return the problems of a document as findings, each at its place."""


class SiteAccess(Protocol):
    """The site of a call, and the output of a command.

    Everything is read anew by each call, so that a command sees what it has edited. Each raises
    SiteError where there is no site or it is wrong.
    """

    @property
    def dir(self) -> Path:
        """The folder of `site.yml`, absolute; whether it is a sound site is not asked."""

    @property
    def file(self) -> str:
        """The name of the site's own file in that folder: `site.yml`, as a rule."""

    @property
    def plugins(self) -> Plugins:
        """All plugins that could be loaded."""

    def sections(self) -> Mapping[str, Any]:
        """Return the sections of plugins that the site has: plain data by name, by their schemas.

        Nothing is expanded and no host is read: a site that cannot be expanded yet has them, too.
        """

    def placed(self, error: ModelError) -> SiteError:
        """Return the problems of sections as findings, each at its place in the site's files."""

    def read(self, name: str) -> str | None:
        """Return the text of a file of the site, by its name there; None if there is none."""

    def document(self, name: str | Path, schema: Mapping[str, Any], what: str = "") -> Document:
        """Return a YAML or JSON file, of the site or (a Path) of none, that is of a JSON Schema.

        `what` is what findings call it. Of the site's own file nothing but `schema` is checked.
        """

    def decisions(self, section: str, at: int | None = None) -> Decisions:
        """Return what was decided in a section, at a revision of it (None: now)."""

    def decision_history(self, section: str | None = None) -> Sequence[Decision]:
        """Return all that was decided in a section, or in any, and is kept, the newest first."""

    def decide(self, section: str, expected: int, writes: Mapping[str, Any], reason: str) -> int:
        """Decide in the name of who calls, as `api.Site.decide`; return the section's revision.

        SiteError where that leaves no site; what is only taken back is taken back in any case.
        """

    def site(self) -> Any:
        """Return the site as a new `cobweb.api.Site`, to be closed, for what runs on its hosts."""

    def graph(self) -> Graph:
        """Return the objects, needs and limits of the evaluated site."""

    def states(self) -> Mapping[CobId, State]:
        """Return the states that the journal believes; none before the first run."""

    def results(self) -> Results:
        """Return what tasks handed back, per host; nothing before the first run."""

    def refuse_removals(self, deletes: Collection[CobId] = (), most: str | None = None) -> None:
        """Raise RefusedError where an apply of the site as it is now would remove too much.

        That is what is protected, or more than `most` says, which is the text of `--max-removals`;
        `deletes`, which the command was asked to delete, do not count.
        """

    def run(self, command: str, *arguments: str, deletes: Collection[CobId] = ()) -> int:
        """Call a command of Cobweb on this site, as `cobweb COMMAND ARGUMENTS`; its exit code.

        `deletes` are as those of `refuse_removals`, for `apply` and `plan`.
        It writes to the same standard output and standard error. CobwebError as the command raises.
        """

    def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Ask hosts, as `api.Site.ask_all`; return the answers by the questions' keys."""

    def refuse_unasked(self) -> None:
        """Raise UsageError where nobody can be asked: what changes hosts then needs `--yes`."""

    def run_facts(self, run: str | None = None) -> Mapping[str, Any]:
        """Return what the journal knows of a run (default: the last), as `api.Site.run_facts`.

        The site need not be valid. UsageError where there is no such run.
        """

    def events(self, run: str) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a run as the journal has them: schemas/events.schema.json."""

    @property
    def output(self) -> str:
        """The format that `-o` asks for: text, json, yaml, or one of the command's own."""

    def data(self, data: Any, form: str = "") -> bool:
        """Write plain data if JSON or YAML is asked for, and say whether it was.

        With `form` it is written as json or yaml, whatever is asked for.
        """

    def write(self, text: str) -> None:
        """Write text as it is to standard output."""

    def line(self, text: str = "", tone: Tone = Tone.NONE) -> None:
        """Write one line of text to standard output, made safe for a terminal."""

    def table(self, columns: Sequence[str | Column], rows: Sequence[Sequence[str | Cell]]) -> None:
        """Write a table that fits the terminal; nothing where there are no rows.

        Where a column is a title only, all but the first are flexible.
        """

    def summary(self, text: str, tone: Tone = Tone.NONE) -> None:
        """Write one line for people to standard error."""

    def captured(self, write: Callable[[], None]) -> str:
        """Return what is written to standard output meanwhile, without colours, to be kept."""


def site_access(context: click.Context) -> SiteAccess:
    """Return the site that a command of a plugin is called for, by the command's context."""
    make: Callable[[click.Context], SiteAccess] | None = context.meta.get(ACCESS_KEY)
    if make is None:
        raise RuntimeError("only a command that `cobweb` calls has a site")
    return make(context)


def on_site(command: _C, *forms: str) -> _C:
    """Say that a command, and all commands of a group, work on a site.

    The command line then adds the options that its own commands share: `-C`, `-o`, `-v` and so on.
    `forms` are what `-o` takes, where that is more than text, json and yaml.
    """
    setattr(command, _MARK, forms)
    return command


def forms_of(command: click.Command) -> Sequence[str] | None:
    """Return the forms that a command was marked with by `on_site`; None for one that was not."""
    forms: Sequence[str] | None = getattr(command, _MARK, None)
    return forms
