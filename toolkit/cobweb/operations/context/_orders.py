"""What every run stands in: its orders, who hears of it, an executor, its record in the journal."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from cobweb._clock import wall_clock
from cobweb._text import did_you_mean
from cobweb.errors import CobwebError, ExecutorError, LockedError, StoreError, UsageError
from cobweb.kernel._events import Sink
from cobweb.kernel._result import Ending
from cobweb.kernel._signals import Interrupts
from cobweb.model import CobId, State
from cobweb.operations.context._desired import Desired, Exceptions
from cobweb.operations.context._known_states import Refresh
from cobweb.plugin import Executor, ExecutorSetting, Plugins, SiteMark
from cobweb.site import Site
from cobweb.store import RunInfo, RunRecord, Store

T = TypeVar("T")

Where = Desired | Site
"""The hosts that an executor works on: what is desired of a site, or all of it."""

DEFAULT_PARALLEL = 10
DEFAULT_TIMEOUT_S = 600.0
HEARTBEAT_S = 10.0
_SIMULATOR = "simulate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How a site is to be applied or simulated.

    `timeout_s` bounds a check or transition that has no bound of its own; `max_failures` turns the
    number of objects into how many may fail before nothing new is started, `max_unreachable` that
    of hosts into how many may be unreachable; `options` go to the executor as they are. `message`
    is kept with the generation. `max_removals` turns the number of known objects into how many may
    be removed; `deletes`, whose removal was asked for by name, do not count. On the hosts of
    `adopt` marks of other sites are replaced. Only `may_go_out` may leave serving (None: all may).
    With `allow_stuck` the parts of a change that come to an end are carried out where others do
    not. With `returns` what is away only for something that could not be done comes home at the
    end. `trust_s` is how old a check may be that a departure under a limit relies on. `exceptions`
    are those from the site's limits. `store_timeout_s` is how long the run waits for a database
    that is away.
    """

    executor: str = "ansible"
    parallel: int = DEFAULT_PARALLEL
    timeout_s: float = DEFAULT_TIMEOUT_S
    refresh: Refresh = Refresh.CHANGED
    max_failures: Callable[[int], int] | None = None
    max_unreachable: Callable[[int], int] | None = None
    max_removals: Callable[[int], int] | None = None
    deletes: frozenset[CobId] = frozenset()
    seed: int = 0
    verbosity: int = 0
    message: str = ""
    adopt: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)
    may_go_out: frozenset[CobId] | None = None
    allow_stuck: bool = False
    returns: bool = True
    trust_s: float = 60.0
    store_timeout_s: float = 60.0
    exceptions: Exceptions = field(default_factory=Exceptions)

    @property
    def simulates(self) -> bool:
        """Whether there are no hosts."""
        return self.executor == _SIMULATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is told of a run while it goes on, and can stop it.

    `beat` is called at least every `HEARTBEAT_S` seconds; `say` gets sentences for people, `expect`
    the objects that stay with an earlier content until their host switches.
    """

    sinks: Sequence[Sink] = ()
    interrupts: Interrupts = field(default_factory=Interrupts)
    beat: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda _text: None
    expect: Callable[[Iterable[CobId]], None] = lambda _cobs: None


def keep_apart(store: Store, orders: Orders) -> None:
    """Raise UsageError where simulated states would be taken for real ones, or real for simulated.

    A journal belongs to real hosts or to a simulation, from its first run on.
    """
    last, said = store.last_run(), f" --executor {_SIMULATOR}"
    if last is None or last.info.command.endswith(said) == orders.simulates:
        return
    whose = "real hosts" if orders.simulates else "a simulation"
    raise UsageError(
        f"{store.label} holds the states of {whose}",
        hint="use a copy of the site, or another `state:`; `cobweb simulate` keeps no state",
    )


def command_of(info: RunInfo, orders: Orders) -> str:
    """Return a run's command as it is stored; it says where no real host was touched."""
    simulated = f" --executor {_SIMULATOR}" if orders.simulates else ""
    return f"{info.command}{orders.exceptions}{simulated}"


def end_of(
    info: RunInfo, ending: Ending, counts: Mapping[str, int], waits: Sequence[Any] = ()
) -> RunRecord:
    """Return the record of a run that has ended now."""
    return RunRecord(
        info=info,
        result=str(ending),
        exit_code=ending.exit_code,
        counts=counts,
        waits=waits,
        ended=wall_clock(),
    )


@contextmanager
def told_if_broken(store: Store, info: RunInfo) -> Iterator[None]:
    """Write down that a run ended by an error, where the journal can still be written."""
    try:
        yield
    except Exception as error:
        code = error.exit_code if isinstance(error, CobwebError) else Ending.FAILED.exit_code
        with suppress(StoreError, LockedError):
            store.end_run(replace(end_of(info, Ending.FAILED, {}), exit_code=code))
        raise


@contextmanager
def open_executor(
    plugins: Plugins,
    orders: Orders,
    where: Where,
    expected: Mapping[CobId, State] | None = None,
    mark: SiteMark | None = None,
) -> Iterator[tuple[Executor, ExecutorSetting]]:
    """Open an executor in a private folder, which is removed at the end.

    `expected` is the state in which each object most likely is: what a simulated check finds.
    `mark` is the site's in a run that may change hosts.
    """
    executor = plugin_of(plugins.executors, orders.executor, "there is no executor")()
    with private_folder() as work_dir:
        setting = ExecutorSetting(
            hosts=where.hosts,
            groups=where.groups,
            site_dir=where.dir,
            work_dir=work_dir,
            parallel=orders.parallel,
            timeout_s=orders.timeout_s,
            seed=orders.seed,
            verbosity=orders.verbosity,
            options={"defaults": expected or {}, **orders.options},
            mark=mark,
        )
        try:
            executor.open(setting)
            yield executor, setting
        finally:
            executor.close(kill=True)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder for a run's own files, which is removed at the end."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="cobweb-"))
    except OSError as error:
        message = f"cannot make a folder for temporary files: {error.strerror or error}"
        raise ExecutorError(message, hint="make room, or set TMPDIR") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def plugin_of(known: Mapping[str, T], name: str, lack: str) -> T:
    """Return what plugins have under a name; UsageError for one that there is not, with `lack`."""
    if name not in known:
        there_are = f"there are: {', '.join(sorted(known))}" if known else "no plugin has any"
        hint = did_you_mean(name, known, otherwise=there_are)
        raise UsageError(f"{lack} {name!r}", hint=hint)
    return known[name]
