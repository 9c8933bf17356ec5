"""Command channels: ways by which a command reaches hosts, which plugins bring.

They are at the extension point `command_channel`; docs/plugins/write-a-command-channel.md is for
who writes one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

POINT = "command_channel"

Sink = Callable[[bytes], None]
"""Takes a piece of what a command writes; a CobwebError that it raises ends the call."""


class Channel(Protocol):
    """An open way to `hosts` of one site, for as long as one `cobweb run` lasts."""

    hosts: Container[str]

    async def obstacle(self, host: str) -> str:
        """Return what keeps this channel from a host, as a sentence's end; "" for nothing.

        It may ask the host whether it is there. Then the channel of the next rank is tried.
        """

    async def call(
        self, host: str, command: str, *, stdin: Path | None, output: Sink, errors: Sink
    ) -> int:
        """Run a command of the host's `sh` in the home folder there, and return its exit code.

        `stdin` is a local file that it reads, else it reads nothing. It is called for a host
        without an obstacle. CobwebError, with the reason, where it is not known how the command
        ended. Who cancels the call wants the command ended, as far as the host can be reached.
        """


class ChannelKind(Protocol):
    """A class at the point; the open channel of the lowest rank without an obstacle has a host.

    `width` is how many hosts are called at once where nobody says it.
    """

    point: ClassVar[str]
    name: ClassVar[str]
    rank: ClassVar[int]
    width: ClassVar[int]

    def open(self, site: Any) -> AbstractAsyncContextManager[Channel | None]:
        """Open the channel to the hosts of a `cobweb.api.Site`; None where it has none of them.

        CobwebError where it cannot be opened: then the others are tried.
        """


def kinds_of(extensions: Mapping[str, type[Any]]) -> list[ChannelKind]:
    """Return the kinds of channels that plugins bring, the first one to be tried first."""
    return sorted((make() for make in extensions.values()), key=lambda it: (it.rank, it.name))
