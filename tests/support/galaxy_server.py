"""A Galaxy server on this machine: what ansible-galaxy asks for roles (v1) and collections (v3)."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["GalaxyServer", "archive", "collection", "galaxy_server"]


@dataclass(kw_only=True)
class GalaxyServer:
    """What is published: archives by name and version; `asked` are the paths that were got."""

    url: str = ""
    roles: dict[str, dict[str, bytes]] = field(default_factory=dict)
    collections: dict[str, dict[str, tuple[bytes, Mapping[str, str]]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def publish(self, name: str, version: str, **dependencies: str) -> None:
        """Publish a collection; `a__b="*"` is a dependency on a.b."""
        needs = {key.replace("__", "."): value for key, value in dependencies.items()}
        data = collection(name, version, needs)
        self.collections.setdefault(name, {})[version] = data, needs

    def answer(self, path: str, query: Mapping[str, list[str]]) -> bytes | None:
        """Return what is at a path, None where nothing is."""
        words = path.strip("/").split("/")
        match words[1:]:
            case [] if words == ["api"]:
                return _json({"available_versions": {"v1": "v1/", "v3": "v3/"}})
            case ["v1", "roles", *rest]:
                return self._role(rest, query)
            case ["v3", "collections", space, name, *rest]:
                return self._collection(f"{space}.{name}", rest)
            case ["files", name, version]:
                roles, collections = self.roles.get(name, {}), self.collections.get(name, {})
                return roles[version] if roles else collections[version][0]
            case _:
                return None

    def _role(self, rest: list[str], query: Mapping[str, list[str]]) -> bytes:
        if not rest:
            name = f"{query['owner__username'][0]}.{query['name'][0]}"
            return _json({"results": [{"id": name}] if name in self.roles else []})
        url = f"{self.url}/api/files/{rest[0]}"
        found = [{"name": it, "download_url": f"{url}/{it}"} for it in self.roles[rest[0]]]
        return _json({"results": found, "next_link": None})

    def _collection(self, name: str, rest: list[str]) -> bytes | None:
        known = self.collections.get(name)
        if known is None:
            return None
        if not rest:
            return _json({"created_at": "", "updated_at": str(len(known))})
        if len(rest) == 1:
            found = [{"version": it, "href": "/"} for it in known]
            return _json({"data": found, "meta": {"count": len(found)}, "links": {"next": None}})
        version = rest[1]
        data, needs = known[version]
        space, _, short = name.partition(".")
        return _json(
            {
                "version": version,
                "href": "/",
                "namespace": {"name": space},
                "collection": {"name": short},
                "download_url": f"{self.url}/api/files/{name}/{version}",
                "artifact": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)},
                "metadata": {"dependencies": needs},
            }
        )


@contextmanager
def galaxy_server() -> Iterator[GalaxyServer]:
    """Serve what is published until the end of the block, on a port of its own."""
    galaxy = GalaxyServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            galaxy.asked.append(url.path)
            data = galaxy.answer(url.path, parse_qs(url.query))
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_words: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        galaxy.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield galaxy
        finally:
            server.shutdown()
            thread.join()


def archive(files: Mapping[str, str]) -> bytes:
    """Return a tar.gz with these files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return stream.getvalue()


def collection(full_name: str, version: str, needs: Mapping[str, str]) -> bytes:
    """Return the archive of a collection that has nothing in it."""
    space, _, name = full_name.partition(".")
    listed = {"name": ".", "ftype": "dir", "chksum_type": None, "chksum_sha256": None, "format": 1}
    files = json.dumps({"files": [listed], "format": 1})
    info = {"namespace": space, "name": name, "version": version, "dependencies": needs}
    manifest = {
        "collection_info": {**info, "authors": [], "readme": "README.md"},
        "file_manifest_file": {
            "name": "FILES.json",
            "ftype": "file",
            "chksum_type": "sha256",
            "chksum_sha256": hashlib.sha256(files.encode()).hexdigest(),
            "format": 1,
        },
        "format": 1,
    }
    return archive({"MANIFEST.json": json.dumps(manifest), "FILES.json": files})


def _json(data: object) -> bytes:
    return json.dumps(data).encode()
