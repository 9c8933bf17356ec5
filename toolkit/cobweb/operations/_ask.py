"""Questions to hosts: checks that belong to no object, and change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cobweb.kernel._deferred_values import finished
from cobweb.kernel._dispatch import Dispatcher
from cobweb.model import Job, Outcome, Report
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._orders import HEARTBEAT_S, Orders, open_executor
from cobweb.plugin import Plugins
from cobweb.store import Store


def ask_hosts(
    desired: Desired, plugins: Plugins, store: Store, orders: Orders, jobs: Iterable[Job]
) -> Mapping[int, Report]:
    """Carry out checks on hosts of the site, and return what they report, by the jobs' numbers.

    A host is reached with what earlier runs have handed back of it; nothing is written. One that
    the site does not have is unreachable.
    """
    results, reports = store.results(), dict[int, Report]()
    with open_executor(plugins, orders, desired) as (executor, setting):
        dispatcher = Dispatcher(executor, setting, python_types=plugins.python_types)
        for job in jobs:
            if job.host in desired.hosts:
                dispatcher.add(finished(job, {}, results)[0])
            else:
                said, lost = f"the site has no host {job.host}", Outcome.UNREACHABLE
                reports[job.number] = Report(number=job.number, outcome=lost, message=said)
        while not dispatcher.idle():
            dispatcher.submit(dispatcher.take())
            reports |= {job.number: report for job, report in dispatcher.wait(HEARTBEAT_S)}
    return reports
