"""From an edit of the site to what it does: checked first, then applied, or planned only."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import click

from cobweb.errors import (
    CobwebError,
    LockedError,
    ModelError,
    NoLayoutError,
    RefusedError,
    SiteError,
    UsageError,
)
from cobweb.model import CobId
from cobweb.plugin import SiteAccess
from cobweb_plugins.cluster._desk import Desk, Said
from cobweb_plugins.cluster._edit import SiteEdit

_PASSED = (
    ("message", "-m", "Kept with the generation: why this is done."),
    ("executor", "--executor", "Who carries out tasks."),
    ("parallel", "--parallel", "How many tasks at once."),
    ("wait", "--wait", "Wait so long for a site that another run holds."),
    ("store_timeout", "--store-timeout", "Wait so long for a state database that goes away."),
    ("events", "--events", "Write all events to this file."),
    ("max_removals", "--max-removals", "Do nothing if more is removed, besides what is asked for."),
    ("max_failures", "--max-failures", "Start nothing more after so many failures."),
)
"""Options of `cobweb apply` that operations have too."""


def apply_options(function: Any) -> Any:
    """Add what operations share; all of it arrives as `apply_...`."""
    options = [
        click.option(
            "--no-apply",
            "apply_not",
            is_flag=True,
            help="Edit the site and show the plan; `cobweb apply` carries it out.",
        ),
        click.option("-y", "--yes", "apply_yes", is_flag=True, help="Ask no question."),
        *(
            click.option(word, f"apply_{name}", metavar=name.upper(), help=text)
            for name, word, text in _PASSED
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def edit_site(
    desk: Desk, edit: SiteEdit, changes: Mapping[str, Said | None], given: Mapping[str, Any]
) -> frozenset[CobId]:
    """Write what clusters become, and look at what comes of it; return what is on their nodes.

    SiteError where the site would not be sound with it, UsageError where nobody has agreed to the
    change and nobody can be asked, RefusedError where more would be removed than is on the nodes of
    these clusters and `--max-removals` allows.
    """
    access = desk.access
    deletes = desk.objects_of(changes)
    if desk.tenant is not None:
        _refuse_pending(access, desk.tenant)
    try:
        is_changed = desk.change(edit, changes)
        if given["apply_not"]:
            access.graph()
        else:
            access.refuse_removals(deletes, given["apply_max_removals"])
        if not (given["apply_yes"] or given["apply_not"]):
            access.refuse_unasked()
    except RefusedError as error:
        error.add_note("nothing was changed, neither in the site nor on hosts")
        raise
    except NoLayoutError as error:
        raise _unchanged(access.placed(_no_layout(changes, error))) from error
    except SiteError as error:
        raise _unchanged(error) from error.__cause__
    if is_changed:
        access.summary("the site is edited; commit it when all is well")
    return deletes


def apply_site(
    access: SiteAccess,
    deletes: frozenset[CobId],
    given: Mapping[str, Any],
    *,
    forget: tuple[str, ...] = (),
) -> int:
    """Have the edited site applied, or planned only; return the exit code.

    `deletes` may be removed; `forget` are objects that are given up, now that they are gone from
    the site.
    """
    output = ("-o", access.output)
    if given["apply_not"]:
        return access.run("plan", *output, deletes=deletes)
    wait = ("--wait", given["apply_wait"]) if given["apply_wait"] else ()
    words = [
        word
        for name, option, _ in _PASSED
        if given[f"apply_{name}"] is not None
        for word in (option, given[f"apply_{name}"])
    ]
    yes = ("--yes",) if given["apply_yes"] else ()
    try:
        if forget:
            access.run("forget", "--yes", *wait, *forget)
        return access.run("apply", *words, *yes, *output, deletes=deletes)
    except LockedError as error:
        error.add_note("the edit of the site stays: `cobweb apply` carries it out")
        raise


def _unchanged(error: SiteError) -> SiteError:
    """Say with the findings of a site that would be wrong that it is as it was."""
    error.add_note("nothing was changed: these are findings in the site as it would be")
    return error


def _no_layout(changes: Mapping[str, Said | None], error: NoLayoutError) -> ModelError:
    """Return why a site would be wrong: a cluster of it could not be laid out."""
    path = ("clusters", *changes) if len(changes) == 1 else ("clusters",)
    hint = error.hint or "change one of these; `cobweb cluster solve` tries without an edit"
    return ModelError([(path, error.message, hint)])


def _refuse_pending(access: SiteAccess, tenant: str) -> None:
    """Refuse to act for a tenant where the site holds changes that are not applied yet.

    An apply carries out all of the site: with anything pending it could touch another's nodes.
    """
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            code = access.run("plan", "--detailed-exitcode", "-o", "json")
        except CobwebError:
            code = 0  # what is wrong with the site is told by the operation itself
    if code:
        message = f"the site has changes that are not applied, and not all may be of {tenant}"
        raise UsageError(message, hint="have them applied first: `cobweb plan` shows them")
