# SPDX-License-Identifier: GPL-3.0-or-later
"""Leads calls of modules, of the connections ssh and local, to the module servers of a lane.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. It stands where a connection has its command ready, and passes on whatever
is not a module that is piped into a Python without further ado: with `become`, an `environment`,
a password, retries of ssh, or without pipelining, all is as Ansible does it. Private parts that it
leans on: `Connection._run` and `_handle_error` of the connection ssh.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from ansible.plugins.connection import local, ssh

from cobweb_plugins.ansible._warm import Lost, Servers, call_of, met_at, place_of
from cobweb_plugins.ansible._workspace import fresh_arguments

__all__ = ["PROBE", "ProbedError", "stand_apart", "warm_up"]

Answer = tuple[int, bytes, bytes]

PROBE = b"cobweb: which way?"
"""What stands for a module where only the way to its server is asked for (`cobweb_probe`)."""

FRESH_TIMEOUT_S = 5
"""The most that ssh may take for a new connection where one is asked for."""


class ProbedError(BaseException):
    """Says the way to a module server, `met`, in the place of running a module there.

    None where modules are run without one. It is nothing that a task may rescue.
    """

    def __init__(self, met: dict[str, Any] | None) -> None:
        super().__init__()
        self.met = met


def warm_up(connection: Any, servers: Servers) -> bool:
    """Let `connection` run modules by `servers` where that is the same; say whether it may be."""
    if type(connection) is local.Connection:
        connection.exec_command = partial(_run_here, servers, connection, connection.exec_command)
        return True
    if type(connection) is ssh.Connection and _is_plain(connection):
        connection._run = partial(_run_there, servers, connection, connection._run)
        return True
    return False


def stand_apart(connection: Any) -> None:
    """Let an ssh `connection` make one of its own for each call, and share none."""
    if isinstance(connection, ssh.Connection):
        connection.set_option("ssh_args", fresh_arguments(connection.get_option("ssh_args")))
        timeout_s = min(int(connection.get_option("timeout")), FRESH_TIMEOUT_S)
        connection.set_option("timeout", timeout_s)


def _is_plain(connection: Any) -> bool:
    """Say whether ssh needs neither a password nor a second try."""
    wishes = ("password", "pkcs11_provider", "reconnection_retries", "verbosity")
    asked = any(connection.get_option(wish) for wish in wishes)
    return not asked and not connection._play_context.password


def _run_here(  # noqa: PLR0913, PLR0917  # three of ours, and what Ansible gives
    servers: Servers,
    connection: Any,
    ansibles: Any,
    cmd: str,
    in_data: bytes | None = None,
    sudoable: bool = True,  # noqa: FBT001, FBT002  # the interface of Ansible
) -> Answer:
    """Stand for `exec_command` of the connection local."""
    answer = None
    place = place_of(cmd) if in_data else None
    cwd = os.fsdecode(connection.cwd or b"")
    if in_data == PROBE:
        raise ProbedError(met_at(place, (), cwd) if place else None)
    if in_data and place and (call := call_of(in_data)):
        connection._connect()
        try:
            answer = servers.run(call, place, cwd=cwd)
        except Lost as lost:
            return lost.code, b"", lost.said
    return answer or ansibles(cmd, in_data=in_data, sudoable=sudoable)


def _run_there(  # three of ours, and what Ansible gives
    servers: Servers,
    connection: Any,
    ansibles: Any,
    cmd: list[bytes],
    in_data: bytes | None,
    **more: Any,
) -> Answer:
    """Stand for `_run` of the connection ssh, whose command line ends with that of the host."""
    answer = None
    *way, command = map(os.fsdecode, cmd)
    place = place_of(command) if in_data else None
    if in_data == PROBE:
        raise ProbedError(met_at(place, way, "") if place else None)
    if in_data and place and (call := call_of(in_data)):
        try:
            answer = servers.run(call, place, way=way)
        except Lost as lost:
            answer = (lost.code, b"", lost.said)
            no_log = connection._play_context.no_log
            ssh._handle_error(0, cmd[0], answer, no_log, connection.host)
    return answer or ansibles(cmd, in_data, **more)
