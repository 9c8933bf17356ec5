"""The client of the boot server's API: what Cobweb asks and orders, as JSON over HTTP.

A server that does not answer is asked again until `patience_s` is over: it may be restarted while
a machine is on its way, and whatever is sent twice is done once. The key is read from the server's
folder each time, since it comes with the server's first start.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from cobweb.errors import CobwebError
from cobweb.plugin import JsonError, json_of

if TYPE_CHECKING:
    from http.client import HTTPConnection

LONG_POLL_S = 20
"""How long the server holds a question for the end of a goal, in seconds."""

_ANSWER_S = 90.0
"""How long an answer may take, a long poll among them; the server itself asks power meanwhile."""

_UPLOAD_S = 3600.0
"""How long the server may take to verify an image that it has got."""

_CONNECT_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0
_LONGEST = 16 << 20
"""How many bytes of an answer are read at most."""

View = Mapping[str, Any]
"""What the server says of a machine."""


class NoAnswerError(CobwebError):
    """There is no boot server, or none that answers."""


class AnswerError(CobwebError):
    """The boot server refuses; `status` is that of HTTP, `kind` the server's word for it."""

    def __init__(self, status: int, message: str, *, hint: str = "", kind: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.kind = kind


class Client:
    """The boot server at `url`, whose folder is on this machine.

    Every call raises AnswerError where the server refuses, NoAnswerError where it does not answer
    for `patience_s` or has never begun.
    """

    def __init__(self, url: str, folder: str, *, patience_s: float = 0.0) -> None:
        self._url = url
        self._folder = Path(folder)
        self._patience_s = patience_s

    def machines(self) -> list[View]:
        """Return all machines that the server knows."""
        found: list[View] = self._json("GET", "/v1/machines")["machines"]
        return found

    def machine(self, name: str, *, wait_s: int = 0) -> View | None:
        """Return what the server knows of a machine, at the end of its goal or after `wait_s`.

        None if it does not know it.
        """
        return self._found(f"/v1/machines/{quote(name)}?wait={wait_s}")

    def look(self, name: str, said: Mapping[str, Any]) -> View:
        """Have the server look how a machine is now; also at one that it does not know.

        `said` has its `mac`, `power`, and where it is to answer: `ready`.
        """
        return self._json("POST", f"/v1/machines/{quote(name)}/look", said)

    def order(self, name: str, goal: Mapping[str, Any]) -> View:
        """Give a machine a goal, or adopt the same one."""
        return self._json("PUT", f"/v1/machines/{quote(name)}", goal)

    def power(self, name: str, action: str, power: Mapping[str, Any] | None = None) -> View:
        """Have a machine switched by hand: `off`, `reset`; `done` says that a person has.

        `scan` has it on the trampoline. `power` has the settings that count from now on, None for
        those that it has.
        """
        said = {"action": action, "power": power}
        return self._json("POST", f"/v1/machines/{quote(name)}/power", said)

    def discovery(self) -> Mapping[str, Any]:
        """Return which unknown machines were `found`, and `until` when more are looked for."""
        return self._json("GET", "/v1/discovery")

    def discover(self, seconds: float) -> Mapping[str, Any]:
        """Have unknown machines looked at for so long from now on, 0 for no longer."""
        return self._json("PUT", "/v1/discovery", {"seconds": seconds})

    def forget(self, mac: str) -> None:
        """Have the server forget a machine that was found."""
        self._json("DELETE", f"/v1/discovery/{quote(mac)}")

    def image(self, sha256: str) -> Mapping[str, Any] | None:
        """Return what the server knows of an image; None if it does not have it."""
        return self._found(f"/v1/images/{sha256}")

    def store_image(self, sha256: str, file: Path) -> None:
        """Send an image, which the server keeps if it is what it should be; OSError of the file."""
        with file.open("rb") as stream:
            self._json("PUT", f"/v1/images/{sha256}", stream)

    def delete_image(self, sha256: str) -> None:
        """Take an image away, if it is there."""
        self._json("DELETE", f"/v1/images/{sha256}")

    def _found(self, path: str) -> Mapping[str, Any] | None:
        try:
            return self._json("GET", path)
        except AnswerError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    def _json(self, method: str, path: str, body: Any = None) -> Mapping[str, Any]:
        """Ask until there is an answer, and return it."""
        from http.client import HTTPException

        end, pause_s = time.monotonic() + self._patience_s, _FIRST_PAUSE_S
        while True:
            try:
                status, text = self._answer(method, path, body)
            except (OSError, HTTPException) as error:
                cause = str(error) or type(error).__name__
            else:
                if status != HTTPStatus.SERVICE_UNAVAILABLE:
                    return _checked(status, text, self._url)
                cause = "it is busy"
            if time.monotonic() >= end:
                hint = "see the object `boot-server`: `cobweb status`, or `cobweb apply`"
                message = f"the boot server at {self._url} does not answer: {cause}"
                raise NoAnswerError(message, hint=hint)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Ask once; OSError or HTTPException where the answer does not come."""
        from http.client import HTTPConnection

        headers = {"Authorization": f"Bearer {self._key()}", "Connection": "close"}
        is_stream = hasattr(body, "read")
        place = urlsplit(self._url)
        limit_s = _UPLOAD_S if is_stream else _ANSWER_S
        line = HTTPConnection(place.hostname or "", place.port, timeout=limit_s)
        try:
            if is_stream:
                _send(line, path, body, headers)
            else:
                text = None if body is None else json.dumps(body).encode()
                line.request(method, path, text, {**headers, "Content-Type": "application/json"})
            answer = line.getresponse()
            return answer.status, answer.read(_LONGEST)
        finally:
            line.close()

    def _is_there(self) -> bool:
        place = urlsplit(self._url)
        try:
            socket.create_connection((place.hostname, place.port or 80), _CONNECT_S).close()
        except OSError:
            return False
        return True

    def _key(self) -> str:
        file = self._folder / "key"
        try:
            return file.read_text(encoding="ascii").strip()
        except FileNotFoundError as error:
            if self._is_there():
                message = f"there is no {file}, and somebody listens at {self._url}"
                hint = (
                    "a boot server makes one as it starts: `cobweb restart boot-server/boot-server`"
                )
                raise CobwebError(message, hint=hint) from error
            message = f"there is no {file}: no boot server has begun there yet"
            hint = "`cobweb apply` starts it; in this version it is on the machine Cobweb runs on"
            raise NoAnswerError(message, hint=hint) from error
        except (OSError, UnicodeError) as error:
            hint = "run Cobweb as the user that the boot server runs as"
            raise CobwebError(f"{file} cannot be read: {error}", hint=hint) from error


def _send(line: HTTPConnection, path: str, stream: IO[bytes], headers: Mapping[str, str]) -> None:
    """Send a file; a server that refuses it early has answered by then."""
    size = stream.seek(0, 2)
    stream.seek(0)
    try:
        line.request("PUT", path, stream, {**headers, "Content-Length": str(size)})
    except (BrokenPipeError, ConnectionResetError):
        if line.sock is None:  # not even connected
            raise


def _checked(status: int, text: bytes, url: str) -> Mapping[str, Any]:
    """Return the answer, or raise what the server says of its refusal."""
    if status == HTTPStatus.NO_CONTENT:
        return {}
    try:
        found = json_of(text, url)
    except JsonError:
        found = None
    if not isinstance(found, dict):
        hint = "is it the boot server that listens there?"
        raise AnswerError(status, f"{url} answers with no JSON object ({status})", hint=hint)
    if status < HTTPStatus.BAD_REQUEST:
        return found
    error = found.get("error")
    said = error if isinstance(error, dict) else {}
    message = str(said.get("message") or f"the boot server refuses ({status})")
    hint, kind = str(said.get("hint") or ""), str(said.get("kind") or "")
    raise AnswerError(status, message, hint=hint, kind=kind)
