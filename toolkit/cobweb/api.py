"""The one face of Cobweb: a site as an object, values in and values out.

    with Site(Path("mysite")) as site:
        plan = site.plan()
        result = site.apply(within=plan)
        for event in site.watch(result.run):
            ...

Nothing here prints, asks a question or ends the process. What goes wrong is a `CobwebError`. The
command line stands on this, and so do programs that embed Cobweb (docs/plugins/embed-cobweb.md).
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from cobweb import operations  # each name is loaded when it is first asked for
from cobweb._clock import wall_clock
from cobweb.errors import CobwebError, Finding, Place, SiteError, UsageError

if TYPE_CHECKING:
    from cobweb._cache import Cache
    from cobweb.model import Action, Decisions, Graph
    from cobweb.operations import (
        Caller,
        Desired,
        DriftResult,
        Garbage,
        Kernel,
        Observers,
        Orders,
        Plan,
        Questions,
        Retention,
        RunResult,
    )
    from cobweb.plugin import Answer, Plugins, Question, Transport
    from cobweb.site import Site as EvaluatedSite
    from cobweb.store import HeldLock, LockOwner, Patience, RunInfo, RunRecord, Store

__all__ = ["NO_END", "Site", "Turn", "link_sentence"]

NO_END = "no end (it was killed, or its state database was away)"
"""How a run ended that has written no end and does not go on: which of the two, nobody knows."""

K = TypeVar("K")

_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


class Site:
    """A site repository with its plugins and its state database; a context manager that closes it.

    Everything is loaded when it is first asked for, so that a caller pays for what it uses only.
    Errors are those of the packages asked: SiteError for a missing or invalid site, PluginError
    for a broken plugin where `strict_plugins` is set, StoreError for the state database.
    Files outside of the site's repository, and programs that tell its hosts, are refused where
    they are not allowed (`allow_outside`, `trust_inventory`). Without `path` the site is the
    nearest `site.yml` upwards. It is evaluated with what its state database says was decided, or
    with `decisions`: by section what was (of others nothing then), or at which revision the
    database knows it (others as they are now).
    """

    def __init__(  # noqa: PLR0913  # what a call may say of its site
        self,
        path: Path | None = None,
        *,
        strict_plugins: bool = False,
        no_cache: bool = False,
        allow_outside: bool = False,
        trust_inventory: bool = False,
        decisions: Mapping[str, Decisions | int] | None = None,
    ) -> None:
        self._wanted = path
        self._strict = strict_plugins
        self._no_cache = no_cache
        self.allow_outside = allow_outside
        self._trust_inventory = trust_inventory
        self._stores: dict[bool, Store] = {}
        self._decisions = decisions

    @cached_property
    def path(self) -> Path:
        """The site's folder or file: as given, or the nearest `site.yml` upwards."""
        from cobweb.site import find_site

        if self._wanted is None:
            try:
                here = Path.cwd()
            except OSError as error:
                message = f"the current folder cannot be read: {error.strerror}"
                raise CobwebError(message, hint="name the site with -C") from error
            return find_site(here)
        if not os.path.exists(self._wanted):  # noqa: PTH110 - nor a name that is too long
            place, hint = Place(file=str(self._wanted)), "make one with `cobweb init`"
            raise SiteError([Finding(place=place, message="there is no site here", hint=hint)])
        return self._wanted

    @cached_property
    def cache(self) -> Cache:
        """What was worked out before; keeps nothing where the user wants none."""
        from cobweb._cache import Cache, open_cache

        return Cache(None) if self._no_cache else open_cache(os.environ)

    @cached_property
    def plugins(self) -> Plugins:
        """All plugins that could be loaded, and what was left out."""
        from cobweb.plugin import load_plugins

        plugins = load_plugins(strict=self._strict)
        for failed in plugins.failed:
            _LOG.warning("plugin left out: %s", failed)
        _LOG.info("plugins: %s", ", ".join(plugin.name for plugin in plugins.loaded))
        return plugins

    @cached_property
    def evaluated(self) -> EvaluatedSite:
        """The evaluated site; SiteError with all findings where it is invalid."""
        from cobweb._distrust import distrusted
        from cobweb.site import load_site

        path, plugins = self.path, self.plugins
        adapters = plugins.adapters.values()
        readers = adapters if self._trust_inventory else map(distrusted, adapters)
        _LOG.info("site: %s", path)
        try:
            return load_site(
                path,
                types=plugins.types,
                adapters=tuple(readers),
                sections={name: section.schema for name, section in plugins.sections.items()},
                expanders=tuple(plugins.expanders.values()),
                extensions=tuple(plugins.extensions.values()),
                allow_outside=self.allow_outside,
                cache=self.cache,
                decisions=lambda: self.decided,
            )
        except SiteError as error:
            for plugin in plugins.failed:
                error.add_note(f"plugin {plugin.name} was left out, see `cobweb plugins`")
            raise

    @cached_property
    def decided(self) -> Mapping[str, Decisions]:
        """What all sections have that take decisions, as it was at one moment."""
        known = self._decisions
        if known is None:
            return self.history().decisions_of(dict.fromkeys(self.plugins.decision_schemas))
        given = {name: it for name, it in known.items() if not isinstance(it, int)}
        at = {name: it for name, it in known.items() if isinstance(it, int)}
        now = dict.fromkeys(self.plugins.decision_schemas) if at else {}
        made = self.history().decisions_of({**now, **at}) if at else {}
        for name, revision in at.items():
            if made[name].revision < revision > self.decisions(name).revision:
                raise UsageError(
                    f"{name} has no revision {revision}", hint="see `cobweb decisions`"
                )
        return {**made, **given}

    def refresh(self) -> bool:
        """Forget the evaluated site if files or decisions differ from what it was made from.

        Return whether they do. Under the site lock what is evaluated then is what is applied.
        """
        found = vars(self).get("evaluated")
        vars(self).pop("decided", None)
        if found is None or found.is_current(lambda: self.decided):
            return False
        del self.evaluated
        return True

    def decisions(self, section: str, at: int | None = None) -> Decisions:
        """Return what was decided in a section, at a revision of it (None: now)."""
        return self.history().decisions(section, at)

    def decide(  # noqa: PLR0913  # what, on which ground, by whom, why, and what goes with it
        self,
        section: str,
        expected: int,
        writes: Mapping[str, Any],
        author: str,
        reason: str,
        *,
        remembers: Mapping[str, Any] | None = None,
    ) -> int:
        """Decide: plain JSON data by key, None takes it back; return the section's revision.

        UsageError where the section does not take that; ConflictError where its revision is not the
        `expected` one any more. Whether the site is sound with it is for `check` to say. What
        `remembers` has is remembered with it, or not at all.
        """
        operations.check_decisions(self.plugins, section, writes, author, reason)
        store, what = self.history(create=True), (section, expected, writes, author, reason)
        made = store.decide(*what, remembers=remembers or {})
        for read_before in ("decided", "evaluated"):
            vars(self).pop(read_before, None)
        return made

    @property
    def state(self) -> str:
        """The URL of the state database, as the site says it; a path in it may be relative."""
        from cobweb.site import find_state

        return find_state(self.path, allow_outside=self.allow_outside)[0]

    def memory(self, section: str) -> Decisions:
        """Return what a plugin remembers in the name of a section: no part of the site."""
        return self.history().memory(section)

    def remember(
        self, section: str, expected: int, writes: Mapping[str, Any], author: str, reason: str
    ) -> int:
        """Remember, as `decide` decides: each key has only what was written last."""
        store = self.history(create=True)
        return store.decide(section, expected, writes, author, reason, is_memory=True)

    def lead(self, reason: str) -> HeldLock:
        """Lead those who keep this site as it should be: a context manager that ends it.

        Each write of this object checks that it still leads; runs are for child processes.
        LockedError where another leads.
        """
        lock = self.history(create=True).site_lock(clock=wall_clock, leads=True)
        return lock.acquire(_this_run(reason)[1])

    def graph(self, limit: str | None = None) -> Graph:
        """Return the COBs of the hosts that `limit` selects (None: all) and what they reach."""
        return self.evaluated.graph(limit)

    def store(self, *, create: bool = False) -> Store:
        """Open the state database, once; without `create` a missing one reads as empty."""
        return self._opened(lambda: (self.evaluated.state_url, self.evaluated.dir), create=create)

    def history(self, *, create: bool = False) -> Store:
        """Open the state database, once, whatever is wrong with the rest of the site.

        Neither plugins nor the inventory are asked; `create` is as for `store`.
        """
        from cobweb.site import find_state

        outside = self.allow_outside
        return self._opened(lambda: find_state(self.path, allow_outside=outside), create=create)

    def _opened(self, find: Callable[[], tuple[str, Path]], *, create: bool) -> Store:
        from cobweb.store import open_store

        create = create or True in self._stores
        if create not in self._stores:
            self._stores[create] = open_store(*find(), create=create)
        return self._stores[create]

    def desired(self, limit: str | None = None, *, generation: int | None = None) -> Desired:
        """Return what is wanted: what the files say (on the hosts of `limit`), or a generation's.

        Whether it can work is for `check` to say.
        """
        if generation is None:
            return operations.desired_of(self.evaluated, limit)
        return operations.desired_again(self.evaluated, self.plugins, self.store(), generation)

    def keep(self, content: str, files: Mapping[str, bytes]) -> int:
        """Store a generation of another database with its files, by SHA-256; return its number.

        `content` is the text of `desired().whole()` there.
        """
        from cobweb.store import Generation

        info, digest = _this_run("keep")[0], hashlib.sha256(content.encode()).hexdigest()
        made = Generation(
            digest=digest, author=info.user, time=info.started, message="", content=content
        )
        return self.store(create=True).save_generation(made, files).id

    def check(self, limit: str | None = None) -> None:
        """Raise SiteError with all that can be known to be wrong before anything runs."""
        trouble = operations.trouble_findings(self.graph(limit))
        if findings := [*self.evaluated.findings_of_files(), *trouble]:
            raise SiteError(findings)

    def _sound(self, limit: str | None = None) -> Desired:
        self.check(limit)
        return self.desired(limit)

    def plan(self, desired: Desired | None = None, **options: Any) -> Plan:
        """Return what an apply would do, predicted with the real engine; no host is asked.

        `options` are those of `cobweb.operations.plan_site`. UsageError for a limit or planner that
        there is not; a plan that would end stuck, or be refused, says so (`waits`, `refusals`).
        """
        return operations.plan_site(desired or self._sound(), self.plugins, self.store(), **options)

    @contextmanager
    def turn(
        self,
        command: str = "api",
        *,
        say: Callable[[str], None] = lambda _text: None,
        patience: Patience | None = None,
        store: Store | None = None,
    ) -> Iterator[Turn]:
        """Hold the lock of the site as a new run; `say` hears what was in the way.

        LockedError where another has it, after waiting as `patience` says (None: not at all).
        """
        store = store or self.store(create=True)
        while True:
            info, owner = _this_run(command)
            with store.site_lock(clock=wall_clock).acquire(owner, patience) as lock:
                for notice in lock.notices:
                    say(notice)
                if store.run(info.id) is not None:
                    continue  # two of one second may draw the same four digits
                yield Turn(site=self, lock=lock, info=replace(info, started=lock.owner.since))
            return

    def apply(
        self,
        desired: Desired | None = None,
        orders: Orders | None = None,
        *,
        within: Plan | None = None,
        caller: Caller | None = None,
    ) -> RunResult:
        """Bring about what is desired, as a run of its own; returns when that has ended.

        With `within` nothing goes out that this plan does not name. Raises as `Turn.apply`.
        """
        with self.turn("apply") as turn:
            orders = turn.orders(orders)
            if desired is None:
                self.refresh()
            if within is not None:
                orders = replace(orders, may_go_out=within.goes_out)
            return turn.apply(desired or self._sound(), orders, caller)

    @contextmanager
    def open(  # noqa: PLR0913  # whose part, among whom, and how they speak
        self,
        owner: str,
        *,
        lender: str,
        owners: Mapping[str, str],
        transport: str | Transport,
        address: str = "",
        generation: int = 0,
        mark: str = "",
        goal: str = "",
        desired: Desired | None = None,
        orders: Orders | None = None,
        caller: Caller | None = None,
    ) -> Iterator[Kernel]:
        """Hold a kernel open on the hosts of one owner, for as long as the caller likes.

        `owners` says who owns which host; the rest, and all limits, are those of `lender`. Each has
        a state database of its own, and calls `poll` again and again; `is_settled` says that its
        own part is where it should be. They find each other at the `address` of a transport of a
        plugin, and hear each other while they bring about the same site as the same `generation`
        (0: of any number), or as the same `goal`. `mark` is the id of the site on hosts ("": that
        of the database).
        UsageError where one of these cannot be, or something is to be removed.
        """
        if generation < 0 or len(mark) not in (0, 32) or mark.strip("0123456789abcdef"):
            hint = "generations are numbered from 1, and a mark is 32 digits (0-9, a-f)"
            raise UsageError(f"there is no generation {generation} of a site `{mark}`", hint=hint)
        over = self.plugins.transports.get(transport) if isinstance(transport, str) else transport
        if over is None:
            known = ", ".join(sorted(self.plugins.transports)) or "none"
            raise UsageError(f"there is no transport {transport}", hint=f"there is {known}")
        part = operations.Part(owner=owner, lender=lender, transport=over, owners=owners)
        part = replace(part, address=address, generation=generation, mark=mark, goal=goal)
        with (
            self.turn("open") as turn,
            operations.open_site(
                desired or self._sound(),
                self.plugins,
                self.store(),
                turn.orders(orders),
                turn.beating(caller),
                info=turn.info,
                part=part,
            ) as kernel,
        ):
            yield kernel

    def rollback(self, generation: int | None = None, orders: Orders | None = None) -> RunResult:
        """Make a generation desired again (default: the last one reached), and bring it about."""
        chosen = generation or operations.to_go_back_to(self.store())
        with self.turn("rollback") as turn:
            return turn.apply(self.desired(generation=chosen), turn.orders(orders))

    def drift(self, limit: str | None = None, orders: Orders | None = None) -> DriftResult:
        """Check everything that was applied, and change nothing on any host."""
        with self.turn("drift") as turn:
            return turn.drift(self._sound(limit), turn.orders(orders))

    @cached_property
    def _questions(self) -> Questions:
        return operations.Questions()

    def ask(
        self,
        hosts: Iterable[str],
        action: Action,
        timeout_s: float | None = None,
        spec: Mapping[str, Any] | None = None,
        *,
        executor: str = "ansible",
    ) -> dict[str, Answer]:
        """Ask hosts one question, as `ask_all`; return what each has answered."""
        from cobweb.plugin import Question

        asks = partial(Question, action=action, timeout_s=timeout_s, spec=spec or {})
        return self.ask_all({host: asks(host=host) for host in hosts}, executor)

    def ask_all(
        self, questions: Mapping[K, Question], executor: str = "ansible"
    ) -> dict[K, Answer]:
        """Ask hosts all questions at once; return the answers by the questions' keys.

        They change nothing, so no lock is taken and nothing is written: a run may be at work. What
        cannot be asked, or fails, is an answer. The executor stays open until the site is another
        one, or `close`; ExecutorError where it breaks.
        """
        results, orders = self.store().results(), operations.Orders(executor=executor)
        return self._questions.ask(questions, results, self.evaluated, self.plugins, orders)

    def gc(self, retention: Retention | None = None, *, dry_run: bool = False) -> Garbage:
        """Delete old generations and runs, and return them; with `dry_run` only return them.

        The site need not be sound.
        """
        if dry_run:
            kept = retention or operations.Retention()
            return operations.garbage_of(self.history(), kept, wall_clock())
        with self.turn("gc", store=self.history(create=True)) as turn:
            return turn.gc(retention)

    def simulate(
        self,
        desired: Desired | None = None,
        orders: Orders | None = None,
        *,
        caller: Caller | None = None,
        from_journal: bool = False,
    ) -> RunResult:
        """Run the site without hosts and without a journal: from nothing, or the change at hand."""
        desired, caller = desired or self._sound(), caller or operations.Caller()
        orders = orders or operations.Orders(executor="simulate")
        if from_journal:
            return operations.rehearse_site(desired, self.plugins, self.store(), orders, caller)
        return operations.simulate_site(desired, self.plugins, orders, caller)

    def observers(self, *chosen: tuple[str, str], unasked: bool = False) -> Observers:
        """Open observers of plugins by name, with an argument each: a sink of a `Caller`.

        Close them after the run. UsageError for a name that there is not, and for an argument that
        the observer refuses. With `unasked` those hear, too, that want to without being named.
        """
        observers = operations.Observers()
        try:
            if unasked:
                known, named = self.plugins.unasked_observers, dict(chosen)
                observers.open_unasked({it: known[it] for it in known.keys() - named.keys()})
            for name, argument in chosen:
                observers.open(self.plugins.observers, name, argument)
        except CobwebError:
            observers.close()
            raise
        return observers

    def run(self, run: str | None = None) -> RunRecord:
        """Return a run of the journal (default: the last one); UsageError where there is none."""
        return operations.run_of(self.history(), run)

    def run_facts(self, run: str | None = None) -> dict[str, Any]:
        """Return what the journal knows of a run besides its events, as plain JSON data.

        `unsettled` is as in schemas/result.schema.json; None before the run has ended.
        """
        store, record = self.history(), self.run(run)
        info, has_ended = record.info, record.ended is not None
        return {
            "run": info.id,
            "command": info.command,
            "user": info.user,
            "host": info.host,
            "started": info.started,
            "ended": record.ended,
            "goes_on": store.goes_on(record),
            "unsettled": list(record.waits) if has_ended else None,
            "journal": store.label,
        }

    def watch(
        self, run: str | None = None, *, after: int = 0, wait: Callable[[], bool] = lambda: False
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a run (default: the last one) beyond the number `after`.

        Events are those of schemas/events.schema.json, as the journal has them. Where there are no
        more and the run has not ended, `wait` is called: it returns when it is worth looking again,
        or False to end. UsageError where there is no such run.
        """
        store, record = self.history(), self.run(run)
        while True:
            for event in store.events(record.info.id, after=after):
                after = event["seq"]
                yield event
                if event["type"] == "run.end":
                    return
            if not wait():
                return

    def close(self) -> None:
        """Close what was opened; may be called again."""
        if (questions := vars(self).pop("_questions", None)) is not None:
            questions.close()
        while self._stores:
            self._stores.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The lock of a site, held: what can be done as one run."""

    site: Site
    lock: HeldLock
    info: RunInfo

    def orders(self, orders: Orders | None = None) -> Orders:
        """Return orders, or those that a caller means who says nothing."""
        return orders or operations.Orders()

    def apply(self, desired: Desired, orders: Orders, caller: Caller | None = None) -> RunResult:
        """Bring about what is desired; RefusedError and StuckError where it must not begin.

        StoreError, LockedError and ExecutorError end a run in the middle: what was in flight is
        checked by the next one.
        """
        it, store = self.site, self.site.store(create=True)
        sections = [] if orders.simulates else it.plugins.sections.values()
        known = (each.company(it, desired, orders) for each in sections if hasattr(each, "company"))
        company, caller = next(filter(None, known), None), self.beating(caller)
        return operations.apply_site(
            desired, it.plugins, store, orders, caller, info=self.info, company=company
        )

    def drift(self, desired: Desired, orders: Orders, caller: Caller | None = None) -> DriftResult:
        """Check everything that was applied; what has drifted is written to the journal."""
        it, store, caller = self.site, self.site.store(create=True), self.beating(caller)
        ignores = it.evaluated.ignores_drift
        return operations.drift_site(
            desired, it.plugins, store, orders, caller, info=self.info, ignores=ignores
        )

    def gc(self, retention: Retention | None = None) -> Garbage:
        """Delete old generations and runs that nothing needs, and return them."""
        store = self.site.history(create=True)
        return operations.collect_garbage(store, retention or operations.Retention(), wall_clock())

    def beating(self, caller: Caller | None) -> Caller:
        """Return who is told of the run, who keeps the lock alive as well."""
        return replace(caller or operations.Caller(), beat=self.lock.heartbeat)


def link_sentence(link: Mapping[str, Any]) -> str:
    """Return a link of a chain of reasons (as in `unsettled` of a result) as a sentence."""
    return operations.link_text(operations.link_of(link))


def _this_run(command: str) -> tuple[RunInfo, LockOwner]:
    """Return this process as a new run and as the owner of the site lock."""
    from cobweb.store import RunInfo, this_process

    now = wall_clock()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    run = f"{stamp}-{secrets.token_hex(2)}"
    owner = this_process(run=run, reason=command, since=now)
    info = RunInfo(
        id=run, command=command, started=now, user=owner.user, host=owner.host, pid=owner.pid
    )
    return info, owner
