"""What earlier jobs handed back, in the jobs that are about to start and in what is believed.

A job is finished at the last moment before it starts: it gets its host's results, and the late
values of its object's spec in the place of their tokens. Where it lacks one:

- a check sees the token itself, which nothing on a host can match, so it finds no object to be as
  it is wanted that cannot be so yet;
- so does a transition on the way to the type's `remove` state: what is taken away must not wait for
  an address that was taken away before;
- every other transition waits for it as long as anything else goes on, and fails then, without a
  word to its host.

Where an object's content is the one that the journal knows, what was filled in when it was applied
stands in for what is missing now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from cobweb import model
from cobweb.generation import redact
from cobweb.store import ResultsWritten


def finished(
    job: model.Job,
    spec: Mapping[str, Any],
    results: model.Results,
    *,
    applied: Mapping[str, Any] | None = None,
    removes: bool = False,
) -> tuple[model.Job, str]:
    """Return a job with what is known now, and a host that lacks what it needs, "" for none.

    `spec` is that of the job's object, with tokens; `applied` the one that was applied last, None
    where nothing is, or what is was another content. `removes` says that the job is on the way to
    the `remove` state. A job that lacks something cannot be done as it is: its action is `Missing`.
    """
    own, made = dict(results.get(job.host, {})), job
    if own or job.cob_vars["results"]:  # of most hosts there are none
        cob_vars = {**job.cob_vars, "results": own}
        made = replace(job, cob_vars=cob_vars, host_vars=model.connection_variables(own))
    if not model.has_late_values(spec):
        return made, ""
    filled, missing = model.fill_in(spec, results, known=applied)
    made = replace(made, cob_vars={**made.cob_vars, "spec": filled})
    is_empty = isinstance(job.action, model.Nothing | model.Missing)
    if not missing or removes or is_empty or job.kind is model.JobKind.CHECK:
        return made, ""
    (host, key), *others = missing
    more = f", nor {len(others)} more that it needs" if others else ""
    lacking = model.Missing(message=f"{host} has no `{key}` yet (a result of its tasks){more}")
    # Of several it waits for the last: nodes are mostly made in the order of their names.
    return replace(made, action=lacking, confirm=None), missing[-1][0]


def applied_now(job: model.Job, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a job has applied: `spec`, fit for the journal, with what was filled in."""
    if not model.has_late_values(spec):
        return spec
    filled: dict[str, Any] = redact(dict(job.cob_vars["spec"]))
    return filled


def kept_results(
    known: Mapping[str, Any], report: model.Report, opened: AbstractSet[str]
) -> tuple[model.Report, Mapping[str, Any]]:
    """Return a report, and which of its results say something else than is known of the host.

    With results that cannot be kept it is a failure. `opened` is what its job's type says of the
    connection besides the usual.
    """
    if not report.results:
        return report, {}
    problem = model.results_problem(report.results)
    if not problem and (refused := model.connection_problem(report.results, opened)):
        may = ", ".join(f"`{name}`" for name in sorted(model.USUAL_CONNECTION | opened))
        problem = f"the result `{refused[0]}` {refused[1]} (of the connection they may say {may})"
    if not problem:
        return report, {key: it for key, it in report.results.items() if known.get(key) != it}
    message = f"{report.message}; {problem}" if report.message else problem
    outcome = model.Outcome.FAILED if report.outcome is model.Outcome.OK else report.outcome
    return replace(report, outcome=outcome, message=message), {}


def refuse_results(
    results: MutableMapping[str, Mapping[str, Any]],
    graph: model.Graph,
    write: Callable[[ResultsWritten], None],
    say: Callable[[str], None],
) -> None:
    """Take those results away, host by host, that no type of the host may hand back, and say so.

    A type that once might have can have lost the word for it. A host whose machine does not take
    part is left as it is.
    """
    opened: dict[str, set[str]] = {}
    for cob in graph.cobs.values():
        if cob.type.connection:
            opened.setdefault(cob.host, set()).update(cob.type.connection)
    apart = {it.host for it in graph.cobs.values() if it.machine and it.machine not in graph.cobs}
    for host in sorted(results.keys() & set(graph.hosts()) - apart):
        left = dict(results[host])
        while refused := model.connection_problem(left, opened.get(host, ())):
            del left[refused[0]]
        if gone := sorted(results[host].keys() - left.keys()):
            results[host] = left
            write(ResultsWritten(host=host, results=dict.fromkeys(gone)))
            said = "was kept as a result, which may not say that of its connection"
            keys = ", ".join(f"`{key}`" for key in gone)
            say(f"{host}: {keys} {said}; it is deleted and does not count")
