"""The command line of `cobweb install`; what does the work is imported when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cobweb.errors import UsageError
from cobweb.plugin import Tone, on_site, site_access

if TYPE_CHECKING:
    from cobweb.plugin import SiteAccess
    from cobweb_plugins.ansible._install._run import Outcome

_PENDING = 2
_EXAMPLES = (
    "cobweb install",
    "cobweb install --check",
    "cobweb install --update geerlingguy.nginx",
)


@click.command("install", epilog="\b\nExamples:\n" + "\n".join(f"  {it}" for it in _EXAMPLES))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--update",
    is_flag=True,
    help="Fetch NAMEs, or all, anew, and lock what came; drop what is no longer required.",
)
@click.option(
    "--check", is_flag=True, help="Change nothing; exit with 2 where an install would do anything."
)
@click.option(
    "--force", is_flag=True, help="Replace locked folders, even if they were changed by hand."
)
@click.pass_context
def _install(
    context: click.Context, names: tuple[str, ...], *, update: bool, check: bool, force: bool
) -> int:
    """Install the roles and collections that requirements.yml names.

    ansible-galaxy fetches them into roles/ and collections/ of the site.
    requirements.lock.yml pins each by the digest of its files: commit it, and
    an install elsewhere gives the same content or changes nothing.
    """
    if names and not update:
        raise UsageError("names go with --update only", hint=f"as in --update {names[0]}")
    if check and (update or force):
        raise UsageError("--check changes nothing", hint="leave --update and --force out")
    from cobweb_plugins.ansible._install import _run

    site = site_access(context)
    if check:
        return _tell_check(site, _run.check(site))
    outcome = _run.install(site, _run.Wish(update=update, names=names, force=force))
    _tell(site, outcome)
    return 0


command = on_site(_install)


def _tell(site: SiteAccess, outcome: Outcome) -> None:
    done = [it for it in outcome.items if it.state in ("installed", "removed")]
    _table(site, outcome, [(it.name, str(it.kind), it.version, it.state) for it in done])
    count = f"{len(done)} of {len(outcome.items)} roles and collections"
    text = f"{count} installed or removed" if done else "nothing to do"
    site.summary("the lock was written anew" if outcome.wrote_lock and not done else text)


def _tell_check(site: SiteAccess, outcome: Outcome) -> int:
    wrong = outcome.differing
    _table(site, outcome, [(it.name, str(it.kind), it.version, it.state) for it in wrong])
    if not wrong:
        site.summary(f"all {len(outcome.items)} roles and collections are as locked", Tone.GOOD)
        return 0
    total = len(outcome.items)
    site.summary(f"{len(wrong)} of {total} roles and collections are not as locked", Tone.CAREFUL)
    return _PENDING


def _table(site: SiteAccess, outcome: Outcome, rows: list[tuple[str, str, str, str]]) -> None:
    if not site.data(outcome.data()):
        site.table(("NAME", "KIND", "VERSION", "STATE"), rows)
    for note in outcome.notes:
        site.summary(f"note: {note}", Tone.CAREFUL)
