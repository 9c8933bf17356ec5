"""Job marks: by them a host knows whose work a command is, and whether it may still begin.

A mark is `SITE/EPOCH/NUMBER`: the id of the site, a number that grows from run to run of it, and
the job's number in its run. What a job starts on a host starts through a guard (`guarded`), which
puts the mark into the environment, and only then looks into the host's book whether it may begin.
The book is a folder `work` beside that of the host marks. It holds a file SITE with the last epoch
that ended something there, or changed it, and a tombstone `SITE.EPOCH.NUMBER` for each job of this
epoch that was ended. Who ends a job writes first and then looks for processes with its mark: so a
command that was on its way is found, or finds that it is too late.
"""

from __future__ import annotations

import re
import shlex

MARK_VARIABLE = "COBWEB_JOB"
"""The environment variable that holds the mark."""

JOB_VARIABLE = "COBWEB_MARK"
"""The variable by which an ansible-playbook of one job is told the mark of it."""

ROOT_NAME = "cobweb-job"
"""The word by which the guard, which lives as long as its command, is known among the marked."""

REFUSED_CODE = 74
REFUSED = "cobweb: this host works for a newer run of the site"

BOOK = """\
if [ "$(id -u)" = 0 ]; then home=/var/lib/cobweb
else home="${XDG_STATE_HOME:-$HOME/.local/state}/cobweb"; fi
work=$home/work
"""
"""Sets `home` and `work`, the folders of who runs the script, in POSIX shell."""

_GUARD = f"""\
site=${{{MARK_VARIABLE}%%/*}} rest=${{{MARK_VARIABLE}#*/}} number=${{{MARK_VARIABLE}##*/}}
epoch=${{rest%/*}}
for work in /var/lib/cobweb/work "${{XDG_STATE_HOME:-$HOME/.local/state}}/cobweb/work"; do
  [ -f "$work/$site" ] || continue
  read -r seen <"$work/$site"
  case $seen in ''|*[!0-9]*|???????????????????*) seen=0 ;; esac
  [ "$seen" -le "$epoch" ] && [ ! -e "$work/$site.$epoch.$number" ] && continue
  echo '{REFUSED}' >&2
  exit {REFUSED_CODE}
done
trap '' HUP
(trap - HUP; exec "${{1:-${{SHELL:-/bin/sh}}}}" -c "$2")
exit $?"""
"""It waits for its command, also where its terminal is gone, and ends with its exit code."""

_RAISE = """\
if [ -d "$work" ] || mkdir -p "$work" 2>/dev/null; then
  last=0
  [ -f "$work/$site" ] || rm -rf "$work/$site"
  [ -f "$work/$site" ] && read -r last <"$work/$site"
  case $last in ''|*[!0-9]*|???????????????????*) last=0 ;; esac
  if [ "$last" -gt "$epoch" ]; then
    echo '{refused}' >&2
    exit {code}
  fi
  if [ "$last" -lt "$epoch" ]; then
    { printf '%s\\n' "$epoch" >"$work/.$$" && mv -f "$work/.$$" "$work/$site"; } 2>/dev/null
    for old in "$work/$site".*; do [ -e "$old" ] && rm -f "$old"; done
  fi
fi
"""

_MARK = re.compile(r"[\w-]+/\d+/\d+", re.ASCII)


def raise_epoch() -> str:
    """Return the script that tells a host the epoch of `site` (both are variables of the shell).

    It comes after `BOOK`, and exits REFUSED_CODE where the host has seen a greater one.
    """
    return _RAISE.replace("{refused}", REFUSED).replace("{code}", str(REFUSED_CODE))


def guarded(command: str, mark: str, executable: str) -> str:
    """Return a command of the shell that runs another through the guard.

    That is done by `executable`, by the user's own shell if it is empty.
    """
    words = [f"{MARK_VARIABLE}={mark}", "/bin/sh", "-c", _GUARD, ROOT_NAME, executable, command]
    return f"env {shlex.join(words)}"


def unguarded(words: list[str]) -> tuple[str, str] | None:
    """Return command and mark where `words` are those of `guarded`, followed by more."""
    match words:
        case ["env", variable, "/bin/sh", "-c", guard, root, "/bin/sh", command, *_]:
            name, _, mark = variable.partition("=")
            known = (name, guard, root) == (MARK_VARIABLE, _GUARD, ROOT_NAME)
            return (command, mark) if known and _MARK.fullmatch(mark) else None
        case _:
            return None
