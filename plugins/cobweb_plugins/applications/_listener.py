"""How a controller hears the members of an application: each one for itself, for as long as it can.

Theory of operation. Each member is asked for words again and again, and waits with its answer until
it has something new. That goes on between one call of `hear` and the next, so who is silent, or has
nothing to say, holds up nobody else. While a run changes something nobody is asked, for the
controller waits for its end: `rest` ends all questions, and what is new then is heard afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from cobweb_plugins.applications._broadcast import Answer, Broadcast, Call, Limits
from cobweb_plugins.applications._nodes import ANSWER_S, Heard, Nodes, Said, said_of

if TYPE_CHECKING:
    from types import TracebackType

    from cobweb_plugins.applications._book import Book

_LONGEST_WAIT_S = 15
"""How long a member waits at most until it has something new."""

_AGAIN_S = (1.0, 15.0)
_FAILED_AGAIN_S = (5.0, 300.0)
"""After how long a silent member is asked again, at first and at last; and one that has failed."""

_QUIET_S, _LONGEST_CROWD_S = 0.3, 5.0
"""News come in crowds, which are heard at once: until it is quiet, and for so long at most."""

_MOST_WAITING = 300
"""How many nodes are asked at once to wait until they have something new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pause:
    """Until when a member is not asked again, and for how long then if it is silent still."""

    until_s: float
    next_s: float


class Listener:
    """Hears the nodes of an application while the context lasts; an interrupt is noted in them."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._runner = asyncio.Runner()
        self._stack: AsyncExitStack | None = None
        self._broadcast: Broadcast | None = None
        self._questions: dict[tuple[str, bool], asyncio.Task[None]] = {}
        self._news: asyncio.Queue[tuple[str, Said]] = asyncio.Queue()
        self._silent_s: dict[str, float] = {}
        self._pauses: dict[str, _Pause] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.rest()
        self._runner.close()

    def hear(self, book: Book, hosts: Collection[str], wait_s: float) -> Heard:
        """Return what is new at members of a book, once anything is; within `wait_s` seconds.

        Who is silent is told once, until the next `rest`.
        """
        return self._runner.run(self._hear(book, hosts, wait_s))

    def rest(self) -> None:
        """End all questions; what members say from now on is new, whatever they had said."""
        self._runner.run(self._rest())

    async def _hear(self, book: Book, hosts: Collection[str], wait_s: float) -> Heard:
        if self._stack is None or self._broadcast is None:
            self._broadcast = self._nodes.made_broadcast(
                Limits(timeout_s=ANSWER_S, fanout=_MOST_WAITING)
            )
            self._stack = AsyncExitStack()
            await self._stack.enter_async_context(self._broadcast.opened())
        wanted = {(host, host in book.failed): None for host in hosts}
        for key in self._questions.keys() - wanted.keys():
            self._questions.pop(key).cancel()
        for key in wanted.keys() - self._questions.keys():
            asking = self._ask(self._broadcast, book, key[0])
            self._questions[key] = asyncio.ensure_future(asking)
        collecting = asyncio.ensure_future(self._collected(wait_s))
        with self._broadcast.interruptible([collecting]), suppress(asyncio.CancelledError):
            await collecting
        self._nodes.was_interrupted |= self._broadcast.was_interrupted
        return Heard() if collecting.cancelled() else collecting.result()

    async def _collected(self, wait_s: float) -> Heard:
        """Return what has come by now, or does so soon."""
        loop, heard = asyncio.get_running_loop(), Heard()
        until_s = loop.time() + wait_s
        end_s = until_s + _LONGEST_CROWD_S
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout_at(until_s):
                    heard.take(*await self._news.get())
                until_s = min(end_s, loop.time() + _QUIET_S)
        return heard

    async def _ask(self, broadcast: Broadcast, book: Book, host: str) -> None:
        """Ask a member again and again, and tell what is new."""
        has_failed = host in book.failed
        first_s, last_s = _FAILED_AGAIN_S if has_failed else _AGAIN_S
        seen, wait_s, pause_s, is_silent = "", 0, first_s, False
        if has_failed and (before := self._pauses.get(host)):
            # No more is asked of it than that, however many runs there are meanwhile.
            pause_s, is_silent = before.next_s, True
            await asyncio.sleep(before.until_s - time.monotonic())
        while True:
            question = self._nodes.question(book, host, seen, wait_s)
            if not seen and not is_silent and self._silent_s.get(host, 0.0) >= ANSWER_S:
                self._news.put_nowait((host, f"no answer within {ANSWER_S:g} s"))
                is_silent = True
            said = said_of(await self._answer(broadcast, host, question), book.instance)
            if broadcast.was_interrupted:
                return
            if isinstance(said, str):
                self._silent_s[host] = ANSWER_S
                if not is_silent:
                    self._news.put_nowait((host, said))
                seen, wait_s, is_silent = "", 0, True
                until_s, next_s = time.monotonic() + pause_s, min(2 * pause_s, last_s)
                if has_failed:
                    self._pauses[host] = _Pause(until_s=until_s, next_s=next_s)
                await asyncio.sleep(pause_s)
                pause_s = next_s
                continue
            self._silent_s.pop(host, None)
            self._pauses.pop(host, None)
            mark, words = said
            if mark != seen:
                self._news.put_nowait((host, words))
            if has_failed and all(it.ended for it in words.values()):
                return  # it has nothing more to say
            seen, wait_s, pause_s, is_silent = mark, _LONGEST_WAIT_S, first_s, False

    async def _answer(self, broadcast: Broadcast, host: str, question: Call) -> Answer:
        """Return an answer; of a question that ends before, it counts how long there was none.

        Else nobody would learn of a silent member while others have one run begin after the other.
        """
        begun_s = time.monotonic()
        try:
            return await broadcast.ask(host, question)
        except asyncio.CancelledError:
            silent_s = max(0.0, time.monotonic() - begun_s - question.more_s)
            self._silent_s[host] = self._silent_s.get(host, 0.0) + silent_s
            raise

    async def _rest(self) -> None:
        tasks = list(self._questions.values())
        self._questions.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while not self._news.empty():
            self._news.get_nowait()
        if self._stack is not None:
            await self._stack.aclose()
        self._stack = self._broadcast = None
