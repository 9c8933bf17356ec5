"""Ending what a stopped job has left on a remote host.

Ending ssh ends nothing at its other end. Therefore every task that runs a module on a remote host
carries a mark in its environment, which all that it starts inherits; a sweep looks on the host for
the processes with exactly this mark, and for what is below them, and ends them: SIGTERM first,
SIGKILL two seconds later. As with local processes, what has been handed over to init (a daemon that
a task started on purpose) is not touched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cobweb.model import Report

__all__ = ["MARK_VARIABLE", "Place", "Sweep", "doubted", "sweep_script"]

MARK_VARIABLE = "COBWEB_JOB"
"""The environment variable that holds the mark."""

LIMIT_S = 10.0
"""Time for one sweep: from the end of the local processes until the host says that it is done."""
LIMIT_EACH_S = 0.2
"""More time for each other sweep that is under way: they share the controller's processors."""

Place = Mapping[str, Any]
"""Where and as whom a task runs: `host`, `keywords` and `vars` of a task; `marked`, whether it
carries the mark."""

SCRIPT = r"""mark='@MARK@'
known=' ' daemons=' ' signal=TERM tick=0 clean=0

marked() {
  if printf 'x\0' | grep -qz x 2>/dev/null; then
    grep -lszFxe "$mark" /proc/[0-9]*/environ
  else
    for file in /proc/[0-9]*/environ; do
      { tr '\0' '\n' <"$file" | grep -qxFe "$mark" && echo "$file"; } 2>/dev/null
    done
  fi
}

family() {
  { marked; grep -s '^PPid:' /proc/[0-9]*/status; } |
  awk -F '[/: \t]+' -v "daemons=$daemons" -v "first=$1" '
    $4 == "environ" { marked[$3] = 1 }
    $4 == "status" { parent[$3] = $6 }
    END {
      count = split(daemons, list, " ")
      for (i = 1; i <= count; i++) stays[list[i]] = 1
      for (pid in marked) if (first) {
        top = pid
        for (hops = 0; hops < 99 && (parent[top] in marked); hops++) top = parent[top]
        if (parent[top] == 1) { stays[pid] = 1; print "daemon:" pid }
      }
      for (pid in parent) {
        near = pid
        for (hops = 0; hops < 99 && near + 0 > 1 && !(near in marked); hops++) near = parent[near]
        if ((near in marked) && !(near in stays)) print pid
      }
    }'
}

born() {
  { IFS= read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${line##*')' }
  case $1 in Z | X) return 1 ;; esac
  echo "${20}"
}

end_family() {
  for pid in $(family "$1"); do
    case $pid in daemon:*) daemons="$daemons${pid#daemon:} "; continue ;; esac
    start=$(born "$pid") || continue
    case $known in *" $pid/$start "*) continue ;; esac
    known="$known$pid/$start "
    kill -s "$signal" "$pid" 2>/dev/null
  done
}

living() {
  for one in $known; do
    [ "$(born "${one%/*}")" = "${one#*/}" ] && echo "${one%/*}"
  done
}

end_family first
while [ "$tick" -lt 60 ]; do
  alive=$(living)
  if [ -z "$alive" ]; then
    before=$known
    end_family ''
    [ "$known" = "$before" ] && clean=$((clean + 1)) || clean=0
    [ "$clean" -eq 3 ] && exit 0
  elif [ "$tick" -ge 20 ]; then
    signal=KILL
    kill -s KILL $alive 2>/dev/null
  fi
  tick=$((tick + 1))
  sleep 0.1 2>/dev/null || { sleep 1; tick=$((tick + 9)); }
done
echo "these do not end:" $alive >&2
exit 1
"""
"""Plain sh with grep, awk and /proc, so that hosts without Python are swept as well.

`family` tells the marked processes with all below them; in the first look, those that init has
adopted are told apart, with theirs, as daemons. (An adopted one that appears later has lost its
parent to the sweep.) A process is known by pid and start time, so that no reused pid is hit. The
last looks are three, as the kernel shows no environment of a process that is just in its exec.
"""


def sweep_script(mark: str) -> str:
    """Return the script for /bin/sh that ends the processes of `mark`; it exits 1 if one stays."""
    return SCRIPT.replace("@MARK@", f"{MARK_VARIABLE}={mark}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a lane is given to do instead of a job; `report` is said of the job afterwards.

    `host_vars` are those that the job had: they lead to the machine that it was at work on.
    """

    report: Report
    host: str
    mark: str
    place: Place
    deadline: float
    host_vars: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def number(self) -> int:
        """The number of the job."""
        return self.report.number

    def message(self) -> dict[str, Any]:
        """Return the message that asks a lane to do it."""
        return {
            "op": "sweep",
            "number": self.number,
            "host": self.host,
            "script": sweep_script(self.mark),
            "place": self.place,
            "host_vars": self.host_vars,
        }

    def ended(self, fields: Mapping[str, Any]) -> Report:
        """Return the job's report, by what the lane said of the sweep."""
        if fields["outcome"] == "ok":
            return self.report
        return self.doubtful(fields.get("message", ""))

    def doubtful(self, reason: str) -> Report:
        """Return the job's report where the sweep has not come to its end."""
        return doubted(self.report, self.place, reason)


def doubted(report: Report, place: Place, reason: str) -> Report:
    """Return `report` with a word that processes may still run at `place`, and why."""
    doubt = f"what it started on {place['host']} may still run there ({reason})"
    return dataclasses.replace(report, message=f"{report.message}; {doubt}")
