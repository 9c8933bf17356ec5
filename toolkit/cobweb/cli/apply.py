"""`cobweb apply`: bring the site to its desired state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cobweb.cli._analysis import check_all
from cobweb.cli._applying import carry_out
from cobweb.cli._options import (
    events_option,
    examples,
    executor_option,
    limit_option,
    max_failures_option,
    max_unreachable_option,
    output_option,
    parallel_option,
    pass_request,
    refresh_option,
    site_options,
    timeout_option,
    yes_option,
)
from cobweb.cli._output import Output
from cobweb.cli._parameters import Allowance
from cobweb.cli._pipeline import annotations_option, in_pipeline, tell_pipeline
from cobweb.cli._request import Request
from cobweb.cli._running import failure_bound, lost_bound, tell_result
from cobweb.cli._session import Session, open_site
from cobweb.errors import PlanError, UsageError

if TYPE_CHECKING:
    from cobweb.runtime import Desired, PlanFile, RunResult


@click.command(
    "apply",
    epilog=examples(
        "cobweb apply", "cobweb apply --yes --events events.jsonl", "cobweb apply my.plan"
    ),
)
@click.argument("plan", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("-m", "--message", default="", help="Kept with the generation: why this is done.")
@click.option("--seed", type=int, default=0, help="Seed of the waits between attempts.")
@refresh_option
@events_option
@executor_option
@limit_option
@max_failures_option
@max_unreachable_option("40%")
@parallel_option
@timeout_option
@yes_option
@annotations_option
@output_option()
@site_options
@pass_request
def command(  # noqa: PLR0913  # one parameter per option of section 7
    request: Request,
    *,
    plan: Path | None,
    message: str,
    seed: int,
    refresh: str,
    events: str | None,
    executor: str | None,
    limit: str | None,
    max_failures: Allowance | None,
    max_unreachable: Allowance | None,
    parallel: int | None,
    timeout: float | None,
    yes: bool,
    annotations: bool,
) -> int:
    """Bring the site to its desired state.

    On a terminal the plan is shown first and a question asked, unless --yes is
    given. Interrupt once to let what runs come to its end, twice to stop it.
    A saved PLAN is refused if the site or the states have changed since.
    """
    from cobweb.runtime import DEFAULT_PARALLEL, DEFAULT_TIMEOUT_S, Orders, Refresh, desired_of

    saved = _read(plan) if plan else None
    if saved is not None and limit is not None and limit != saved.limit:
        raise UsageError("--limit is part of the plan", hint="leave it out")
    orders = Orders(
        executor=executor or "ansible",
        parallel=parallel or DEFAULT_PARALLEL,
        timeout_s=timeout or DEFAULT_TIMEOUT_S,
        refresh=saved.refresh if saved and refresh == Refresh.CHANGED else Refresh(refresh),
        max_failures=failure_bound(max_failures),
        max_unreachable=lost_bound(max_unreachable),
        seed=seed,
        verbosity=request.verbosity,
        message=message,
    )
    output = Output.of(request)
    limit = saved.limit if saved else limit
    with open_site(request) as session:
        check_all(session, limit)
        result = carry_out(
            session,
            output,
            orders,
            lambda: desired_of(session.site, limit),
            command="apply",
            events=events,
            check=lambda desired: _refuse_stale(session, saved, desired),
            ask=not (yes or plan),
        )
        if result is None:
            return 0
        tell_result(output, result)
        if annotations and result.exit_code and in_pipeline():
            _annotate(session, result)
    return result.exit_code


def _refuse_stale(session: Session, saved: PlanFile | None, desired: Desired) -> None:
    from cobweb.runtime import refuse_stale

    if saved is not None:
        refuse_stale(saved, desired, session.store(create=True))


def _annotate(session: Session, result: RunResult) -> None:
    """Tell the pipeline what went wrong, from the journal of this run."""
    from cobweb.cli._report_source import report_of

    store = session.store(create=True)
    record = store.run(result.run)
    if record is not None:
        tell_pipeline(report_of(store, record))


def _read(path: Path) -> PlanFile:
    from cobweb.runtime import read_plan

    try:
        return read_plan(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"cannot read the plan {path}: {error}") from error
