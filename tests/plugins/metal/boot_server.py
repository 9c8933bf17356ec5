"""A small boot server that says what a test wants, for simulated machines."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any
from urllib.parse import parse_qs, urlsplit

MAC = "52:54:00:00:00:01"
ADDRESS = "127.72.0.11"
LIMIT_S = 20
CUT = 100_000


class BootServer:
    """Answers one machine; `events` are what the machine has said.

    `boot` is what /boot leads to, "" for no answer. An order stands until a word ends it. Where
    `on_cut` is there, the image is cut once after `CUT` bytes, as soon as that has returned.
    """

    def __init__(self) -> None:
        self.boot = "trampoline"
        self.token = "token-1"  # noqa: S105  # for a test
        self.image = b""
        self.events: Queue[tuple[str, Any]] = Queue()
        self.on_cut: Callable[[], object] | None = None
        self._order = "wait"
        self._ordered = threading.Condition()
        self._server = self._listen(0)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _listen(self, port: int) -> ThreadingHTTPServer:
        server = _Server(("127.0.0.1", port), partial(_Handler, self))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def restart(self) -> None:
        self._server = self._listen(self.port)

    def order(self, text: str) -> None:
        with self._ordered:
            self._order = text
            self._ordered.notify_all()

    def held_order(self) -> str:
        with self._ordered:
            self._ordered.wait_for(lambda: self._order != "wait", timeout=0.3)
            return self._order

    def prime(
        self, content: bytes, *, form: str = "gzip", stored: bytes | None = None, wipe: str = "none"
    ) -> None:
        """Order a disk with this content; `stored` is what the server has, if it does not fit."""
        packed = gzip.compress(content, mtime=0) if form == "gzip" else content
        self.image = packed if stored is None else stored
        self.order(f"prime {hashlib.sha256(content).hexdigest()} {len(content)} {form} sda {wipe}")

    def heard(self, kind: str) -> Any:
        """Wait for what the machine says next, which is of a kind; return the rest of it."""
        found, rest = self.events.get(timeout=LIMIT_S)
        assert found == kind, (found, rest)
        return rest

    def script(self) -> str:
        return {
            "trampoline": f"#!ipxe\nkernel {self.url}/trampoline/vmlinuz cobweb.server={self.url}"
            f" cobweb.token={self.token} cobweb.mac={MAC}\ninitrd {self.url}/initrd\nboot\n",
            "disk": f"#!ipxe\n# cobweb name=web1 address={ADDRESS}\nsanboot --drive 0x80\n",
            "off": "#!ipxe\npoweroff\n",
        }[self.boot]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Say nothing: machines that are switched off leave connections."""


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, world: BootServer, *arguments: Any) -> None:
        self.world = world
        super().__init__(*arguments)

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if url.path == "/boot":
            self.world.events.put(("boot", query["mac"]))
            self.answer(200, self.world.script().encode()) if self.world.boot else self.answer(404)
        elif query["token"] != self.world.token:
            self.answer(403)
        else:
            getattr(self, url.path.removeprefix("/trampoline/"))(query, body)

    do_POST = do_GET  # noqa: N815  # the name that http.server looks for

    def hello(self, _: dict[str, str], body: bytes) -> None:
        self.world.events.put(("hello", json.loads(body)))
        self.answer(200, b"ok")

    def order(self, _: dict[str, str], __: bytes) -> None:
        self.answer(200, self.world.held_order().encode())

    def word(self, query: dict[str, str], body: bytes) -> None:
        if query["word"] != "priming":
            self.world.order("wait")
        self.world.events.put((query["word"], body.decode()))
        self.answer(200)

    def image(self, query: dict[str, str], _: bytes) -> None:
        wanted = self.headers.get("Range", f"bytes={query.get('offset', 0)}-")
        self.world.events.put(("image", wanted))
        rest = self.world.image[int(wanted[6:-1]) :]
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        on_cut, self.world.on_cut = self.world.on_cut, None
        self.wfile.write(rest[:CUT] if on_cut else rest)
        if on_cut:
            self.wfile.flush()
            on_cut()
