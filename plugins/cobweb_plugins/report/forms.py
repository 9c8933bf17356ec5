"""What happened in a run: from its events to a value, and from that to the forms of a report.

A report needs the events alone, from the journal or from a file that `--events` wrote: no site, no
host, no plugin. Reading keeps per object and transition, not per event.
"""

from __future__ import annotations

from cobweb_plugins.report._annotations import Trouble, github_commands, gitlab_quality, troubles_of
from cobweb_plugins.report._data import report_data
from cobweb_plugins.report._html import html_page
from cobweb_plugins.report._junit import junit_xml
from cobweb_plugins.report._prose import (
    cause_of,
    chain_text,
    failure_lines,
    failure_title,
    hosts_text,
    path_reason,
    span,
)
from cobweb_plugins.report._read import record, record_lines
from cobweb_plugins.report._report import Report, make_report
from cobweb_plugins.report._values import RunFacts, Story, Waiting

__all__ = [
    "Report",
    "RunFacts",
    "Story",
    "Trouble",
    "Waiting",
    "cause_of",
    "chain_text",
    "failure_lines",
    "failure_title",
    "github_commands",
    "gitlab_quality",
    "hosts_text",
    "html_page",
    "junit_xml",
    "make_report",
    "path_reason",
    "record",
    "record_lines",
    "report_data",
    "span",
    "troubles_of",
]
