"""Where owners meet: addresses of the transport `nats`, and owners' names in subjects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from cobweb.errors import UsageError

_HINT = (
    "as in `nats://c1:4222,c2:4222/site?keys=/srv/site/.cobweb/agents`; `cobweb agents up` says it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The servers as `host:port`, the room in which owners hear each other, and their keys."""

    servers: tuple[str, ...]
    keys: Path
    room: str = "site"

    def __str__(self) -> str:
        place = f"nats://{','.join(self.servers)}/{quote(self.room, safe='')}"
        return f"{place}?{urlencode({'keys': self.keys}, safe='/')}"


def address_of(text: str) -> Address:
    """Return the address that a text says; UsageError for one that says none."""
    try:
        parts = urlsplit(text)
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=True)
        (keys,) = query.pop("keys")
        servers = tuple(_server(each) for each in parts.netloc.split(","))
    except (KeyError, ValueError) as error:
        raise UsageError(f"`{text}` is no address of NATS servers", hint=_HINT) from error
    room = unquote(parts.path.removeprefix("/")) or "site"
    is_whole = parts.scheme == "nats" and keys and not query and not parts.fragment
    if not is_whole or "/" in parts.path.removeprefix("/"):
        raise UsageError(f"`{text}` is no address of NATS servers", hint=_HINT)
    return Address(servers=servers, keys=Path(keys), room=room)


def _server(text: str) -> str:
    """Return `host:port` as it is written; ValueError for what is none."""
    found = urlsplit(f"//{text}")
    if not found.hostname or not found.port or found.username is not None:
        raise ValueError(text)
    return text


def token(name: str) -> str:
    """Return a name as one token of a subject: no two names have the same one."""
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E")


def name_of(token: str) -> str:
    """Return the name that a token stands for."""
    return unquote(token)


def subject(room: str, receiver: str, sender: str) -> str:
    """Return where a message goes; tokens, or `*` for all."""
    return f"cobweb.{room}.{receiver}.{sender}"
