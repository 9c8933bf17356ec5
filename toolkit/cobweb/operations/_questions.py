"""Questions to hosts: read-only work that belongs to no object, by an executor that stays open."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TypeVar

from cobweb.kernel._deferred_values import finished
from cobweb.kernel._dispatch import Dispatcher
from cobweb.model import Job, JobKind, Outcome, Report, Results, cob_id, results_problem
from cobweb.operations.context._orders import HEARTBEAT_S, Orders, Where, open_executor
from cobweb.plugin import Answer, Plugins, Question

K = TypeVar("K")


class Questions:
    """Asks hosts; the executor stays open from one time to the next while the site is the same."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._of: tuple[Where, Orders, Dispatcher] | None = None

    def ask(
        self,
        questions: Mapping[K, Question],
        results: Results,
        where: Where,
        plugins: Plugins,
        orders: Orders,
    ) -> dict[K, Answer]:
        """Return what hosts answer, by the questions' keys; a host has neither lock nor mark of it.

        `results` are what earlier runs have handed back of hosts, by which they are reached. A host
        that the site does not have is unreachable. UsageError for an executor that there is not,
        ExecutorError where it breaks.
        """
        answers, asked = dict[K, Answer](), dict[int, K]()
        try:
            dispatcher = self._dispatcher(where, plugins, orders)
            for key, question in questions.items():
                if question.host in where.hosts:
                    job = _job(dispatcher.next_number(), question)
                    asked[job.number] = key
                    dispatcher.add(finished(job, {}, results)[0])
                else:
                    said = f"the site has no host {question.host}"
                    answers[key] = Answer(outcome=Outcome.UNREACHABLE, message=said)
            while not dispatcher.idle():
                dispatcher.submit(dispatcher.take())
                for job, report in dispatcher.wait(HEARTBEAT_S):
                    answers[asked[job.number]] = _answer(report)
        except BaseException:  # what was asked may be at work still: nothing more goes that way
            self.close()
            raise
        return {key: answers[key] for key in questions}

    def close(self) -> None:
        """End the executor, and what it has at work; the next question opens another one."""
        self._of = None
        self._opened.close()

    def _dispatcher(self, where: Where, plugins: Plugins, orders: Orders) -> Dispatcher:
        if self._of is None or self._of[0] is not where or self._of[1] != orders:
            self.close()
            executor, setting = self._opened.enter_context(open_executor(plugins, orders, where))
            dispatcher = Dispatcher(executor, setting, python_types=plugins.python_types)
            self._of = where, orders, dispatcher
        return self._of[2]


def _job(number: int, question: Question) -> Job:
    name = f"question-{number}"
    cob, host = cob_id(question.host, name), question.host
    words = {"id": cob, "name": name, "host": host, "spec": dict(question.spec), "results": {}}
    return Job(
        number=number,
        kind=JobKind.QUESTION,
        cob=cob,
        host=host,
        type_name="question",
        action=question.action,
        cob_vars=words,
        timeout_s=question.timeout_s,
    )


def _answer(report: Report) -> Answer:
    if report.outcome is not Outcome.OK:
        return Answer(outcome=report.outcome, message=report.message)
    if problem := results_problem(report.results, is_answer=True):
        return Answer(outcome=Outcome.FAILED, message=problem)
    return Answer(outcome=report.outcome, data=report.results, message=report.message)
