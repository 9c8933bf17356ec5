# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what runs does its work: a command, a page by HTTP, or a port.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from typing import Any, Dict, Optional, Tuple

from ansible.module_utils.cobweb_command import run_command
from ansible.module_utils.cobweb_host import Failed

INTERVAL_S = 1.0
TIMEOUT_S = 5.0
RETRIES = 30
CHECK_TRIES = 2
"""A check tries so often: one answer that is lost is no reason for a restart."""

BODY_LIMIT = 200


def sickness(health: Optional[Dict[str, Any]], tries: int) -> str:
    """Say what is wrong after so many tries, one `interval` apart; nothing if it is well."""
    if not health:
        return ""
    message = ""
    for number in range(tries):
        if number:
            time.sleep(float(health.get("interval", INTERVAL_S)))
        message = _probe(health, float(health.get("timeout", TIMEOUT_S)))
        if not message:
            return ""
    return message


def start_tries(health: Optional[Dict[str, Any]]) -> int:
    """Return how often a service is asked that has just been started."""
    return 1 + int((health or {}).get("retries", RETRIES))


def _probe(health: Dict[str, Any], timeout_s: float) -> str:
    if "command" in health:
        return _probe_command(health["command"], timeout_s)
    if "http" in health:
        return _probe_page(str(health["http"]), timeout_s)
    return _probe_port(health["tcp"], timeout_s)


def _probe_command(command: Any, timeout_s: float) -> str:
    is_text = isinstance(command, str)
    argv = ["/bin/sh", "-c", command] if is_text else [str(word) for word in command]
    ended = run_command(argv, timeout_s)
    if ended.status == 0:
        return ""
    return f"`{command if is_text else ' '.join(argv)}` {ended.describe(timeout_s)}"


def _probe_page(url: str, timeout_s: float) -> str:
    if not url.startswith(("http://", "https://")):
        raise Failed(f"`health.http` must begin with http:// or https://, not {url}")
    # The host itself is asked, past any proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s):
            return ""
    except urllib.error.HTTPError as error:
        with error:
            body = error.read(BODY_LIMIT).decode("utf-8", errors="replace").strip()
        return f"{url} says {error.code} {error.reason}" + (f": {body}" if body else "")
    except (OSError, ValueError) as error:
        return f"{url} does not answer: {getattr(error, 'reason', error)}"


def _probe_port(given: Any, timeout_s: float) -> str:
    host, port = port_of(given)
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return ""
    except OSError as error:
        return f"port {port} of {host} does not answer: {error.strerror or error}"


def port_of(given: Any) -> Tuple[str, int]:
    """Return host and port."""
    host, _, port = str(given).rpartition(":")
    return host.strip("[]") or "localhost", int(port)
