"""Host marks: by them two sites that manage the same host notice each other.

A mark is a small file on the host that names a site, and the run that changed something there
last. The first transition of a run on a host looks for marks of other sites and leaves its own,
as the first task of the job itself; the jobs that come after it on this host carry nothing more.
It is done by `raw`, in POSIX shell: a host may have no Python yet.

Two sites that come at the same moment both leave their mark before they look a last time, so at
least one of them sees the other. A run that is killed in between leaves its mark behind.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from cobweb.errors import ExecutorError
from cobweb.model import Host, Job, JobKind, Outcome, Report
from cobweb.plugin import ExecutorSetting, SiteMark
from cobweb_plugins.ansible._job_marks import BOOK, REFUSED, raise_epoch
from cobweb_plugins.ansible._jobs import failed
from cobweb_plugins.ansible._results import MARK_TASK

SHARED_VARIABLE = "cobweb_shared"
"""The host variable that says whether other sites may manage the host as well."""

VERSION = 1
NAME_LIMIT = 120
TEXT_LIMIT = 100
"""Characters of a name in a mark; that of a host in the name of its file has NAME_LIMIT."""

_SHELLS = ("ssh", "smart", "paramiko", "paramiko_ssh", "local")
"""Connections to hosts with a POSIX shell and files that stay; others are not marked."""

_FOLDERS = """\
own="$home/marks/$name"
others() {
  for found in /var/lib/cobweb/marks/$seen "$home"/marks/$seen; do
    case "${found##*/}" in "$site".*) continue ;; esac
    [ -f "$found" ] && "$1"
  done
}
"""

_CLAIM = """\
take() { rm -f "$found"; }
refuse() {
  printf '%s ' "$found"
  cat "$found"
  [ -n "$fresh" ] && rm -f "$own"
  exit 73
}
fresh=
[ -n "$takes" ] && others take
[ -n "$shared" ] || others refuse
[ -f "$own" ] || fresh=1
[ -d "$home/marks" ] || mkdir -p "$home/marks" 2>/dev/null || exit 0
printf '%s\\n' "$mark" >"$home/marks/.$$" 2>/dev/null || exit 0
mv -f "$home/marks/.$$" "$own"
[ -n "$shared" ] || others refuse
exit 0
"""

_RELEASE = """\
rm -f "$own" "$work/$site" "$work/$site".* "$work/ending-$site"
rmdir "$home/marks" "$work" 2>/dev/null
exit 0
"""


class HostMarks:
    """What one run knows of the marks on its hosts, and the scripts that its jobs bring along.

    ExecutorError where a host says of itself whether it is shared in another way than yes or no.
    """

    def __init__(self, setting: ExecutorSetting) -> None:
        self._mark = setting.mark
        self._hosts = setting.hosts
        if self._mark is not None:
            for host in setting.hosts.values():
                _shared(host)
        self._marked: set[str] = set()
        self._refused: dict[str, str] = {}
        self._looking: dict[int, str] = {}

    def refusal(self, job: Job) -> Report | None:
        """Return the report of a transition on a host that has the mark of another site."""
        if job.kind is JobKind.TRANSITION and job.host in self._refused:
            return failed(job, self._refused[job.host], began=False)
        return None

    def claim(self, job: Job) -> str:
        """Return the script that has to end well before the tasks of a job; "" for none."""
        mark = self._mark
        if mark is None or job.kind is JobKind.CHECK or job.host in self._marked:
            return ""
        host = self._hosts[job.host]
        if not _can_be_marked({**host.variables, **job.host_vars}):
            return ""
        self._looking[job.number] = job.host
        return _script(mark, host, raise_epoch() + _CLAIM)

    def release(self, host: str) -> str:
        """Return the script that takes this site's mark off a host; "" where it has none."""
        known = self._hosts[host]
        if self._mark is None or not _can_be_marked(known.variables):
            return ""
        return _script(self._mark, known, _RELEASE)

    def heard(self, report: Report) -> Report:
        """Learn from the report of a job, and return it as it is to be told."""
        host = self._looking.pop(report.number, None)
        first = report.tasks[0] if report.tasks else None
        if host is None or first is None or first.name != MARK_TASK:
            return report
        if first.status in ("ok", "changed"):
            self._marked.add(host)
            return replace(report, tasks=report.tasks[1:])
        if first.status != "failed" or report.outcome is not Outcome.FAILED:
            return report
        if REFUSED in first.message:
            return report
        self._refused[host] = _told(first.message, host)
        return replace(report, message=self._refused[host], began=False)


def _script(mark: SiteMark, host: Host, does: str) -> str:
    """Return what finds the folders of marks on a host, and then does something there."""
    name = _file_name(host.name)
    is_local = host.variables.get("ansible_connection") == "local"
    values = {
        "site": mark.site,
        "epoch": str(mark.epoch),
        "name": f"{mark.site}.{name}",
        "mark": _text(mark, host),
        "shared": "yes" if _shared(host) else "",
        "takes": "yes" if host.name in mark.adopt else "",
    }
    lines = [f"{key}={shlex.quote(value)}" for key, value in values.items()]
    # A machine has one inventory name for each site, but for that on which the coordinators run.
    seen = f"{'?' * len(mark.site)}.{name}" if is_local else "*.*"
    return "\n".join([*lines, "umask 022", f"seen={shlex.quote(seen)}", BOOK + _FOLDERS + does])


def _text(mark: SiteMark, host: Host) -> str:
    data = {
        "version": VERSION,
        "site": mark.site,
        "name": mark.name[:TEXT_LIMIT],
        "host": host.name,
        "run": mark.run,
        "who": mark.who[:TEXT_LIMIT],
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(mark.time)),
    }
    return json.dumps(data, separators=(",", ":"))


def _file_name(host: str) -> str:
    """Return a host's name as a part of a file's name; different ones stay different."""
    name = quote(host, safe="")
    if len(name) <= NAME_LIMIT:
        return name
    return f"{name[:NAME_LIMIT]}-{hashlib.sha256(host.encode()).hexdigest()[:16]}"


def _shared(host: Host) -> bool:
    said = host.variables.get(SHARED_VARIABLE, False)
    if not isinstance(said, bool):
        raise ExecutorError(
            f"{SHARED_VARIABLE} of the host {host.name} is neither true nor false",
            hint="write it without quotes; it is no template",
        )
    return said


def _can_be_marked(variables: Mapping[str, Any]) -> bool:
    """Say whether a host is marked at all: this machine is only where a site says a word of it."""
    is_here = variables.get("ansible_connection") == "local"
    return has_posix_shell(variables) and (not is_here or SHARED_VARIABLE in variables)


def has_posix_shell(variables: Mapping[str, Any]) -> bool:
    """Say whether a host of these variables has a POSIX shell, and files that stay."""
    return variables.get("ansible_connection", "ssh") in _SHELLS and not is_windows(variables)


def is_windows(variables: Mapping[str, Any]) -> bool:
    """Say whether commands on a host of these variables go to a shell of Windows."""
    is_remote_shell = variables.get("ansible_connection") in ("winrm", "psrp")
    return is_remote_shell or variables.get("ansible_shell_type") in ("powershell", "cmd")


def _told(said: str, host: str) -> str:
    """Return what people are told of the mark of another site, by what the script found."""
    path, _, text = said.partition(" ")
    try:
        mark = json.loads(text)
        whose = f"{mark['name']} changed it last, in run {mark['run']}"
        whose += f" of {mark['who']} at {mark['time']}"
    except (ValueError, KeyError, TypeError):
        whose = f"its mark cannot be read: {text}"
    return (
        f"{host} is managed by another site: {whose} ({path} there). Nothing was changed. If both"
        f" are to manage it, say `{SHARED_VARIABLE}: true` for it in both; if that site is gone, or"
        f" is this one with a state database that was lost, add --adopt {shlex.quote(host)}"
    )
