"""A power switch in a fabric's network: cuts and restores the power of hosts, asked by HTTP."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.support.fabric import BRIDGE_ADDRESS, Fabric
from tests.support.fabric._system import Namespace, enter_namespace

__all__ = ["PowerSwitch"]


class PowerSwitch:
    """Serves GET /hosts, GET /hosts/NAME and POST /hosts/NAME/on|off until its `with` ends.

    `cuts` are the names of the hosts that were switched off, in their order.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._hosts = {host.name: host for host in fabric.hosts}
        self._power = dict.fromkeys(self._hosts, "on")
        self._lock = threading.Lock()
        self._starts = ThreadPoolExecutor(1, "power")
        self._server: ThreadingHTTPServer | None = None
        self.cuts: list[str] = []
        self.url = ""

    def __enter__(self) -> Self:
        # The socket stays in the network where it was made; the thread that made it ends here.
        with ThreadPoolExecutor(1, "power-socket") as thread:
            thread.submit(enter_namespace, self._fabric.network, Namespace.NETWORK).result()
            self._server = thread.submit(self._make_server).result()
        self.url = f"http://{BRIDGE_ADDRESS}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="power", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._starts.shutdown()

    def answer(self, path: str, *, change: bool) -> tuple[HTTPStatus, Any]:
        """Return status and data of the answer to a request."""
        match path.strip("/").split("/"), change:
            case ["hosts"], False:
                return HTTPStatus.OK, {name: self._tell(name) for name in self._hosts}
            case ["hosts", name], False if name in self._hosts:
                return HTTPStatus.OK, self._tell(name)
            case ["hosts", name, "on" | "off" as power], True if name in self._hosts:
                self._switch(name, power)
                return HTTPStatus.OK, self._tell(name)
        return HTTPStatus.NOT_FOUND, {"error": f"there is no {path}"}

    def _tell(self, name: str) -> dict[str, str]:
        return {"power": self._power[name]}

    def _switch(self, name: str, power: str) -> None:
        """Switch a host; one that is switched on boots by and by."""
        with self._lock:
            if self._power[name] == power:
                return
            if power == "off":
                self._fabric.kill(self._hosts[name])
                self.cuts.append(name)
            else:
                self._starts.submit(self._fabric.start, self._hosts[name])
            self._power[name] = power

    def _make_server(self) -> ThreadingHTTPServer:
        switch = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(change=False)

            def do_POST(self) -> None:
                self._answer(change=True)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
                del format, args

            def _answer(self, *, change: bool) -> None:
                status, data = switch.answer(self.path, change=change)
                body = json.dumps(data).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        server = ThreadingHTTPServer((BRIDGE_ADDRESS, 0), Handler)
        server.daemon_threads = True
        return server
