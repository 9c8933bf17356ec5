"""A boot server that says what a test wants to hear: the API without any machine."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cobweb.model import Host
from cobweb.plugin import CobContext

KEY = "secret-of-the-server"
DIGEST = hashlib.sha256(b"an image").hexdigest()
OLDER = hashlib.sha256(b"an older image").hexdigest()
WANTED = {
    "image": DIGEST,
    "name": "web1",
    "address": "127.72.5.11",
}
MAC = "52:54:00:00:00:01"
LIMITS = {"trampoline": 600, "primed": 3600, "active": 900, "off": 300}


def view(**said: Any) -> dict[str, Any]:
    """Return what the server says of m01: by default it is active and as it is wanted."""
    return {
        "id": "m01",
        "phase": "active",
        "since": 1790000000,
        "goal": "active",
        "over": True,
        "failure": "",
        "asks": "",
        "image": {"sha256": DIGEST, "bytes": 8},
        "name": "web1",
        "address": "127.72.5.11",
        "domain": "",
        "vcluster": "",
        "mac": MAC,
        "power": "on",
        "ready": None,
        "disk": {"sha256": DIGEST, "owner": "m01", "serial": "X", "booted": True},
        "hardware": None,
        "host_keys": [],
        "word": None,
        "site": "four",
        "key": "",
        **said,
    }


class FakeServer:
    """What the server has, and what it was asked; a test changes both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.views: dict[str, dict[str, Any]] = {}
        self.images: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.refused: dict[tuple[str, str], int] = {}
        """What is refused with a status, once; without one (0) the connection is cut."""
        self.polls: list[dict[str, Any]] = []
        """What the next long polls find of the machine that they ask for."""
        self.url = ""
        self.until = 0
        self.found: dict[str, dict[str, Any]] = {}
        """Machines that nobody knows, by their MAC."""
        self.on_poll: Callable[[], None] = lambda: None
        """What happens while a machine is asked for its goal."""

    def of(self, method: str) -> list[Any]:
        """Return the bodies of what was asked by a method."""
        return [body for it, _, body in self.asked if it == method]

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Return status and data."""
        path, _, query = path.partition("?")
        kind, _, name = path.removeprefix("/v1/").partition("/")
        said = json.loads(body) if body and kind != "images" else body
        self.asked.append((method, path, said))
        status = self.refused.pop((method, kind), None)
        if status is not None:
            error = {"message": f"{method} of {kind} is refused", "hint": "ask again"}
            return status, {"error": error}
        if kind == "images":
            return self._image(method, name, body)
        if kind == "discovery":
            return self._discovery(method, unquote(name), said)
        return self._machine(method, name, said, waits=query not in ("", "wait=0"))

    def _machine(self, method: str, path: str, said: Any, *, waits: bool) -> tuple[int, Any]:
        name, _, verb = path.partition("/")
        if not name:
            return 200, {"machines": [self.views[it] for it in sorted(self.views)]}
        if name not in self.views:
            unknown = {"error": {"message": f"there is no {name}", "hint": ""}}
            return (200, view(phase="new", power="unknown")) if verb == "look" else (404, unknown)
        if method == "PUT":
            self.views[name]["key"] = said["key"]
        if verb == "power" and said["action"] in ("scan", "off"):
            goal = {"scan": "trampoline"}.get(said["action"], "off")
            key = f"by hand {len(self.asked)}"
            self.views[name] |= {"goal": goal, "key": key, "over": False, "failure": ""}
        if waits:
            self.on_poll()
        if waits and self.polls:
            self.views[name] |= self.polls.pop(0)
        return 200, self.views[name]

    def _discovery(self, method: str, mac: str, said: Any) -> tuple[int, Any]:
        if method == "DELETE":
            self.found.pop(mac, None)
            return 204, None
        if method == "PUT":
            self.until = 1790000000 + said["seconds"] if said["seconds"] else 0
        return 200, {"until": self.until, "found": [self.found[it] for it in sorted(self.found)]}

    def _image(self, method: str, digest: str, body: bytes) -> tuple[int, Any]:
        if method == "PUT":
            if hashlib.sha256(body).hexdigest() != digest:
                return 422, {"error": {"message": "the image has another SHA-256", "hint": ""}}
            self.images[digest] = body
        if method == "DELETE":
            self.images.pop(digest, None)
            return 204, None
        if digest not in self.images:
            return 404, {"error": {"message": "there is no such image", "hint": ""}}
        return 200, {"sha256": digest, "bytes": len(self.images[digest])}


@contextmanager
def serving(folder: Path) -> Iterator[FakeServer]:
    """Run a server on a free port; its key is in the folder."""
    fake = FakeServer(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "key").write_text(KEY + "\n", encoding="ascii")

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            refusal = {"error": {"message": "that is not the key", "hint": ""}}
            is_known = self.headers["Authorization"] == f"Bearer {KEY}"
            answer = fake.answer(self.command, self.path, body) if is_known else (401, refusal)
            status, data = answer
            if not status:
                return
            text = b"" if data is None else json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - names of http.server

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


def machine_context(
    fake: FakeServer, wanted: Mapping[str, Any], *, limits: Mapping[str, float] = LIMITS
) -> CobContext:
    """Return what the methods of `machine` get for m01."""
    power = {"kind": "manual"}
    return CobContext(
        cob={"name": "machine", "spec": {"wanted": wanted}},
        host=Host(name="m01"),
        site_dir=fake.folder,
        key="four/3/17",
        shared={
            "server": {"url": fake.url, "folder": str(fake.folder)},
            "limits": limits,
            "machines": {"m01": {"mac": MAC, "power": power, "ready": {"tcp": 22}, "boots": 1}},
        },
    )


def image_context(
    fake: FakeServer,
    *,
    sha256: str = DIGEST,
    name: str = "image-web",
    applied: str = "",
    results: Mapping[str, Any] | None = None,
) -> CobContext:
    """Return what the methods of `machine-image` get."""
    place = {"url": fake.url, "folder": str(fake.folder)}
    return CobContext(
        cob={
            "name": name,
            "spec": {"file": "web.img", "sha256": sha256, **place},
            "applied": {"file": "web.img", "sha256": applied, **place} if applied else None,
            "results": results or {},
        },
        host=Host(name="boot-server"),
        site_dir=fake.folder,
    )
