"""Moves by hand: decisions, each carried out by an ordinary run under state locks.

A move is at most two decisions. The first lets the resource drain in the service that has it
(`leaving`); once that one says that it is idle there, the second gives it to the other service. Its
object there comes up only after the old one is down, which the engine sees to. So a move that was
killed anywhere goes on by the same command, and a run of `cobweb apply` does what is decided.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from cobweb.errors import ConflictError, UsageError
from cobweb.model import CobId, host_of, name_of
from cobweb.plugin import Tone
from cobweb_plugins.pools._answers import Answer, now_s
from cobweb_plugins.pools._desk import Desk
from cobweb_plugins.pools._holdings import SERVICES, Book, body_of
from cobweb_plugins.pools._section import NAME, member_name

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Holding, Resource

_LOOK_EVERY_S = 1.0
"""How much time is between two questions while a resource drains."""

_ATTEMPTS = 10
"""How often a move is begun where others decide of other resources at the same moment."""

FOR_EVER_S = 253402300799.0
"""The last second of the year 9999: until when one is held that is held until it is released."""


class End(IntEnum):
    """How a move has ended, as an exit code: pending is what drains."""

    DONE = 0
    FAILED = 1
    PENDING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """Moves resources of a site.

    `drain_s` is how long to wait for the jobs of a resource that is to leave, `wait` the text of
    how long to wait for a site that another run holds, `reason` what is written with decisions.
    `held_until_s` is until when no decider takes away what is moved, if that is so.
    """

    desk: Desk
    reason: str
    wait: str | None = None
    drain_s: float = 0.0
    held_until_s: float | None = None

    def move(self, id_: str, target: str | None, *, frees: bool = False) -> int:
        """Move a resource to a service, or (None) to nobody; return how that has ended.

        UsageError where it must not be moved, before anything is changed. With `frees` bounds and
        whether services take part do not count: the service that has it is being stopped.
        """
        until_s = now_s() + self.drain_s
        return self._anew(id_, lambda: self._move(id_, target, until_s, frees=frees))

    def _anew(self, key: str, act: Callable[[], int]) -> int:
        """Act, and again where others have decided meanwhile, but not of the same.

        ConflictError where they have, or go on deciding.
        """
        for attempt in range(_ATTEMPTS, 0, -1):
            try:
                return act()
            except ConflictError:
                seen = self.desk.decisions.by_key.get(key)
                self.desk.forget()
                if attempt == 1 or self.desk.decisions.by_key.get(key) != seen:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _move(self, id_: str, target: str | None, until_s: float, *, frees: bool) -> int:
        desk, resource = self.desk, self.desk.resource(id_)
        book = desk.book(id_)
        holding = book.holding
        self._refuse_left(id_, book)
        if holding is None or holding.service != target or holding.phase != "in":
            self._refuse(resource, book, target, frees=frees)
        if holding is None or desk.state(id_, holding.service, desk.access.states()) == "down":
            return self._join(resource, target)
        if holding.service == target:
            return self._join(resource, target)
        return self._leave(resource, holding, target, until_s)

    def _refuse(self, resource: Resource, book: Book, target: str | None, *, frees: bool) -> None:
        """Raise UsageError for a move that is against what is written or decided."""
        holding, id_ = book.holding, resource.id
        if resource.static:
            raise UsageError(f"{id_} is static: it is never moved")
        if book.lost or (holding and holding.phase == "failed"):
            hint = f"`cobweb pool reset {id_}`, when it is well again"
            said = "was given up" if book.lost else f"has failed in {holding and holding.service}"
            raise UsageError(f"{id_} {said}: {book.reason or 'nobody knows why'}", hint=hint)
        if not self._is_held(book):
            self._refuse_claimed(resource, {target, *book.was})
        self._refuse_goal(resource, holding, target, frees=frees)

    def _refuse_left(self, id_: str, book: Book) -> None:
        """Raise UsageError where the journal has a resource in a service that no decision names.

        So it is after a rollback, or where a service was dropped from the site.
        """
        desk, names = self.desk, {member_name(it, id_) for it in _left(book)}
        for other, its in desk.books().items():
            names |= {member_name(it, other) for it in _left(its)}
        for cob, state in desk.access.states().items():
            name = name_of(cob)
            is_of = name.startswith("pool-") and name.endswith(f"-{id_}")
            if is_of and name not in names and state != "down":
                message = f"{cob} is {state}, and {id_} is not decided to be in its service"
                raise UsageError(message, hint="`cobweb apply` takes it away; see `cobweb plan`")

    def _refuse_goal(
        self, resource: Resource, holding: Holding | None, target: str | None, *, frees: bool
    ) -> None:
        """Raise UsageError where a service must not lose a resource, or another one not get it."""
        desk, id_ = self.desk, resource.id
        for name in (holding and holding.service, target):
            if name and not frees and not desk.service(name).registered:
                hint = f"`cobweb pool start {name}`, or `registered` in the site"
                raise UsageError(f"the service `{name}` takes no part", hint=hint)
        if target and resource.type not in desk.service(target).holds:
            can = ", ".join(sorted(desk.service(target).holds)) or "nothing that there is"
            message = f"the service `{target}` cannot use {id_}, which is a {resource.type}"
            raise UsageError(message, hint=f"it can use: {can}")
        if not frees:
            self._refuse_bounds(id_, holding, target)

    def _refuse_bounds(self, id_: str, holding: Holding | None, target: str | None) -> None:
        """Raise UsageError where a service would be below its `min` or above its `max`."""
        desk = self.desk
        stays = target and holding and holding.service == target
        if holding and not stays and holding.phase == "in":
            left = len(self._at_work(holding.service)) - 1
            if left < desk.service(holding.service).min:
                message = f"without {id_} the service `{holding.service}` would have {left}"
                raise UsageError(message, hint=f"its `min` is {left + 1}")
        most = desk.service(target).max if target else None
        if target and most is not None:
            comes = [
                key for key, it in desk.books().items() if it.holding and it.holding.to == target
            ]
            there = len({*self._at_work(target), *comes, id_})
            if there > most:
                message = f"with {id_} the service `{target}` would have {there}"
                raise UsageError(message, hint=f"its `max` is {most}")

    def _at_work(self, service: str) -> list[str]:
        books = self.desk.books()
        return [it for it in self.desk.members(service) if books[it].holding.phase == "in"]  # type: ignore[union-attr]

    def _refuse_claimed(self, resource: Resource, known: Collection[str | None]) -> None:
        """Raise UsageError unless all services but the `known` say that they lack a resource."""
        desk = self.desk
        could = [
            name
            for name, it in desk.pools.services.items()
            if it.registered and not it.direct and resource.type in it.holds
        ]
        answers = desk.ask(could)
        has = [name for name, it in answers.items() if it.has(resource.id)]
        for name, answer in answers.items():
            if not answer.runs and name not in known:
                message = f"nobody knows whose {resource.id} is: `{name}` does not answer"
                raise UsageError(f"{message}: {answer.why}", hint=f"`cobweb pool stop {name}`")
        if others := [name for name in has if name not in known]:
            hint = f"`cobweb pool reset {resource.id} --to NAME`"
            if len(has) == 1:
                hint = f"`cobweb pool adopt {has[0]}`, or {hint}"
            raise UsageError(f"{resource.id} is in the service `{others[0]}` already", hint=hint)

    def _leave(
        self, resource: Resource, holding: Holding, target: str | None, until_s: float
    ) -> int:
        """Let a resource drain where it is, and give it on as soon as it is idle there."""
        desk, id_, service = self.desk, resource.id, holding.service
        if holding.phase != "leaving" or holding.to != target:
            self._decide(id_, service, "leaving", to=target)
        objects = desk.objects(id_, service)
        if desk.state(id_, service, desk.access.states()) != "draining":
            self._carry_out(id_, objects)
        if desk.state(id_, service, desk.access.states()) not in ("draining", "down"):
            return self._fail(f"{id_} does not drain in {service}", objects)
        while True:
            answer = desk.ask([service])[service]
            if self._is_overruled(id_, service, target):
                return End.FAILED
            if not answer.runs:
                desk.access.summary(
                    f"{service} cannot say if {id_} is idle: {answer.why}", Tone.BAD
                )
                return End.FAILED
            if _is_idle(answer, id_):
                return self._join(resource, target)
            if now_s() >= until_s:
                again = (
                    f"cobweb pool move {id_} {target}" if target else f"cobweb pool remove {id_}"
                )
                if not desk.service(service).registered:
                    again = f"cobweb pool stop {service} --free-resources"
                return self._tell_busy(id_, service, answer, again)
            time.sleep(_LOOK_EVERY_S)

    def _is_overruled(self, id_: str, service: str, target: str | None) -> bool:
        """Say, and tell, that others have decided otherwise while a resource drained.

        A controller that has seen first that it is idle has decided the same.
        """
        self.desk.forget()
        it = self.desk.book(id_).holding
        now = (it.service, str(it.phase), it.to) if it else (None, "in", None)
        if now in ((service, "leaving", target), (target, "in", None)):
            return False
        told = f"{id_} goes to {target or 'nobody'} no more: it was decided otherwise meanwhile"
        self.desk.access.summary(told, Tone.BAD)
        return True

    def _tell_busy(self, id_: str, service: str, answer: Answer, again: str) -> int:
        jobs = answer.observed.members[id_].jobs if answer.observed else 0
        self.desk.access.summary(
            f"{id_} drains: {jobs} at work there, and {service} gives it no new ones;"
            f" then `{again}` again, or now with --drain 1h",
            Tone.CAREFUL,
        )
        return End.PENDING

    def _join(self, resource: Resource, target: str | None, claims: Sequence[str] = ()) -> int:
        """Give a resource to a service, or to nobody; where it has been it is taken out first.

        `claims` are services that have it though that was not decided.
        """
        desk, id_ = self.desk, resource.id
        book = desk.book(id_)
        holding = book.holding
        settings = self._settings(book, target)
        is_in = holding is not None and (holding.service, holding.phase) == (target, "in")
        holds = self.held_until_s and not (holding and holding.held_until_s == self.held_until_s)
        if not is_in or holds or settings != book.settings:
            left = [] if is_in else _left(book)
            self._decide(id_, target, "in", was=[*left, *book.was, *claims], settings=settings)
        was = desk.book(id_).was
        old = [it for name in was for it in desk.objects(id_, name)]
        new = desk.objects(id_, target) if target else []
        self._carry_out(id_, [*old, *new])
        states = desk.access.states()
        if stays := [name for name in was if desk.state(id_, name, states) != "down"]:
            told = f"{id_} was not let go by {stays[0]}"
            return self._fail(told, desk.objects(id_, stays[0]))
        if new and states.get(new[0]) != "up":
            return self._fail_join(id_, str(target), new, was)
        self._let_go(id_)
        where = f"in {target}" if target else "nobody's"
        is_back = holding is not None and (holding.service, holding.phase) == (target, "leaving")
        back = f" again, and does not go to {holding.to or 'nobody'}" if holding and is_back else ""
        desk.access.summary(f"{id_} is {where}{back}", Tone.GOOD)
        return End.DONE

    def _settings(self, book: Book, target: str | None) -> Mapping[str, Mapping[str, Any]]:
        """Return by which settings a resource is where it was, and by which it joins a service.

        One that is in the service gets other ones only where these are for the same host.
        """
        if target is None or self.desk.service(target).direct:
            return book.settings
        holding, known = book.holding, book.settings.get(target)
        now = self.desk.layout.settings(target)
        if known is not None and holding is not None and holding.service == target:
            keeps = holding.phase == "leaving" or known.get("on") != now.get("on")
            return book.settings if keeps else {**book.settings, target: now}
        return {**book.settings, target: now}

    def _fail_join(
        self, id_: str, service: str, objects: Sequence[CobId], was: Sequence[str]
    ) -> int:
        """Note that a join has failed, and take back what was half done.

        One that only waits, for a host or for room of a limit, has not failed.
        """
        cause = self.desk.cause(objects)
        if not cause:
            return self._fail(f"{id_} waits to join {service}: `cobweb why {objects[0]}`", ())
        self._decide(id_, service, "failed", was=was, reason=cause)
        self._carry_out(id_, objects)
        told = f"{id_} has failed in {service}: {cause}"
        self.desk.access.summary(told, Tone.BAD)
        self.desk.access.summary(f"when it is well again: `cobweb pool reset {id_}`")
        return End.FAILED

    def _fail(self, told: str, objects: Sequence[CobId]) -> int:
        cause = self.desk.cause(objects)
        self.desk.access.summary(f"{told}: {cause}" if cause else told, Tone.BAD)
        return End.FAILED

    def reset(self, id_: str, target: str | None) -> int:
        """Let a resource take part again that has failed, was given up, or is claimed by two."""
        desk, resource = self.desk, self.desk.resource(id_)
        book = desk.book(id_)
        self._refuse_goal(resource, None, target, frees=False)
        if book.lost or (book.holding and book.holding.phase == "failed"):
            return self._anew(id_, lambda: self._join(resource, target))
        claims = [] if self._is_held(book) else self._claimants()[id_]
        if not claims or target is None:
            hint = "name the service that has it: --to NAME" if claims else ""
            what = f"{', '.join(claims)} claim it" if claims else "it has not failed"
            raise UsageError(f"{id_} is not reset: {what}", hint=hint)
        return self._anew(id_, lambda: self._join(resource, target, claims=claims))

    def _is_held(self, book: Book) -> bool:
        """Return whether a resource is in a service that is no spare pool."""
        return book.holding is not None and not self.desk.service(book.holding.service).direct

    def _claimants(self) -> Mapping[str, Sequence[str]]:
        """Return the services that say that they have a resource, by resource."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, answer in self.desk.ask(self.desk.pools.services).items():
            for id_ in answer.observed.members if answer.observed else ():
                found[id_].append(name)
        return found

    def adopt(self, service: str) -> int:
        """Take as decided what a service says that it has, of resources that no other one has."""
        desk = self.desk
        answer = desk.ask([desk.service(service).name])[service]
        if answer.observed is None or not answer.runs:
            raise UsageError(f"the service `{service}` does not answer: {answer.why}")
        claims = self._claimants()
        mine, others = [], []
        for id_ in sorted(desk.pools.resources.keys() & answer.observed.members):
            book = desk.book(id_)
            if not self._is_held(book) and not book.lost and claims[id_] == [service]:
                mine.append(id_)
            elif book.holding is None or book.holding.service != service:
                others.append(id_)
        for id_ in others:
            held = self._is_held(desk.book(id_)) or desk.book(id_).lost
            hint = f"why {id_}" if held else f"reset {id_} --to {service}"
            text = f"{id_} is not adopted, for it is not {service}'s alone: `cobweb pool {hint}`"
            desk.access.summary(text, Tone.BAD)
        since_s = now_s()
        if mine:
            writes = {
                id_: body_of(
                    service,
                    "in",
                    since_s=since_s,
                    was=_left(desk.book(id_)),
                    settings=self._settings(desk.book(id_), service),
                )
                for id_ in mine
            }
            desk.decide(writes, self.reason)
            for id_ in mine:
                self._carry_out(id_, desk.objects(id_, service))
            desk.access.summary(f"adopted by {service}: {', '.join(mine)}", Tone.GOOD)
        else:
            desk.access.summary(f"{service} has nothing that it could adopt")
        return End.FAILED if others else End.DONE

    def give_up(self, id_: str) -> int:
        """Give a resource up with its host: nothing of it is asked or waited for any more."""
        desk = self.desk
        book = desk.book(desk.resource(id_).id)
        was = _left(book)
        objects = [it for name in was for it in desk.objects(id_, name)]
        self._decide(id_, None, "failed", was=was, lost=True, reason=self.reason)
        known = desk.access.states()
        own = [it for it in objects if host_of(it) == id_ and it in known]
        waits = ("--wait", self.wait) if self.wait else ()
        if own:
            desk.quietly("forget", "--yes", *waits, *own)
        self._carry_out(id_, [it for it in objects if host_of(it) != id_])
        desk.access.summary(f"{id_} is given up; when it is back: `cobweb pool reset {id_}`")
        return End.DONE

    def stop(self, service: str, *, frees: bool) -> int:
        """Have a service take no part any more; with `frees` its members leave it first."""
        desk = self.desk
        name = desk.service(service).name
        self._decide_of(f"{SERVICES}{name}", {"stopped": True})
        desk.forget()
        ends = [End.DONE]
        for id_ in desk.members(name) if frees else ():
            resource, holding = desk.resource(id_), desk.book(id_).holding
            if holding and holding.phase == "failed":
                ends.append(End(self.reset(id_, None)))
            elif not resource.static:
                ends.append(End(self.move(id_, desk.spare(resource), frees=True)))
        stays = (
            "" if frees else f"; its members stay: --free-resources of `cobweb pool stop {name}`"
        )
        desk.access.summary(f"{name} takes no part{stays}", Tone.GOOD)
        return max(ends, key=[End.DONE, End.PENDING, End.FAILED].index)

    def release(self, id_: str) -> int:
        """Have a resource that is held be moved again by those who decide by need."""
        desk = self.desk
        holding = desk.book(desk.resource(id_).id).holding
        if holding is None or holding.held_until_s is None:
            desk.access.summary(f"{id_} is not held")
            return End.DONE
        body = {**desk.decisions.by_key[id_].body}
        del body["held_until"]
        self._decide_of(id_, body)
        desk.access.summary(f"{id_} is held no more", Tone.GOOD)
        return End.DONE

    def start(self, service: str) -> int:
        """Have a service take part again."""
        desk, key = self.desk, f"{SERVICES}{self.desk.service(service).name}"
        if key not in desk.decisions.by_key:
            desk.access.summary(f"{service} was not stopped")
            return End.DONE
        self._decide_of(key, None)
        desk.access.summary(f"{service} takes part again", Tone.GOOD)
        return End.DONE

    def _decide_of(self, key: str, body: Any) -> None:
        """Decide of one thing what holds whatever others have decided of others."""

        def decide() -> int:
            self.desk.decide({key: body}, self.reason)
            return End.DONE

        self._anew(key, decide)

    def _decide(self, id_: str, service: str | None, phase: str, **more: Any) -> None:
        book = self.desk.book(id_)
        more.setdefault("was", book.was)
        more.setdefault("settings", book.settings)
        if phase != "failed":
            more["held_until"] = self.held_until_s
        body = body_of(service, phase, since_s=now_s(), **more)
        self.desk.decide({id_: body}, self.reason)

    def _carry_out(self, id_: str, objects: Iterable[CobId]) -> None:
        """Have what is decided of a resource carried out."""
        self.desk.forget_left(id_)
        self.desk.bring_about(list(objects), self.wait, f"{NAME}: {self.reason}")

    def _let_go(self, id_: str) -> None:
        """Drop the objects of a resource in services that it has left.

        What is wanted down takes room of a limit for as long as it is there.
        """
        body = dict(self.desk.decisions.by_key[id_].body)
        if was := body.pop("was", None):
            known = body.pop("settings", {})
            if body["service"] in known:
                body["settings"] = {body["service"]: known[body["service"]]}
            self.desk.decide({id_: body}, f"{self.reason}; it has left {', '.join(was)}")
        self.desk.forget_left(id_)


def _left(book: Book) -> list[str]:
    """Return the services that a resource has left as soon as it leaves where it is."""
    return [*([book.holding.service] if book.holding else []), *book.was]


def _is_idle(answer: Answer, id_: str) -> bool:
    """Say whether a service that is running has nothing at work on a member, or has it no more."""
    seen = answer.observed.members.get(id_) if answer.observed else None
    return seen is None or seen.idle
