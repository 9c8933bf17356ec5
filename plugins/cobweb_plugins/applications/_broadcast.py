"""A broadcast: one command on many hosts at once, each answer on its own and within its time."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError
from cobweb_plugins.applications._channels import Channel, ChannelKind, Sink

KEPT = 2**19
"""How many bytes of each of its two outputs are kept of a host; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is asked of one host; see `Channel.call`. `output` takes what would be kept else.

    It may take `more_s` seconds more than the limits say.
    """

    command: str
    stdin: Path | None = None
    output: Sink | None = None
    more_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one host said: its exit code and both outputs; without a code, the `reason` why.

    `lost` is how many bytes of its outputs were not kept.
    """

    host: str
    code: int | None = None
    output: bytes = b""
    errors: bytes = b""
    lost: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds for one host (None: any number), and how many at once (None: as channels say)."""

    timeout_s: float | None = None
    fanout: int | None = None


@dataclass(slots=True)
class _Kept:
    """The beginning of an output."""

    data: bytearray = field(default_factory=bytearray)
    lost: int = 0

    def take(self, data: bytes) -> None:
        room = KEPT - len(self.data)
        self.data += data[:room]
        self.lost += max(0, len(data) - room)


class Broadcast:
    """Calls hosts of a site; `note` hears what is wrong with a channel, `hear` each answer.

    SIGINT or SIGTERM ends what is at work, and is noted in `was_interrupted`.
    """

    def __init__(
        self,
        site: Any,
        kinds: Sequence[ChannelKind],
        limits: Limits,
        *,
        note: Callable[[str], None],
        hear: Callable[[Answer], None],
    ) -> None:
        self._site, self._kinds, self._limits = site, kinds, limits
        self._note, self._hear = note, hear
        self._channels: list[tuple[Channel, asyncio.Semaphore]] = []
        self.was_interrupted = False

    def run(self, calls: Mapping[str, Call]) -> list[Answer]:
        """Return the answers of all hosts, in the order of `calls`."""
        return asyncio.run(self._run(calls))

    async def _run(self, calls: Mapping[str, Call]) -> list[Answer]:
        async with self.opened():
            tasks = [asyncio.ensure_future(self.ask(*it)) for it in calls.items()]
            with self.interruptible(tasks):
                try:
                    return await asyncio.gather(*tasks)
                except Exception:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                    raise

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Have the channels open for as long as the context lasts."""
        async with AsyncExitStack() as stack:
            self._channels = []
            for kind in self._kinds:
                try:
                    channel = await stack.enter_async_context(kind.open(self._site))
                except CobwebError as error:
                    self._note(f"{kind.name}: {error}")
                else:
                    if channel is not None:
                        room = asyncio.Semaphore(self._limits.fanout or kind.width)
                        self._channels.append((channel, room))
            yield

    @contextmanager
    def interruptible(self, tasks: Sequence[asyncio.Future[Any]]) -> Iterator[None]:
        """Have a signal end the tasks, for as long as the context lasts."""
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)

        def interrupt() -> None:
            if not self.was_interrupted:  # a second one would cut off how the first one ends all
                self.was_interrupted = True
                for task in tasks:
                    task.cancel()

        before = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            loop.add_signal_handler(number, interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    async def ask(self, host: str, call: Call) -> Answer:
        """Return the answer of a host by the first open channel that finds nothing in its way."""
        output, errors = _Kept(), _Kept()
        code, reason = None, ""
        try:
            code, reason = await self._called(host, call, call.output or output.take, errors.take)
        except asyncio.CancelledError:
            if not self.was_interrupted:
                raise
            reason = "interrupted"
        answer = Answer(
            host=host,
            code=code,
            output=bytes(output.data),
            errors=bytes(errors.data),
            lost=output.lost + errors.lost,
            reason=reason,
        )
        self._hear(answer)
        return answer

    async def _called(
        self, host: str, call: Call, output: Sink, errors: Sink
    ) -> tuple[int | None, str]:
        """Return the exit code of a call, or None and why there is none.

        The time of a host is running while it has a channel's room, and not while it waits for it.
        """
        loop, most_s = asyncio.get_running_loop(), self._limits.timeout_s
        left_s = None if most_s is None else most_s + call.more_s
        obstacles: list[str] = []
        for channel, room in self._channels:
            if host not in channel.hosts:
                continue
            async with room:
                begun_s = loop.time()
                try:
                    async with asyncio.timeout(left_s):
                        obstacles.append(await channel.obstacle(host))
                        if not obstacles[-1]:
                            return await channel.call(
                                *(host, call.command),
                                stdin=call.stdin,
                                output=output,
                                errors=errors,
                            ), ""
                except TimeoutError:
                    return None, f"no answer within {most_s:g} s"
                except CobwebError as error:
                    return None, "; ".join([*filter(None, obstacles), str(error)])
                if left_s is not None:
                    left_s -= loop.time() - begun_s
        return None, "; ".join(obstacles) or "no command channel reaches it"
