"""The report as JUnit XML: a test suite per host, a test case per object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from cobweb.model import CobId, host_of
from cobweb.plugin import plain
from cobweb_plugins.report._columns import End
from cobweb_plugins.report._prose import chain_text, failure_lines, failure_words
from cobweb_plugins.report._report import Report
from cobweb_plugins.report._values import Failure, Waiting

_Case = tuple[str, float, str, str]
"""Name of the object, seconds, how it ended (ok, failure, error, skipped), the element for it."""


def junit_xml(report: Report) -> Iterator[str]:
    """Yield the document in pieces.

    An object that failed is a failure with its output; one on a host that could not be reached, or
    whose transition has no end, is an error; one that waited is skipped and names the cause.
    """
    cases = _cases(report)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f"<testsuites name={_attribute(f'cobweb run {report.story.run}')}>\n"
    for host, of_host in groupby(sorted(cases), key=lambda cob: host_of(CobId(cob))):
        yield from _suite(host, [cases[cob] for cob in of_host])
    empty = set(report.story.unreachable) - {host_of(CobId(cob)) for cob in cases}
    for host in sorted(empty):
        said = report.story.unreachable[host]
        yield from _suite(host, [("host", 0.0, "error", _element("error", _lost(host), said))])
    yield "</testsuites>\n"


def _cases(report: Report) -> Mapping[str, _Case]:
    story = report.story
    failures = {failure.cob: failure for failure in story.failures}
    waits = {it.cob: it for it in report.waiting}
    took = [0] * len(story.cobs)
    opened = set()
    for row in range(len(story.steps)):
        took[story.steps.cob[row]] += story.steps.milliseconds(row)
        if story.steps.result[row] == End.OPEN:
            opened.add(story.steps.cob[row])
    messages = report.messages
    cases = {}
    for number, cob in enumerate(story.cobs):
        end = _end(failures.get(cob), waits.get(cob), messages)
        if end[0] == "ok" and number in opened:
            end = ("error", _element("error", "the events stop in the middle of its transition"))
        cases[cob] = (cob, took[number] / 1000, *end)
    for cob in waits.keys() - cases.keys():
        cases[cob] = (cob, 0.0, *_end(None, waits[cob], messages))
    return cases


def _end(
    failure: Failure | None, it: Waiting | None, messages: Mapping[str, str]
) -> tuple[str, str]:
    if failure is not None:
        title = f"{failure_words(failure)}: {failure.message}"
        return "failure", _element("failure", title, "\n".join(failure_lines(failure)))
    if it is None:
        return "ok", ""
    lines = chain_text(it, messages)
    if it.chain and it.chain[0]["kind"] == "unreachable":
        return "error", _element("error", lines[-1])
    return "skipped", _element("skipped", lines[-1], "\n".join(lines))


def _suite(host: str, cases: list[_Case]) -> Iterator[str]:
    ends = [end for _, _, end, _ in cases]
    counts = {name: ends.count(name[:-1] if name != "skipped" else name) for name in _COUNTS}
    told = " ".join(f'{name}="{number}"' for name, number in counts.items())
    seconds = sum(took for _, took, _, _ in cases)
    yield (
        f'<testsuite name={_attribute(host)} tests="{len(cases)}" {told} time="{seconds:.3f}">\n'
    )
    for cob, took, _, element in cases:
        name = cob.partition("/")[2] or cob
        start = f'<testcase classname={_attribute(host)} name={_attribute(name)} time="{took:.3f}"'
        yield f"{start}>{element}</testcase>\n" if element else f"{start}/>\n"
    yield "</testsuite>\n"


_COUNTS = ("failures", "errors", "skipped")


def _element(tag: str, message: str, text: str = "") -> str:
    return f"<{tag} message={_attribute(message)}>{escape(_shown(text))}</{tag}>"


def _attribute(text: str) -> str:
    return quoteattr(_shown(text))


def _shown(text: str) -> str:
    """Return text with control characters written out, but the ends of lines."""
    return "\n".join(map(plain, text.split("\n"))).replace("\ufffe", "?").replace("\uffff", "?")


def _lost(host: str) -> str:
    return f"host {host} could not be reached"
