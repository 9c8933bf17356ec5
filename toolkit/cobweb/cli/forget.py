"""`cobweb forget`: give up objects that are gone from the site, as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cobweb import operations
from cobweb._clock import wall_clock
from cobweb.cli._complete import complete_gone, complete_gone_host
from cobweb.cli._locking import locked_site
from cobweb.cli._options import examples, site_request, wait_option, yes_option
from cobweb.cli._output import Output
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._streams import refuse_unasked
from cobweb.cli._text import count
from cobweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cobweb.operations import ForgetReport
    from cobweb.store import Store

_MOST_ASKED = 20
"""How many objects the question names."""


@click.command(
    "forget",
    epilog=examples(
        "cobweb forget app01/old-app --yes",
        "cobweb forget --host app01",
        "cobweb forget --host app02 --undo",
    ),
)
@click.argument("cobs", metavar="[ID]...", nargs=-1, shell_complete=complete_gone)
@click.option(
    "--host",
    "hosts",
    metavar="HOST",
    multiple=True,
    shell_complete=complete_gone_host,
    help="All objects of this host; one of the site is left alone from then on. Repeatable.",
)
@click.option("--undo", is_flag=True, help="Take a host of the site back that was given up.")
@wait_option
@yes_option
@site_request()
def command(  # noqa: PLR0913  # one parameter per option of section 7
    request: Request,
    *,
    cobs: tuple[str, ...],
    hosts: tuple[str, ...],
    undo: bool,
    wait: float | None,
    yes: bool,
) -> int:
    """Give up objects that are gone from the site.

    They stay on their hosts as they are: Cobweb will neither remove them nor
    tell of them any more, and locks on them and of them end. An object that is
    still in the site cannot be forgotten. A host that is, is given up: it is
    neither counted nor contacted until --undo; then all of it is checked
    first. On a terminal a question is asked first;
    without one --yes is needed.
    """
    if undo and (cobs or not hosts):
        raise UsageError("--undo takes hosts back", hint="name them with --host, and no objects")
    if not (cobs or hosts):
        raise UsageError("nothing to forget is named", hint="name objects, or --host HOST")
    if not yes:
        refuse_unasked()
    output = Output.of(request)
    with open_site(request) as session:

        def choose(store: Store) -> ForgetReport:
            if undo:
                return operations.take_back(store, hosts)
            return operations.forget(session.evaluated, store, cobs, hosts)

        chosen = choose(session.store())
        if not yes and not _confirmed(output, chosen):
            output.summary("nothing was changed")
            return 0
        store = session.store(create=True)
        with locked_site(session, output, "forget", wait):
            chosen = choose(store)
            store.write(list(chosen.entries(wall_clock())))
        _tell(output, chosen)
        _tell_marks(output, chosen.hosts, store)
    return 0


def _confirmed(output: Output, chosen: ForgetReport) -> bool:
    shown = list(chosen.cobs.values())[:_MOST_ASKED]
    for record in shown:
        output.summary(f"{record.cob} is {record.state}, and stays so")
    if len(chosen.cobs) > len(shown):
        output.summary(f"... and {len(chosen.cobs) - len(shown)} more")
    what = f"Take {_what(chosen)} back" if chosen.taken_back else f"Forget {_what(chosen)}"
    return click.confirm(f"{what}?", default=False, err=True)


def _tell(output: Output, chosen: ForgetReport) -> None:
    data = {
        "format": 1,
        "forgotten": [
            {"cob": record.cob, "state": record.state} for record in chosen.cobs.values()
        ],
        "hosts": list(chosen.hosts),
        "locks": [
            {"cob": cob, "holder": holder, "state": state} for cob, holder, state in chosen.locks
        ],
        "given_up": list(chosen.given_up),
        "taken_back": list(chosen.taken_back),
    }
    if output.data(data):
        return
    for cob in chosen.cobs:
        output.line(f"forgotten: {cob}")
    for host in chosen.given_up:
        output.line(f"given up: {host}")
    if chosen.taken_back:
        output.summary(f"{_what(chosen)} taken back; all of it is checked first")
        return
    ended = f", {count(len(chosen.locks), 'lock')} ended" if chosen.locks else ""
    output.summary(f"{_what(chosen)} forgotten{ended}")


def _tell_marks(output: Output, hosts: Sequence[str], store: Store) -> None:
    """Say what stays on hosts that are not contacted, and how it gets away where one lives on."""
    if not hosts:
        return
    shown = ", ".join(hosts[:_MOST_ASKED]) + (", ..." if len(hosts) > _MOST_ASKED else "")
    output.summary(f"note: if a host lives on, the mark of this site stays on it: {shown}")
    file = f"/var/lib/cobweb/marks/{store.site_id()}.{hosts[0] if len(hosts) == 1 else 'HOST'}"
    output.summary(f"another site takes it over with `apply --adopt`; or, there: rm {file}")


def _what(chosen: ForgetReport) -> str:
    objects = count(len(chosen.cobs), "object")
    hosts = len({*chosen.hosts, *chosen.given_up, *chosen.taken_back})
    if not hosts:
        return objects
    return f"{objects} and {count(hosts, 'host')}" if chosen.cobs else count(hosts, "host")
