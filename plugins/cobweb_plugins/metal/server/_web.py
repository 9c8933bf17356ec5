"""What the boot server answers over HTTP: to firmware and trampolines, and to coordinators.

Machines get text, and speak with the token of their boot. Coordinators get JSON, and speak with the
key of the server.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

import cobweb
from cobweb.errors import CobwebError
from cobweb_plugins.metal.server import _life as life
from cobweb_plugins.metal.server._discovery import PREFIX
from cobweb_plugins.metal.server._network import TRAMPOLINE
from cobweb_plugins.metal.server._records import (
    DISCARD,
    LIMITS_S,
    NONE,
    PRIMING,
    ZERO,
    Goal,
    Record,
    view_of,
)
from cobweb_plugins.metal.server._server import BootServer, RefusedError
from cobweb_plugins.metal.trampoline import FILES

_MOST_BYTES = 1 << 20
"""Of a request that is no image."""
_POLL_S = 20.0
_MOST_WAIT_S = 60.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}([.]{_LABEL}){{0,8}}")
_LONGEST_NAME = 253
"""What DNS can hold, with the domain."""
_STATUS = {"unknown": 404, "wrong": 400}
_LONGEST_TEXT = 500
_MOST_COUNT = 1 << 62
_BYTES = "application/octet-stream"
_CHUNK = 1 << 20
_LONGEST_WINDOW_S = 7 * 24 * 3600
_READY = {"tcp": 22}

# A script that ends without a boot has the firmware go on to the disk: only `DISK` may do that.
# Where it ends well, UEFI shows its menu instead.
_SCRIPTS: Mapping[str, str] = {
    life.TO_TRAMPOLINE: (
        "kernel {url}/trampoline/vmlinuz cobweb.server={url} cobweb.token={token}"
        " cobweb.mac={mac} no_timer_check panic=5 initrd=initrd.gz || goto again\n"
        "initrd {url}/trampoline/initrd.gz || goto again\n"
        "boot ||\n"
        ":again\n"
        "sleep 3 ||\n"
        "chain --replace {url}/boot?mac={mac} || goto again\n"
    ),
    life.DISK: (
        "# cobweb name={name} address={address}\n"
        "iseq ${{platform}} efi && exit 1 ||\n"
        "sanboot --no-describe --drive 0x80\n"
    ),
    # The iPXE of Debian 12 has no `poweroff`.
    life.HELD: "poweroff ||\n:held\necho cobweb: held ||\nsleep 60 ||\ngoto held\n",
}

_Handler = Callable[[Request], Awaitable[Response]]


def application(server: BootServer, key: str) -> Starlette:
    """Return the web application of a server; coordinators have its `key`."""
    machines, api = _Machines(server), _Api(server)

    def of_api(path: str, handler: _Handler, method: str = "GET") -> Route:
        return Route(path, _guarded(handler, key), methods=[method])

    return Starlette(
        routes=[
            Route("/boot", machines.boot),
            Route("/trampoline/hello", machines.hello, methods=["POST"]),
            Route("/trampoline/order", machines.order),
            Route("/trampoline/image", machines.image),
            Route("/trampoline/word", machines.word, methods=["POST"]),
            *(Route(f"/trampoline/{it}", machines.file) for it in FILES),
            of_api("/v1/server", api.server),
            of_api("/v1/machines", api.list),
            of_api("/v1/machines/{id}", api.show),
            of_api("/v1/machines/{id}", api.aim, "PUT"),
            of_api("/v1/machines/{id}/look", api.look, "POST"),
            of_api("/v1/machines/{id}/power", api.power, "POST"),
            of_api("/v1/discovery", api.discovery),
            of_api("/v1/discovery", api.discover, "PUT"),
            of_api("/v1/discovery/{mac}", api.forget, "DELETE"),
            of_api("/v1/images/{digest}", api.image),
            of_api("/v1/images/{digest}", api.store, "PUT"),
            of_api("/v1/images/{digest}", api.remove, "DELETE"),
        ]
    )


class _Machines:
    """What firmware and trampolines ask."""

    def __init__(self, server: BootServer) -> None:
        self._server = server

    async def boot(self, request: Request) -> Response:
        """Say what a machine boots."""
        if request.method == "HEAD":  # it would use up a boot
            return PlainTextResponse(status_code=405)
        mac, peer = request.query_params.get("mac", "").lower(), _peer(request)
        if not _MAC.fullmatch(mac):
            return _unknown()
        if found := self._server.boot(mac, peer):
            record, told = found
            token, runs = record.boot.token, record.runs or record.goal
        elif self._server.network is None:
            return _unknown()
        else:
            token, told = self._server.discovery.boot(mac, peer)
            runs = Goal(state="")
        values = {"url": self._server.url, "token": token, "mac": mac}
        text = _SCRIPTS[told].format(**values, name=runs.name, address=runs.address)
        return PlainTextResponse(f"#!ipxe\n{text}")

    async def file(self, request: Request) -> Response:
        """Hand out what the trampoline is made of: it has no secrets."""
        path = self._server.folder / TRAMPOLINE / request.url.path.rpartition("/")[2]
        if not path.exists():
            return PlainTextResponse("no such file\n", status_code=404)
        return FileResponse(path, media_type=_BYTES)

    async def hello(self, request: Request) -> Response:
        """Take what a trampoline has found of its machine."""
        try:
            if _token(request).startswith(PREFIX):
                return await self._unknown_hello(request)
            record = self._speaker(request)
            hardware = _hardware(await _body(request))
            peer = (record.boot.token, record.boot.peer)
            self._server.put(life.said_hello(record, hardware, peer, self._server.now()))
        except life.NotCurrentError:
            return _not_current()
        except RefusedError as error:
            return PlainTextResponse(f"{error.message}\n", status_code=400)
        return PlainTextResponse("ok\n")

    async def _unknown_hello(self, request: Request) -> Response:
        hardware = _hardware(await _body(request))
        # Never 403, which switches a machine off: this one may be somebody's, and goes on.
        if mac := self._server.discovery.spoken(_token(request), _peer(request)):
            self._server.found(mac, hardware)
        return PlainTextResponse("ok\n")

    async def order(self, request: Request) -> Response:
        """Return the next order; hold the request for a while where there is none."""
        try:
            if _token(request).startswith(PREFIX):
                return PlainTextResponse("boot\n")  # back to what it had to do
            record = self._speaker(request)
            if life.order(record) == ("wait",):
                await _news(self._server, record, _POLL_S)
                record = self._speaker(request)
            words = life.order(record)
            if words[0] == "prime":
                words = (*words[:3], await self._format(words[1], request), *words[3:])
        except life.NotCurrentError:
            return _not_current()
        return PlainTextResponse(" ".join(words) + "\n")

    async def _format(self, sha256: str, request: Request) -> str:
        """Return how the image is packed; it is looked at before any disk is touched."""
        try:
            image = await self._server.images.sound(sha256)
        except CobwebError as error:
            record = self._speaker(request)
            self._server.put(life.failed(record, error.message, self._server.now()))
            raise life.NotCurrentError from error
        self._speaker(request)
        return image.format

    async def image(self, request: Request) -> Response:
        """Hand the image to the machine that is primed with it, from `offset` on if it says one."""
        try:
            record = self._speaker(request)
        except life.NotCurrentError:
            return _not_current()
        if record.phase != PRIMING:
            return _not_current()
        path = self._server.images.path(record.goal.digest)
        offset = request.query_params.get("offset", "0")
        if offset == "0":
            return FileResponse(path, media_type=_BYTES)
        left = path.stat().st_size - int(offset) if offset.isdecimal() else 0
        if left < 0 or not offset.isdecimal():
            return PlainTextResponse("the image is not that long\n", status_code=416)
        # For clients that cannot ask for a range, such as the wget of busybox.
        length = {"Content-Length": str(left)}
        return StreamingResponse(_rest(path, int(offset)), headers=length, media_type=_BYTES)

    async def word(self, request: Request) -> Response:
        """Take what a trampoline says of priming."""
        word = request.query_params.get("word", "")
        try:
            record = self._speaker(request)
            text = (await _body(request)).decode(errors="replace")
            record = self._speaker(request)
        except life.NotCurrentError:
            return _not_current()
        except RefusedError as error:
            return PlainTextResponse(f"{error.message}\n", status_code=400)
        self._server.put(life.told(record, word, _text(text), self._server.now()))
        return PlainTextResponse("ok\n")

    def _speaker(self, request: Request) -> Record:
        return self._server.speaker(_token(request), _peer(request))


class _Api:
    """What coordinators ask."""

    def __init__(self, server: BootServer) -> None:
        self._server = server

    async def server(self, _request: Request) -> Response:
        """Return the version."""
        count = len(list(self._server.book))
        return JSONResponse({"version": cobweb.__version__, "machines": count})

    async def list(self, _request: Request) -> Response:
        """Return all machines."""
        return JSONResponse({"machines": [self._view(it) for it in self._server.book]})

    async def show(self, request: Request) -> Response:
        """Return a machine, with `wait` once its goal is over or the time has passed."""
        record = self._record(request)
        try:
            wait_s = min(float(request.query_params.get("wait", "0")), _MOST_WAIT_S)
        except ValueError as error:
            raise RefusedError("`wait` is a number of seconds", kind="wrong") from error
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_s
        while not record.over and (left_s := end - loop.time()) > 0:
            await _news(self._server, record, left_s)
            record = self._record(request)
        return JSONResponse(self._view(record))

    async def aim(self, request: Request) -> Response:
        """Send a machine to a goal."""
        data = await _json(request)
        try:
            goal = _goal(data)
            site, epoch, _ = data["key"].rsplit("/", 2)
            if not (site and int(epoch) >= 0 and isinstance(data["power"], dict)):
                raise ValueError("key")  # noqa: TRY301 - told below as the other faults
            data["mac"] = data["mac"].lower()
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RefusedError(f"the goal is wrong: {error!r}", kind="wrong") from error
        return JSONResponse(self._view(self._server.aim(_id(request), goal, data)))

    async def look(self, request: Request) -> Response:
        """Look at a machine, also at one that nobody has asked for before."""
        data, id_ = await _json(request), _id(request)
        record = self._server.book.get(id_)
        if record is None:
            mac, power = data.get("mac", ""), data.get("power", {})
            fresh = Record(id=id_, mac=mac, power=power, since=self._server.now())
            found = await self._server.switch.status(fresh)
            return JSONResponse({**self._view(fresh), "phase": "new", "power": found})
        record = replace(record, power=data.get("power") or record.power)
        port = int((data.get("ready") or _READY)["tcp"])
        record, found, ready = await self._server.look(record, port)
        return JSONResponse({**self._view(record), "power": found, "ready": ready})

    async def power(self, request: Request) -> Response:
        """Do with the power what a person asks for."""
        data = await _json(request)
        action, power = data.get("action"), data.get("power")
        if action not in ("off", "reset", "done", "scan") or not isinstance(power, dict | None):
            raise RefusedError("`action` is off, reset, done or scan", kind="wrong")
        return JSONResponse(self._view(self._server.by_hand(_id(request), action, power)))

    async def discovery(self, _request: Request) -> Response:
        """Return the machines that nobody knows, and until when more are looked for."""
        found = sorted(self._server.discovery.found.values(), key=lambda it: str(it["mac"]))
        return JSONResponse({"until": self._server.discovery.until, "found": found})

    async def discover(self, request: Request) -> Response:
        """Look for machines that nobody knows, for some seconds from now on."""
        seconds = (await _json(request)).get("seconds")
        if not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_WINDOW_S:
            raise RefusedError("machines are looked for at most 7 days", kind="wrong")
        self._server.discover(seconds)
        return await self.discovery(request)

    async def forget(self, request: Request) -> Response:
        """Forget a machine that was found."""
        self._server.discovery.forget(request.path_params["mac"].lower())
        return Response(status_code=204)

    async def image(self, request: Request) -> Response:
        """Return what is known of an image."""
        image = self._server.images.find(_digest(request))
        if image is None:
            raise RefusedError("there is no such image", kind="unknown")
        return JSONResponse(_plain(image))

    async def store(self, request: Request) -> Response:
        """Keep an image."""
        digest = _digest(request)
        try:
            return JSONResponse(_plain(await self._server.images.store(digest, request.stream())))
        except CobwebError as error:
            return _error(422, error.message, error.hint)
        except OSError as error:
            return _error(507, f"the image cannot be stored: {error.strerror}", "")

    async def remove(self, request: Request) -> Response:
        """Keep an image no longer."""
        digest = _digest(request)
        for record in self._server.book:
            if record.phase == PRIMING and record.goal.digest == digest:
                raise RefusedError(f"{record.id} is being primed with it")
        self._server.images.remove(digest)
        return Response(status_code=204)

    def _record(self, request: Request) -> Record:
        record = self._server.book.get(_id(request))
        if record is None:
            raise RefusedError("the boot server knows no such machine", kind="unknown")
        return record

    def _view(self, record: Record) -> dict[str, Any]:
        server = self._server
        return view_of(record, server.asks(record), server.hindrances.get(record.id, ""))


def _guarded(handler: _Handler, key: str) -> _Handler:
    """Return a handler for those who have the key, whose refusals are answers."""

    async def guarded(request: Request) -> Response:
        said = request.headers.get("authorization", "")
        if not secrets.compare_digest(said.encode(), f"Bearer {key}".encode()):
            return _error(401, "the boot server does not know this key", "it is in its folder")
        try:
            return await handler(request)
        except RefusedError as error:
            return _error(_STATUS.get(error.kind, 409), error.message, error.hint, error.kind)
        except ClientDisconnect:
            return Response(status_code=400)

    return guarded


def _error(status: int, message: str, hint: str = "", kind: str = "refused") -> Response:
    error = {"message": message, "hint": hint, "kind": kind}
    return JSONResponse({"error": error}, status_code=status)


def _not_current() -> Response:
    return PlainTextResponse("this boot is over: power off\n", status_code=403)


def _rest(path: Path, offset: int) -> Iterator[bytes]:
    """Yield a file from an offset on."""
    with path.open("rb") as file:
        file.seek(offset)
        yield from iter(lambda: file.read(_CHUNK), b"")


async def _news(server: BootServer, record: Record, most_s: float) -> None:
    """Wait until a machine changes, or some seconds."""
    news = server.news(record.id)
    try:
        await asyncio.wait_for(news.wait(), most_s)
    except TimeoutError:
        return


def _unknown() -> Response:
    return PlainTextResponse("no such machine\n", status_code=404)


def _token(request: Request) -> str:
    return request.query_params.get("token", "")


def _peer(request: Request) -> str:
    return request.client.host if request.client else ""


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise RefusedError(f"more than {_MOST_BYTES} bytes", kind="wrong")
    return body


async def _json(request: Request) -> dict[str, Any]:
    try:
        data = json.loads(await _body(request) or b"{}")
    except ValueError as error:
        raise RefusedError("the body is no JSON", kind="wrong") from error
    if not isinstance(data, dict):
        raise RefusedError("the body is no JSON object", kind="wrong")
    return data


def _id(request: Request) -> str:
    found = request.path_params["id"]
    if not _NAME.fullmatch(found):
        raise RefusedError("that is no name of a machine", kind="wrong")
    return str(found)


def _digest(request: Request) -> str:
    found = request.path_params["digest"]
    if not _DIGEST.fullmatch(found):
        raise RefusedError("an image has the name of its SHA-256", kind="wrong")
    return str(found)


def _plain(image: Any) -> dict[str, Any]:
    return {key: getattr(image, key) for key in ("sha256", "bytes", "format", "stored_bytes")}


def _goal(data: Mapping[str, Any]) -> Goal:
    """Return the goal that was sent; KeyError, TypeError or ValueError where it is none."""
    image, state = data.get("image"), data["goal"]
    limits = {key: float(data.get("limits", {}).get(key, it)) for key, it in LIMITS_S.items()}
    if state not in limits or min(limits.values()) <= 0:
        raise ValueError(state)
    if image is None:
        if state in ("primed", "active"):
            raise ValueError("image")
    elif not _DIGEST.fullmatch(image["sha256"]):
        raise ValueError("sha256")
    name, address = str(data.get("name", "")), str(data.get("address", ""))
    if name and not _NAME.fullmatch(name):
        raise ValueError(name)
    if address:
        ipaddress.IPv4Address(address)
    domain = str(data.get("domain", ""))
    if domain and not (_DOMAIN.fullmatch(domain) and len(f"{name}.{domain}") <= _LONGEST_NAME):
        raise ValueError(domain)
    wipe = data.get("wipe", DISCARD)
    if wipe not in (DISCARD, ZERO, NONE):
        raise ValueError(wipe)
    return Goal(
        state=state,
        image=image and {"sha256": image["sha256"], "bytes": int(image["bytes"])},
        name=name,
        address=address,
        owner=str(data.get("owner", "")),
        vcluster=str(data.get("vcluster", "")),
        domain=domain,
        wipe=wipe,
        port=int((data.get("ready") or _READY)["tcp"]),
        boots=int(data.get("boots", 1)),
        limits=limits,
    )


def _text(said: object) -> str:
    """Return a text of a machine as one line that can be shown, shortened."""
    kept = "".join(it if it.isprintable() else " " for it in str(said)[:_LONGEST_TEXT])
    return " ".join(kept.split())


def _hardware(body: bytes) -> dict[str, Any]:
    """Return what a trampoline has found; RefusedError where it makes no sense."""
    try:
        data = json.loads(body)
        disks = [
            {"name": it["name"], "bytes": int(it["bytes"]), "serial": _text(it["serial"])}
            for it in data["disks"]
        ]
        if not all(_NAME.fullmatch(it["name"]) for it in disks):
            raise ValueError("name")  # noqa: TRY301 - told below as the other faults
        found = {"cores": int(data["cores"]), "memory_mb": int(data["memory_mb"])}
        texts = {key: _text(data.get(key, "")) for key in ("firmware", "vendor", "product")}
        nics = [{key: _text(it[key]) for key in ("name", "mac")} for it in data.get("nics", ())]
        if max(found["cores"], found["memory_mb"], *(it["bytes"] for it in disks)) > _MOST_COUNT:
            raise ValueError("number")  # noqa: TRY301
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RefusedError(f"that is no hardware: {error!r}", kind="wrong") from error
    return {**found, **texts, "disks": disks, "nics": nics}
