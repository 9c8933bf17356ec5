"""The errors of Cobweb: data about what went wrong; the CLI writes the prose.

A user's mistake is a `Finding` with its place; findings are collected and raised together as a
`SiteError`. What failed outside (a store, a plugin, an executor) has a type of its own, so that the
blame falls on the right side. Everything that is no `CobwebError` is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "CobwebError",
    "ConflictError",
    "CredentialsError",
    "ExecutorError",
    "Finding",
    "GenerationError",
    "LockedError",
    "ModelError",
    "NoLayoutError",
    "Place",
    "PlanError",
    "PluginError",
    "ProtocolError",
    "ProviderError",
    "RefusedError",
    "SiteError",
    "StoreAwayError",
    "StoreError",
    "UsageError",
]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """Where something was written; line and column count from 1, 0 when there is none."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mistake of the user: `place: message (hint)`."""

    place: Place
    message: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.place}: {self.message}{hint}"


class CobwebError(Exception):
    """The base of everything that Cobweb raises on purpose.

    `hint` says what to do; `exit_code` is that of section 7 of the design.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(CobwebError):
    """The command line asks for something that does not exist or does not fit."""

    exit_code = 64


class SiteError(CobwebError):
    """The site is invalid, or there is none; `findings` are in the order of their places."""

    exit_code = 3

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = tuple(findings)


class ModelError(CobwebError):
    """A data model says what no site can be made from.

    Each of `problems` is the keys that lead to a value of the model, what is wrong, and a hint.
    """

    exit_code = 3

    def __init__(self, problems: Sequence[tuple[tuple[str | int, ...], str, str]]) -> None:
        super().__init__("; ".join(message for _, message, _ in problems))
        self.problems = tuple(problems)


class NoLayoutError(CobwebError):
    """A solver has proven that no layout keeps all constraints.

    `conflict` is, in words, a set of constraints that cannot hold together, none of them to spare.
    """

    exit_code = 4

    def __init__(self, message: str, *, conflict: Sequence[str], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.conflict = tuple(conflict)


class PlanError(CobwebError):
    """A plan file cannot be used: it is damaged or its base has changed."""


class RefusedError(CobwebError):
    """A run is not begun, for it would take away more than was agreed; `reasons` say what."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = tuple(reasons)


class GenerationError(CobwebError):
    """An earlier generation cannot be desired again: `problems` say what is gone or wrong."""

    exit_code = 3

    def __init__(self, generation: int, problems: Sequence[str], *, hint: str = "") -> None:
        super().__init__(f"generation {generation} cannot be desired again", hint=hint)
        self.generation = generation
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {problem}" for problem in self.problems)])


class StoreError(CobwebError):
    """The state database cannot be read or written."""


def foreign_format(what: str, found: int, known: int) -> StoreError:
    """Return the refusal of what another Cobweb has stored, in a format that is not ours."""
    hint = "use the Cobweb that wrote it, or a newer one"
    if found < known:
        hint = (
            "an earlier Cobweb without release wrote it: move the state database away, and"
            " `cobweb apply --adopt all` makes a new one"
        )
    return StoreError(f"{what} has format {found}, and this Cobweb knows format {known}", hint=hint)


class StoreAwayError(StoreError):
    """The state database is away, or has no room: it may be there again in a while."""


class ConflictError(CobwebError):
    """Somebody else has decided in a section meanwhile; `revision` is the section's now."""

    def __init__(self, section: str, expected: int, revision: int) -> None:
        message = f"{section} is at revision {revision}, not {expected}"
        hint = f"see what was decided with `cobweb decisions {section} --history`"
        super().__init__(message, hint=hint)
        self.revision = revision


class LockedError(CobwebError):
    """Another run holds the site; `owner` describes it in one line."""

    exit_code = 5

    def __init__(self, owner: str, *, hint: str = "") -> None:
        super().__init__(f"the site is locked by {owner}", hint=hint)
        self.owner = owner


class PluginError(CobwebError):
    """A plugin broke its contract; `plugin` names it."""

    def __init__(self, plugin: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"plugin {plugin}: {message}", hint=hint)
        self.plugin = plugin


class ExecutorError(CobwebError):
    """An executor cannot work at all (a single job that fails is a report, no error)."""


class ProviderError(CobwebError):
    """A provider of nodes could not do what it was asked for; the text holds no secret."""


class CredentialsError(ProviderError):
    """A provider refuses who asks: trying again is of no use, and nothing was made or lost."""


class ProtocolError(CobwebError):
    """The engine was given input that its present state does not allow; nothing has changed."""
