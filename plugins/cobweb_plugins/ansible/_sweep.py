"""Ending what a stopped job has left on a remote host.

Ending ssh ends nothing at its other end. Therefore every command of a job carries a mark in its
environment (`_job_marks`), which all that it starts inherits; a sweep looks on the host for the
processes with the mark of such a job, or of any of an earlier run, and for what is below them, and
ends them: SIGTERM first, SIGKILL two seconds later. As with local processes, what has been handed
over to init (a daemon that a task started on purpose) is not touched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cobweb.model import Report
from cobweb_plugins.ansible._job_marks import (
    BOOK,
    MARK_VARIABLE,
    REFUSED,
    ROOT_NAME,
    raise_epoch,
)

END_VARIABLE = "cobweb_end"
STAYS = "these do not end:"

LIMIT_S = 10.0
"""Time for one sweep: from the end of the local processes until the host says that it is done."""
LIMIT_EACH_S = 0.2
"""More time for each other sweep that is under way: they share the controller's processors."""

Place = Mapping[str, Any]
"""Where and as whom a task runs: `host`, `keywords` and `vars` of a task."""

_SCRIPT = r"""known=' ' daemons=' ' sessions=' ' signal=TERM tick=0 clean=0 missing=
for tool in awk grep sed tr; do
  command -v "$tool" >/dev/null || missing="$missing $tool"
done
grep -qs '^PPid:' /proc/self/status || missing="$missing /proc"
if [ -n "$missing" ]; then
  echo "@STAYS@ what nobody can look for without$missing"
  exit 1
fi

lines() {
  if printf 'x\0' | grep -qz x 2>/dev/null; then
    grep -HoszxE "$2" /proc/[0-9]*/"$1" | tr '\0' '\n'
  else
    for file in /proc/[0-9]*/"$1"; do
      { tr '\0' '\n' <"$file" | grep -xE "$2" | sed "s|^|$file:|"; } 2>/dev/null
    done
  fi
}

family() {
  {
    lines environ '@VARIABLE@=([0-9A-Za-z_-]+/[0-9]+/[0-9]+|-+)'
    lines cmdline '@ROOT@'
    ls -lq /proc/[0-9]*/fd/[012] 2>/dev/null |
      sed -n 's|^[^/]* /proc/\([0-9]*\)/fd/. -> /dev/pts/[0-9]* (deleted)$|/proc/\1/cut|p'
    grep -sE '^(PPid|NSsid):' /proc/[0-9]*/status
  } |
  awk -F '[/: \t]+' -v "first=$1" -v "known=$known" -v "stay=$daemons" -v "our=$sessions" \
    -v "mine=@VARIABLE@=$site" -v "epoch=$epoch" -v "jobs=$jobs" '
    $4 == "environ" && $5 == mine && $6 + 0 < epoch + 0 { marked[$3] = 1 }
    $4 == "environ" && $5 == mine && $6 == epoch && index(jobs, " " $7 " ") { marked[$3] = 1 }
    $4 == "environ" && $5 ~ /=-+$/ { keeps[$3] = 1 }
    $4 == "cmdline" { keeps[$3] = 1 }
    $4 == "cut" { cut[$3] = 1 }
    $4 == "status" && $5 == "PPid" { parent[$3] = $6 }
    $4 == "status" && $5 == "NSsid" { session[$3] = $6 }
    function works(pid,  hops, found) {
      for (hops = 0; hops < 999 && pid + 0 > 1; hops++) {
        if (pid in stays) return 0
        if (pid in marked) found = 1
        if (pid in keeps) return found
        if (pid in ended) return 1
        if (found && !(parent[pid] + 0 > 1) && \
          (pid in cut || index(our, " " session[pid] " "))) return 1
        pid = parent[pid]
      }
      return 0
    }
    END {
      count = split(stay, list, " ")
      for (i = 1; i <= count; i++) stays[list[i]] = 1
      count = split(known, list, "[ /]")
      for (i = 2; i < count; i += 2) ended[list[i]] = 1
      for (pid in marked) if (first && !works(pid)) daemon[pid] = 1
      for (pid in daemon) {
        stays[pid] = theirs[session[pid]] = 1
        print "daemon:" pid
      }
      for (pid in parent) if (works(pid)) {
        print pid
        if (first && !(session[pid] in theirs)) print "session:" session[pid]
      }
    }'
}

born() {
  { IFS= read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${line##*')' }
  case $1 in Z | X) return 1 ;; esac
  echo "${20}"
}

read -r boot </proc/sys/kernel/random/boot_id
if [ -f "$work/ending-$site" ]; then
  read -r when rest <"$work/ending-$site"
  [ "$when" = "$boot" ] && [ -n "$rest" ] && known=" $rest "
fi

end_family() {
  fresh=
  for pid in $(family "$1"); do
    case $pid in
      daemon:*) daemons="$daemons${pid#daemon:} "; continue ;;
      session:*) sessions="$sessions${pid#session:} "; continue ;;
    esac
    start=$(born "$pid") || continue
    case $known in *" $pid/$start "*) continue ;; esac
    known="$known$pid/$start "
    fresh="$fresh $pid"
  done
  [ -z "$fresh" ] && return
  { echo "$boot$known" >"$work/ending-$site"; } 2>/dev/null
  kill -s "$signal" $fresh 2>/dev/null
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
    [ "$clean" -eq 3 ] && rm -f "$work/ending-$site" && exit 0
  elif [ "$tick" -ge 20 ]; then
    signal=KILL
    kill -s KILL $alive 2>/dev/null
  fi
  tick=$((tick + 1))
  sleep 0.1 2>/dev/null || { sleep 1; tick=$((tick + 9)); }
done
echo "@STAYS@" $alive
exit 1
"""
"""Plain sh with grep, awk and /proc, so that hosts without Python are swept as well.

`family` tells the marked processes with all below them. In the first look, those that are neither
below the guard of a job nor below a module server are told apart as daemons, which stay with all
below them; but not what holds a terminal that is gone, for that has outlived its parents when these
were told of it. What is met later without them has lost them to the sweep if it is of a session
that no daemon is of. Whom it is about to end is in the book first, so that a sweep after one that
was cut off knows those whose parents that one has ended. A process is known by pid and start time,
so that no reused pid is hit. The last looks are three, as the kernel shows no environment of a
process that is just in its exec.
"""


def sweep_script(site: str, epoch: int, jobs: Sequence[int]) -> str:
    """Return the script for /bin/sh that ends the jobs of these numbers, and all of other epochs.

    It exits 1 if a process stays, `REFUSED_CODE` if the host works for a newer run.
    """
    tombs = "".join(f': >"$work/$site.$epoch.{number}"\n' for number in jobs)
    return "\n".join(
        [
            f"umask 022\nsite={site} epoch={epoch} jobs=' {' '.join(map(str, jobs))} '",
            f'{BOOK}{raise_epoch()}if [ -d "$work" ]; then\n:\n{tombs}fi 2>/dev/null',
            _SCRIPT.replace("@VARIABLE@", MARK_VARIABLE)
            .replace("@ROOT@", ROOT_NAME)
            .replace("@STAYS@", STAYS),
        ]
    )


def end_tasks() -> list[dict[str, Any]]:
    """Return the tasks that run a sweep on a host as root, if its user may become root, and as it.

    The script is the variable `END_VARIABLE`. Where the user may not become root, nothing of a job
    can be at work as root either.
    """
    script = "{{ " + END_VARIABLE + " }}"
    shell = {
        "ansible.builtin.raw": script,
        "args": {"executable": "/bin/sh"},
        "ignore_errors": True,
    }
    return [
        {
            "name": "end what is at work as root",
            **shell,
            "become": True,
            "become_user": "root",
            "register": "as_root",
        },
        {"name": "end what is at work", **shell, "register": "as_user"},
        {
            "name": "tell what does not end",
            "ansible.builtin.fail": {"msg": "{{ said[-300:] | trim }}"},
            "vars": {
                "said": "{{ as_root.stdout | default('') ~ as_root.stderr | default('')"
                " ~ as_user.stdout | default('') ~ as_user.stderr | default('') }}"
            },
            "when": f"as_user is failed or '{STAYS}' in said or '{REFUSED}' in said",
        },
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a lane is given to do instead of a job; `report` is said of the job afterwards.

    `host_vars` are those that the job had: they lead to the machine that it was at work on.
    """

    report: Report
    host: str
    script: str
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
            "script": self.script,
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
    return dataclasses.replace(report, message=f"{report.message}; {doubt}", at_work=True)
