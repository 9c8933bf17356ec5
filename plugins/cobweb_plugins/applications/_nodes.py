"""How a controller speaks with the nodes of an application: invitations, members, words, output.

All of it goes over command channels. A node has a folder for each application:
`STATE/applications/APPLICATION/HOST`, as the tasks of the type `phase` know it. In it is
`hosts.json`, which says who the members of an instance are, and the home of each phase.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cobweb.model import cob_id
from cobweb_plugins.applications._book import Book, Word
from cobweb_plugins.applications._broadcast import Answer, Broadcast, Call, Limits
from cobweb_plugins.applications._channels import ChannelKind, Sink
from cobweb_plugins.applications._files import Put, sent
from cobweb_plugins.applications._recovery import Trouble
from cobweb_plugins.applications._section import Application

_SLOWEST_S = 1.5
"""How many seconds a node may take for each that it was asked to wait."""

ANSWER_S = 10.0
"""How long a node may take to answer, beyond the time that it was asked to wait."""

FILE_S = 600.0
"""How long a node may take for one file."""

HOSTS_VERSION = 1

_FOLDER = """
d=$1;
[ -n "$d" ] || if [ "$(id -u)" = 0 ]; then d=/var/lib/cobweb;
else d=${XDG_STATE_HOME:-$HOME/.local/state}/cobweb; fi;
d=$d/applications/$2/$3;
umask 077;
"""
"""The folder $d of an application on a node; $1 is `state_dir` or empty."""

_INVITE = 'mkdir -p -- "$d" && [ -w "$d" ] && echo joined'
_HOSTS = """
t=$(mktemp "$d/hosts.XXXXXX") && cat >"$t" && [ "$(wc -c <"$t")" -eq "$4" ] &&
mv "$t" "$d/hosts.json" || { rm -f "$t"; exit 1; }
"""
# A status that was the same before and after nobody had the lock is that of a lost supervisor: who
# starts a phase has the lock before its status is written, and who ends it until that is.
_WORDS = """
show() {
  for f in "$d"/*/status.json; do
    [ -f "$f" ] || continue;
    h=${f%/*}; l=held; b=$(cat "$f");
    flock -n -s "$h/lock" true 2>/dev/null && l=free;
    a=$(cat "$f");
    [ "$a" = "$b" ] || l=held;
    printf '%s %s %s\\n' "${h##*/}" "$l" "$a";
  done;
};
n=$5;
while touch "$d/heard" 2>/dev/null;
  s=$(show); k=$(printf %s "$s" | cksum | tr ' ' -); [ "$k" = "$4" ] && [ "$n" -gt 0 ]; do
  flock -s -w 3 "$d/$6/lock" true 2>/dev/null;
  sleep 0.3; n=$((n-3));
done;
printf '%s\\n%s\\n' "$k" "$s"
"""
_OUTPUT = """
cd "$d/$4" 2>/dev/null && grep -qF "\\"instance\\": \\"$7\\"" status.json ||
{ echo "the phase $4 has no output here" >&2; exit 1; };
[ -z "$6" ] || exec tail -n "$5" -F output;
cat output.1 output 2>/dev/null | tail -n "$5"
"""


Said = str | Mapping[str, Word]
"""Words by phase; or why there are none."""


@dataclass(slots=True)
class Heard:
    """What nodes have said: words of an instance, and why those are silent that did not answer."""

    words: dict[str, Mapping[str, Word]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)

    def take(self, host: str, said: Said) -> None:
        """Take what a host has said last: its words, or why there are none."""
        self.words.pop(host, None)
        self.silent.pop(host, None)
        if isinstance(said, str):
            self.silent[host] = said
        else:
            self.words[host] = said


class Nodes:
    """The nodes of an application of a site (a `cobweb.api.Site`), by command channels."""

    def __init__(
        self, site: Any, kinds: Sequence[ChannelKind], application: Application, note: Any
    ) -> None:
        self._site, self._kinds, self._note = site, kinds, note
        self._application = application
        cobs, first = site.graph().cobs, next(iter(application.objects().values()))
        self.hosts: Sequence[str] = [
            it for it in site.evaluated.select(application.on) if cob_id(it, first) in cobs
        ]
        self._folders = {
            host: str(cobs[cob_id(host, first)].spec.get("state_dir", "")) for host in self.hosts
        }
        self.was_interrupted = False

    def invite(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """Invite hosts; return, of each that has not joined, why."""
        asked = self._application
        limits = Limits(timeout_s=asked.join_timeout_s, fanout=asked.outstanding)
        answers = self._call(dict.fromkeys(hosts, (_INVITE, ())), limits)
        return {it.host: why for it in answers if (why := _why_not(it))}

    def send(self, hosts: Sequence[str], what: Put, file: Path, digest: str) -> Mapping[str, str]:
        """Send a file to hosts; return, of those that did not get it, why."""
        limits = Limits(timeout_s=FILE_S)
        answers = sent(lambda calls: self.broadcast(calls, limits), hosts, what, file, digest)
        return {it.host: f"{what.dest}: {why}" for it in answers if (why := _why_not(it))}

    def tell_hosts(self, book: Book, hosts: Collection[str]) -> Mapping[str, str]:
        """Tell hosts who the members are, and what is to be started how often.

        Return, of those that could not be told, why.
        """
        data = {"version": HOSTS_VERSION, "instance": book.instance, "hosts": sorted(book.states)}
        text = json.dumps({**data, "starts": {it: dict(of) for it, of in book.starts.items()}})
        with tempfile.TemporaryDirectory(prefix="cobweb-") as folder:
            file = Path(folder) / "hosts.json"
            file.write_text(text, encoding="utf-8")
            calls = dict.fromkeys(hosts, (_HOSTS, (str(len(text)),)))
            answers = self._call(calls, Limits(timeout_s=ANSWER_S * 3), stdin=file)
        return {it.host: why for it in answers if (why := _why_not(it))}

    def words(self, book: Book, hosts: Iterable[str]) -> Heard:
        """Return what hosts say of an instance now."""
        calls = {it: self.question(book, it) for it in hosts if it in self._folders}
        heard = Heard()
        for it in self.broadcast(calls, Limits(timeout_s=ANSWER_S)):
            said = said_of(it, book.instance)
            heard.take(it.host, said if isinstance(said, str) else said[1])
        return heard

    def question(self, book: Book, host: str, seen: str = "", wait_s: int = 0) -> Call:
        """Return what asks a host for words; it waits so long for others than it has `seen`."""
        words = (seen, str(wait_s), _at_work(book, host))
        return Call(command=self._command(host, _WORDS, words), more_s=_SLOWEST_S * wait_s)

    def output(
        self,
        instance: str,
        phases: Mapping[str, str],
        lines: int,
        follow: Mapping[str, Sink] | None = None,
    ) -> list[Answer]:
        """Return the last lines that a phase of each host has written; with `follow` for ever."""
        flag = "follow" if follow else ""
        calls = {
            host: (_OUTPUT, (phase, str(lines), flag, instance)) for host, phase in phases.items()
        }
        limits = Limits() if follow else Limits(timeout_s=ANSWER_S * 3)
        return self._call(calls, limits, sinks=follow or {})

    def broadcast(self, calls: Mapping[str, Call], limits: Limits) -> list[Answer]:
        """Return the answers of hosts; after an interrupt nobody is called any more."""
        if self.was_interrupted:
            return [Answer(host=it, reason="interrupted") for it in calls]
        broadcast = self.made_broadcast(limits)
        answers = broadcast.run(calls) if calls else []
        self.was_interrupted = broadcast.was_interrupted
        return answers

    def made_broadcast(self, limits: Limits) -> Broadcast:
        """Return what calls hosts of the site."""
        return Broadcast(
            *(self._site, self._kinds, limits), note=self._note, hear=lambda _answer: None
        )

    def _call(
        self,
        calls: Mapping[str, tuple[str, Sequence[str]]],
        limits: Limits,
        *,
        stdin: Path | None = None,
        sinks: Mapping[str, Sink] | None = None,
    ) -> list[Answer]:
        """Run a script with words on each host."""
        asked = {
            host: Call(
                command=self._command(host, *it), stdin=stdin, output=(sinks or {}).get(host)
            )
            for host, it in calls.items()
        }
        return self.broadcast(asked, limits)

    def _command(self, host: str, script: str, words: Sequence[str]) -> str:
        """Return a call of a script: on one line, for a login shell may take no other."""
        text = " ".join(line.strip() for line in (_FOLDER + script).splitlines()).strip()
        own = (self._folders[host], *(quote(it, safe="") for it in (self._application.name, host)))
        return shlex.join(["sh", "-c", text, "cobweb", *own, *words])


def said_of(answer: Answer, instance: str) -> str | tuple[str, Mapping[str, Word]]:
    """Return a mark of what a host has said, with its words; or why it has said nothing."""
    if why := _why_not(answer):
        return why
    mark, _, text = answer.output.decode(errors="replace").partition("\n")
    return mark, dict(_words_of(text, instance))


def _why_not(answer: Answer) -> str:
    """Return why an answer is none, "" for one."""
    if answer.code == 0:
        return ""
    said = answer.errors.decode(errors="backslashreplace").strip().splitlines()
    return answer.reason or (said[-1] if said else f"exit code {answer.code}")


def _at_work(book: Book, host: str) -> str:
    """Return a phase that is at work on a host, whose end it waits for."""
    return next((it for it, state in book.states.get(host, {}).items() if state == "running"), "-")


def _words_of(text: str, instance: str) -> Iterable[tuple[str, Word]]:
    for line in text.splitlines():
        phase, _, rest = line.partition(" ")
        lock, _, status = rest.partition(" ")
        try:
            said = json.loads(status)
            is_of = said["instance"] == instance
        except (ValueError, KeyError, TypeError):
            continue  # it is written by no supervisor of ours; the check of the phase will say so
        if is_of:
            yield phase, _word(said, has_supervisor=lock == "held")


def _word(said: Mapping[str, Any], *, has_supervisor: bool) -> Word:
    reason, starts = str(said.get("reason") or ""), int(said.get("starts") or 1)
    match said.get("state"):
        case "starting" | "launching" | "running" as state if not has_supervisor:
            was_cut_off = state == "starting"  # it was never launched: what was before is the last
            why = "its start was cut off" if was_cut_off else "its supervisor is gone"
            return Word(reason=why, trouble=Trouble.LOST, starts=starts - was_cut_off)
        case "running" if not said.get("healthy", True):
            why = f"is not healthy: {said.get('health')}"
            return Word(reason=why, trouble=Trouble.HEALTH, starts=starts)
        case "ended":
            is_well = said.get("code") == 0
            return Word(ended=True, reason="" if is_well else reason or "it failed", starts=starts)
        case "stopped":
            why = reason or "it was stopped"
            return Word(ended=True, reason=why, starts=starts, is_final=True)
        case _:
            return Word(starts=starts)
