"""The command channel `ssh`: one OpenSSH client per host and command, set up as Ansible's would be.

Theory of operation. A command is started on its host by a small shell script. The script writes a
marker before the command's output, and one after it with the exit code, on standard output and on
standard error: so what the host's login says is no output, ssh's own failures are told from the
command's, and a command is over although what it has left running holds its output open. The
script reads its standard input beside the command: when that ends, since Cobweb has given up or
was killed, it ends the command's session. With input for the command there is no such watch: a
command that reads its input ends with it.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
import signal
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError
from cobweb.model import Results, connection_variables
from cobweb_plugins.ansible._workspace import AnsibleConfig, ansible_config

Sink = Callable[[bytes], None]
"""Takes output as it comes."""

_BEGIN = """
m=$1:$3;
cd 2>/dev/null;
echo "$m";
echo "$m" >&2;
"""
"""The command is $2; $1 and $3 make the marker, which stands whole in no list of processes."""

_WATCHED = """
exec 3<&0;
command -v setsid >/dev/null && s=setsid;
$s sh -c "$2" </dev/null 3<&- & p=$!;
(
  exec >/dev/null 2>&1;
  cat <&3;
  trap '' TERM;
  kill -TERM -$p || kill -TERM $p;
  sleep 2;
  kill -KILL -$p || kill -KILL $p
) & w=$!;
exec 3<&-;
wait $p;
c=$?;
kill $w;
"""
_FED = """
sh -c "$2";
c=$?;
"""
_END = """
printf '%s %d\\n' "$m" $c;
printf '%s 0\\n' "$m" >&2
"""
_SSH = (
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=2"),
)
"""What a user's own arguments, which come first, have not settled."""

_SLICE = 2**16
_GRACE_S, _LOCAL_GRACE_S = 1.0, 4.0
"""How long a client may take to end after what it was for has ended; on this machine the script."""

_ON_ITS_WAY_S = 0.1
"""How long what a command has said may take to come, once it is given up."""

_MOST_NOISE = 2**16
"""How many bytes a login may say before the command's marker."""

_NO = ("", "0", "false", "n", "no", "off", "none")


class SshChannel:
    """The way to all hosts of a site (a `cobweb.api.Site`) that is plain SSH, or this machine."""

    def __init__(self, site: Any) -> None:
        self._site = site.evaluated
        self.hosts: Container[str] = self._site.hosts
        self._history = site.history
        self._config = ansible_config(self._site.dir)
        self._ways: dict[str, _Way] = {}

    @cached_property
    def _results(self) -> Results:
        """What tasks have handed back, which loads the database: not where agents answer all."""
        return self._history().results()  # type: ignore[no-any-return]

    async def obstacle(self, host: str) -> str:
        """Return what keeps this channel from a host, "" for nothing that is known."""
        return self._way(host).obstacle

    async def call(
        self, host: str, command: str, *, stdin: Path | None, output: Sink, errors: Sink
    ) -> int:
        """Run a shell command, and return its exit code; CobwebError where that is not known.

        A call that is cancelled ends the command, as far as the host can still be reached.
        """
        halves = (secrets.token_hex(8), secrets.token_hex(8))
        marker = ":".join(halves)
        lines = f"{_BEGIN}{_WATCHED if stdin is None else _FED}{_END}".splitlines()
        script = " ".join(it.strip() for it in lines).strip()  # a login shell may take no other
        words = ["/bin/sh", "-c", script, "cobweb", halves[0], command, halves[1]]
        streams = _Framed(marker, output), _Framed(marker, errors)
        way = self._way(host)
        process = await _started(way.command(words), self._site.dir, stdin)
        assert process.stdout is not None
        assert process.stderr is not None
        pairs = zip((process.stdout, process.stderr), streams, strict=True)
        readers = [asyncio.ensure_future(_read(*each)) for each in pairs]
        try:
            done, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_EXCEPTION)
            for each in done:
                each.result()
            if streams[0].code is None:
                await process.wait()
        finally:
            await asyncio.wait(readers, timeout=_ON_ITS_WAY_S)
            for each in readers:
                each.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            await _end(process, _GRACE_S if way.client else _LOCAL_GRACE_S)
        return _code(streams, process.returncode)

    def _way(self, host: str) -> _Way:
        if host not in self._ways:
            self._ways[host] = self._way_to(host)
        return self._ways[host]

    def _way_to(self, host: str) -> _Way:
        """Return how a host is reached by its variables, the environment and ansible.cfg."""
        variables = {
            **self._site.hosts[host].variables,
            **connection_variables(self._results.get(host, {})),
        }
        found = _Settings(self._site, host, variables, self._config)
        connection = (found.get("connection") or "ssh").removeprefix("ansible.builtin.")
        method = (found.get("become_method") or "sudo").removeprefix("ansible.builtin.")
        become = found.get("become").lower() not in _NO
        client = [] if connection == "local" else _client(host, found)
        before = ["sudo", "-n", "-H", "-u", found.get("become_user") or "root", "--"]
        logs_in = found.has("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
        asks = found.has("ansible_become_password", "ansible_become_pass")
        is_plain = connection in ("ssh", "smart", "local")
        obstacles = {
            found.obstacle: bool(found.obstacle),
            f"it is reached by the connection `{connection}`, and not over SSH": not is_plain,
            f"tasks become root there by `{method}`, and not by sudo": become and method != "sudo",
            "its login needs a password, and not a key": logs_in and connection != "local",
            "sudo needs a password there": become and asks,
        }
        obstacle = next((text for text, is_so in obstacles.items() if is_so), "")
        return _Way(obstacle=obstacle, client=client, before=before if become else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How a host is reached: an ssh client's words (none: this machine), and what becomes root."""

    obstacle: str
    client: Sequence[str]
    before: Sequence[str]

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the local command that runs a command there."""
        there = [*self.before, *words]
        return [*self.client, shlex.join(there)] if self.client else there


class _Settings:
    """Ansible's settings of a connection: by variables of the host, environment, ansible.cfg.

    `obstacle` says of a variable that could not be evaluated.
    """

    def __init__(
        self, site: Any, host: str, variables: Mapping[str, Any], config: AnsibleConfig
    ) -> None:
        self._site, self._host = site, host
        self._variables, self._parsed = variables, config.parsed
        self.obstacle = ""

    def get(self, name: str) -> str:
        """Return a setting of `_SETTINGS` as text, "" where nothing says one."""
        variables, environment, sections, key = (it.split() for it in _SETTINGS[name])
        for each in reversed(variables):
            if each in self._variables:
                return self._value(each)
        for each in reversed(environment):
            if each in os.environ:
                return os.environ[each]
        found = (self._parsed.get(it, *key, fallback="") for it in reversed(sections))
        return next(filter(None, found), "")

    def has(self, *names: str) -> bool:
        """Say whether a host has one of these variables."""
        return any(name in self._variables for name in names)

    def _value(self, name: str) -> str:
        value = self._variables[name]
        if isinstance(value, str) and "{" in value:
            try:
                value = self._site.explain(f"{self._host}.{name}").value
            except CobwebError as error:
                self.obstacle = str(error)
        if isinstance(value, Mapping):
            self.obstacle = f"its variable {name} is vaulted"
        return str(value)


_SETTINGS: Mapping[str, tuple[str, str, str, str]] = {
    "connection": ("ansible_connection", "ANSIBLE_TRANSPORT", "defaults", "transport"),
    "host": ("ansible_host ansible_ssh_host", "", "", ""),
    "port": ("ansible_port ansible_ssh_port", "ANSIBLE_REMOTE_PORT", "defaults", "remote_port"),
    "user": ("ansible_user ansible_ssh_user", "ANSIBLE_REMOTE_USER", "defaults", "remote_user"),
    "key": (
        "ansible_private_key_file ansible_ssh_private_key_file",
        *("ANSIBLE_PRIVATE_KEY_FILE", "defaults", "private_key_file"),
    ),
    "checking": (
        "ansible_host_key_checking ansible_ssh_host_key_checking",
        "ANSIBLE_HOST_KEY_CHECKING ANSIBLE_SSH_HOST_KEY_CHECKING",
        *("defaults ssh_connection", "host_key_checking"),
    ),
    "executable": (
        *("ansible_ssh_executable", "ANSIBLE_SSH_EXECUTABLE"),
        *("ssh_connection", "ssh_executable"),
    ),
    "args": ("ansible_ssh_args", "ANSIBLE_SSH_ARGS", "ssh_connection", "ssh_args"),
    "common": (
        *("ansible_ssh_common_args", "ANSIBLE_SSH_COMMON_ARGS"),
        *("ssh_connection", "ssh_common_args"),
    ),
    "extra": (
        *("ansible_ssh_extra_args", "ANSIBLE_SSH_EXTRA_ARGS"),
        *("ssh_connection", "ssh_extra_args"),
    ),
    "become": ("ansible_become", "ANSIBLE_BECOME", "privilege_escalation", "become"),
    "become_user": (
        *("ansible_become_user", "ANSIBLE_BECOME_USER"),
        *("privilege_escalation", "become_user"),
    ),
    "become_method": (
        *("ansible_become_method", "ANSIBLE_BECOME_METHOD"),
        *("privilege_escalation", "become_method"),
    ),
}
"""Variables, environment, sections and key of ansible.cfg; of several the last one counts."""


def _client(host: str, found: _Settings) -> list[str]:
    """Return the words of an ssh client that come before the command."""
    words = [found.get("executable") or "ssh"]
    for name in ("args", "common", "extra"):
        words += shlex.split(found.get(name))
    if found.get("checking").lower() in _NO[1:]:
        words += ["-o", "StrictHostKeyChecking=no"]
    if key := found.get("key"):
        words += ["-i", str(Path(key).expanduser())]
    for flag, name in (("-p", "port"), ("-l", "user")):
        words += [flag, value] if (value := found.get(name)) else []
    return [*words, *_SSH, "--", found.get("host") or host]


# --- one call


@dataclass(slots=True)
class _Framed:
    """Output between two markers; `code` is what stands behind the second one.

    `noise` is what came before the first.
    """

    marker: str
    sink: Sink
    noise: bytes = b""
    code: int | None = None
    has_begun: bool = False
    _held: bytes = field(default=b"")

    def take(self, data: bytes) -> None:
        """Take what has come; nothing of it counts after the second marker."""
        data, marker = self._held + data, self.marker.encode()
        if not self.has_begun:
            before, found, rest = data.partition(marker + b"\n")
            self.noise = before[-_MOST_NOISE:]
            if not found:
                self._held = data[-_MOST_NOISE:]
                return
            self.has_begun, data = True, rest
        place = data.find(marker)
        while place >= 0:
            rest = data[place + len(marker) :]
            if end := re.match(rb" (\d{1,3})\n", rest):
                self.code = int(end[1])
                break
            if re.fullmatch(rb"( \d{0,3})?", rest):
                break  # more of it is to come
            place = data.find(marker, place + 1)
        if place < 0:  # a part of it may be at the end
            place = len(data) - _overlap(data, marker)
        if place:
            self.sink(data[:place])
        self._held = data[place:]


def _overlap(data: bytes, marker: bytes) -> int:
    """Return how many bytes at the end of data may be the beginning of a marker."""
    longest = min(len(data), len(marker) - 1)
    return next((it for it in range(longest, 0, -1) if data.endswith(marker[:it])), 0)


async def _read(stream: asyncio.StreamReader, framed: _Framed) -> None:
    """Read a stream to its second marker, or its end."""
    while framed.code is None and (data := await stream.read(_SLICE)):
        framed.take(data)


async def _started(
    words: Sequence[str], folder: Path, stdin: Path | None
) -> asyncio.subprocess.Process:
    """Start a client, or the script itself; CobwebError where there is no such program."""
    try:
        with open(stdin or os.devnull, "rb") as file:  # noqa: ASYNC230, PTH123 - a local file
            return await asyncio.create_subprocess_exec(
                *words,
                cwd=folder,
                stdin=asyncio.subprocess.PIPE if stdin is None else file,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
    except OSError as error:
        raise CobwebError(f"{words[0]} cannot be started: {error.strerror or error}") from error


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    """Let a client end, of which nothing is wanted any more, and kill it if it does not.

    The end of its input is what a command that is still at work ends by.
    """
    if process.stdin is not None:
        process.stdin.close()
    elif process.returncode is None:  # nothing there ends a command that reads a file
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(grace_s):
            await _drained(process)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # First its outputs: somebody else may hold them open, and `wait` waits for their ends.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
    await process.wait()


async def _drained(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process, whatever it still has to say."""
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(_SLICE):
            pass
    await process.wait()


def _code(streams: tuple[_Framed, _Framed], ended: int | None) -> int:
    """Return the exit code that the script has told; CobwebError where it has told none."""
    output, errors = streams
    if output.code is not None:
        return output.code
    if output.has_begun:
        raise CobwebError("the connection was lost while the command ran")
    said = (errors.noise or output.noise).decode(errors="replace").strip().splitlines()
    raise CobwebError(said[-1] if said else f"the login ended with exit code {ended}")
