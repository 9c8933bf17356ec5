"""One protocol per kind of plugin (design, section 8); `INTERFACE` is their version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from cobweb import model
from cobweb.errors import Finding, Place

INTERFACE = 1
"""The version of these protocols; a plugin module says `cobweb_interface = 1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMark:
    """By what a host knows which site manages it.

    `site` is an id that is made with the state database and stays; `name` is the site's name, `who`
    runs `run` as USER@HOST since `time` (seconds since the epoch): these are for people. On the
    hosts of `adopt` this mark takes the place of those of other sites. `epoch` grows from run to
    run of the site; a host that has seen a run does nothing any more for those before it.
    """

    site: str
    name: str
    run: str
    who: str
    time: float
    adopt: frozenset[str] = frozenset()
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSetting:
    """What an executor is told once, before its first job.

    `hosts` are the hosts that may get jobs and all others of the site, by name; `parallel` bounds
    jobs in flight; `timeout_s` is the default for one job; `work_dir` is private to the run and
    exists; `roles_path` are folders with roles; `options` are free (the simulator's `--fail`, ...).
    `groups` are the hosts of each group, those below it among them, in the inventory's order.
    `mark` is the site's mark in a run that may change hosts.
    """

    hosts: Mapping[str, model.Host]
    site_dir: Path
    work_dir: Path
    parallel: int
    timeout_s: float
    seed: int = 0
    verbosity: int = 0
    roles_path: tuple[Path, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    mark: SiteMark | None = None
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def trees(self) -> Path:
        """Where a transition finds the archive of its file tree: `DIGEST.tar.gz`.

        DIGEST is `spec.tree.digest`. The runtime writes it before it submits the job; tasks know
        this folder as the variable `cobweb_trees`.
        """
        return self.work_dir / "trees"


class Registered(Protocol):
    """What a plugin registers of any kind but commands: a class that is known by its `name`."""

    name: ClassVar[str]


@runtime_checkable
class Executor(Registered, Protocol):
    """Carries out checks and transitions on hosts, many at once, and reports each as it ends.

    All methods are called from one thread. The caller never has more than `parallel` jobs
    submitted and not reported, but for those that go together, which it submits between two calls
    of `wait`; two jobs of one host may be in flight at the same time. `actions` are the kinds that
    it carries out itself; the runtime sees to the others (a `PythonAction` in a worker thread,
    `Nothing` at once).
    """

    actions: ClassVar[frozenset[type[model.Action]]]

    def open(self, setting: ExecutorSetting) -> None:
        """Get ready; ExecutorError where no job could ever run. Cheap: start work lazily."""

    def submit(self, job: model.Job) -> None:
        """Take a job; never blocks. Whatever goes wrong with it becomes its report."""

    def wait(self, timeout_s: float | None) -> Sequence[model.Report]:
        """Return the reports that came since the last call; block until one, or the time is over.

        Exactly one report per job. None waits for as long as a job is in flight.
        """

    def wake(self) -> None:
        """End a `wait` of the other thread or signal handler early; the one method safe there."""

    def now(self) -> float:
        """Return seconds since the epoch, by the clock that this executor lives in."""

    def close(self, *, kill: bool = False) -> None:
        """End all that was started, no process left behind; `kill` stops running jobs first."""


@runtime_checkable
class MarkingExecutor(Executor, Protocol):
    """An executor that leaves the site's mark on the hosts that it really changes.

    Before the first transition of a run on a host it looks there for marks of other sites, and
    leaves `ExecutorSetting.mark`, in one step. Where it finds another site's mark, no transition
    begins on this host: its report has failed and says whose mark it is. Checks ask nothing and
    leave nothing.
    """

    def unmark(self, hosts: Iterable[str]) -> Mapping[str, str]:
        """Take the site's mark off hosts; blocks, and returns what hindered that, by host."""


@runtime_checkable
class EndingExecutor(Executor, Protocol):
    """An executor that can end what it has lost sight of: jobs that may go on where nobody looks.

    So does what a stopped coordinator has left on a host, or one that the host lost in the middle
    of a job. The report of a transition of which that may be so is `at_work`.
    """

    def end_work(self, job: model.Job, jobs: Sequence[int]) -> None:
        """Take a job that ends what is at work on its host, and never blocks, as `submit`.

        That are this run's jobs of the numbers `jobs`, and all of the runs of this site before it.
        After it none of them does, or begins, anything there. The report is as that of any job; the
        action of `job` is not carried out.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class CobContext:
    """What a Python type's check or transition gets: the job's `cob` variable and its host.

    `providers` are the node providers of all plugins, by name. `shared` is what the type shares
    among its objects, in the generation that the object is moved under. `key` names this attempt,
    of all runs of the site: what is ordered elsewhere carries it, so that it is ordered once
    however often it is sent, and a check finds it after a run that was killed. "" where no run has
    a mark.
    """

    cob: Mapping[str, Any]
    host: model.Host
    site_dir: Path
    key: str = ""
    providers: Mapping[str, NodeProvider] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a check of a Python type found, where a state alone does not say it.

    `message` says in one line what is not as it should be, `results` are kept as those of a job.
    """

    state: model.State
    message: str = ""
    results: Mapping[str, Any] = field(default_factory=dict)


class RegisteredType(Registered, Protocol):
    """A COB type of a plugin: made of Ansible tasks, or of Python (then it is a `PythonType`)."""

    def cob_type(self) -> model.CobType:
        """Return states, matrix and schema of the type; its name is `name`."""


@runtime_checkable
class PythonType(RegisteredType, Protocol):
    """A COB type written in Python; its methods run in the coordinator, in a worker thread.

    `cob_type()` gives the matrix, whose actions are `PythonAction(type_name=name, method=...)`. A
    method `check(context)` returns a state or `Found`; a transition's method returns None, or a
    mapping of results that are kept for its host (see `Report.results`); both raise to fail.
    """

    def check(self, context: CobContext) -> model.State | Found:
        """Find the true state and change nothing."""


@runtime_checkable
class Solver(Registered, Protocol):
    """From a cluster template and constraints to a cluster layout.

    `template` has `services` (those requested), `hardwaretypes` and `imagetypes` (allowed on new
    nodes), `size` {min, max}, `mustcoexist`, `cantcoexist` and `conflicts` (lists of lists of
    services) and `rules`: service -> {hardwaretypes, imagetypes, min, max, ratio, step}, all of it
    optional. `constraints` has `nodes`, how many there are to be, `hardwaretype` and `imagetype` of
    new nodes (None: any that is allowed), and `existing`, the nodes that are there: {count,
    hardwaretype, imagetype, services, may_gain, may_lose}.

    If there are more nodes than exist, all of those stay and the rest is new; if there are fewer,
    as many go as are too many, and none is new. An existing node keeps its hardware and image, and
    its services but for those it may lose and gain. docs/solvers.md says what each word means.
    """

    def solve(
        self, template: Mapping[str, Any], constraints: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return a layout; NoLayoutError if it is proven that there is none.

        A layout is `{"nodes": [{"count", "hardwaretype", "imagetype", "services", "existing"}]}`.
        `count` (1) nodes are alike; `services` are sorted. `existing` is the index of the entry of
        the constraints that the nodes are; new nodes lack it. Existing nodes come first, in the
        order of their entries. An entry may have several parts: its first nodes are the first part,
        and so on; nodes of it that no part has, its last ones, go. New nodes follow, the most
        preferred first.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """One predicted transition: when it starts and ends (seconds from the start of the run).

    `waits_for` are the ids whose transitions it had to wait for, the last to end first.
    """

    cob: model.CobId
    source: model.State
    dest: model.State
    start_s: float
    end_s: float
    waits_for: tuple[model.CobId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """An order that people can read: steps by stage, and the critical path through them."""

    stages: tuple[tuple[PlannedStep, ...], ...]
    critical_path: tuple[PlannedStep, ...]


@runtime_checkable
class Planner(Registered, Protocol):
    """From the graph and predicted steps to an order for people, and a dispatch policy."""

    def stages(self, graph: model.Graph, steps: Sequence[PlannedStep]) -> Stages:
        """Group the predicted steps into stages and find the critical path."""

    def priorities(self, graph: model.Graph) -> Mapping[model.CobId, float]:
        """Return a weight per object; among jobs that may start, the heaviest goes first."""


@runtime_checkable
class TaskPlanner(Registered, Protocol):
    """From tasks of nodes to when each is done; registered as a planner, and may be both."""

    def schedule(self, tasks: model.TaskGraph, workers: int | None = None) -> model.Schedule:
        """Say when each task starts and ends, and in which stage; no node does two at once.

        No more than `workers` tasks (at least 1) are done at once, None: as many as wanted. The
        same tasks get the same schedule.
        """


@runtime_checkable
class Generator(Registered, Protocol):
    """An adapter that makes the files of a site from a small data model (COB paper, section 6).

    `schema` is the JSON Schema (draft 2020-12) of the model; Cobweb has checked it before it calls.
    """

    schema: ClassVar[Mapping[str, Any]]

    def generate(self, model: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Return files as plain data, by name (`objects.yml`, a module; `hosts.yml`, an inventory).

        The same model gives the same files. ModelError where it says what cannot be.
        """


class Section(Registered, Protocol):
    """A further top-level key of `site.yml`: `name`, and the JSON Schema of what stands there.

    Its class may have, of the class itself, `notes(access)`, lines that `validate`, `plan`, `apply`
    tell first, by a `SiteAccess`; `reasons(access, cob)`, lines that `why` adds of an object; and
    `show(sections, plugins)`, plain data without secrets (or ModelError) for `cobweb show NAME`.
    With a JSON Schema `decision_schema` it takes decisions.
    With `company(site, desired, orders)` (of `cobweb.api` and `cobweb.operations`) it says with
    whom an apply shares the site: a `cobweb.operations.Company`, None for nobody.
    """

    schema: ClassVar[Mapping[str, Any]]


class ExpandContext(Protocol):
    """What an expanding section may know besides the sections."""

    @property
    def site_dir(self) -> Path:
        """The folder of the site, absolute."""

    @property
    def decisions(self) -> Mapping[str, model.Decision]:
        """What was decided in this section, by key; nothing where it takes no decisions.

        A value that follows from one stands in the expansion as `Decided`, so that it is explained.
        """

    def read(self, name: str) -> str | None:
        """Return the text of a file of the site; None if there is none. Read nothing otherwise."""

    def extensions_at(self, point: str) -> Mapping[str, type[Extension]]:
        """Return by name what plugins add at a point of this section's plugin."""


class Expander(Section, Protocol):
    """A section of a site that stands for hosts and objects (`cobweb_register_sections`).

    One instance is made without arguments. A section without `expand` is data that commands read.
    `source` is the folder of its code, which Cobweb finds.
    """

    source: Path

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> model.Expansion:
        """Return what the section stands for; asked only where the site has this section.

        `sections` has the data of all sections that the site has, by name, checked against their
        schemas. Nothing else counts but `context`: no clock, no network, no other files.
        ModelError where no site can be made from them; its paths begin with a section's name.
        """


@runtime_checkable
class Observer(Registered, Protocol):
    """Gets the events of a run as they come: for metrics, messages, reports.

    One instance is made without arguments for each call of a command that names it. `open` comes
    first, before anything has begun; `take` and `close` come from a thread of its own. No run waits
    for an observer for long: what raises, or is too slow, is left out, and the run goes on.
    """

    def open(self, argument: str) -> None:
        """Get ready; `argument` is what follows in `--observe NAME=ARGUMENT`, "" if nothing does.

        UsageError or CobwebError for an argument that cannot be: the command ends, nothing begins.
        """

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event, one of schemas/events.schema.json; it is the observer's own.

        Each run begins with one of the type `version`. A command may have several runs.
        """

    def close(self, result: Mapping[str, Any] | None) -> None:
        """Come to an end; `result` is what `-o json` of the command says of the run.

        It is None where there was no run, or an error ended it.
        """


@runtime_checkable
class UnaskedObserver(Observer, Protocol):
    """An observer that may want to hear of runs that change or check hosts without being named."""

    def unasked(self) -> bool:
        """Say so, by the environment; where it does, `open` follows with no argument."""


@runtime_checkable
class Adapter(Registered, Protocol):
    """Connects an inventory source; `Generator` and `NodeProvider` are adapters of other kinds."""

    def reads(self, source: Path) -> bool:
        """Say whether this adapter is the one for an inventory source."""

    def hosts(self, source: Path) -> Iterable[model.Host]:
        """Read the hosts of an inventory source; CobwebError where it cannot be read."""


@runtime_checkable
class JoiningAdapter(Adapter, Protocol):
    """An adapter whose sources may speak of groups and hosts of those before them."""

    def hosts_after(self, source: Path, before: Sequence[Path]) -> Iterable[model.Host]:
        """Read a source as `hosts` does, after the files `before` of the same inventory.

        Hosts of these may come again, in more groups; a variable comes only with a new value.
        """


@runtime_checkable
class OrderedAdapter(Adapter, Protocol):
    """An adapter that knows the order of the hosts in a group, and groups without hosts."""

    def groups(self, source: Path, before: Sequence[Path]) -> Mapping[str, Sequence[str]]:
        """Return the hosts of each group, those below it among them, after all these sources.

        It is asked once the hosts of `source` were read.
        """


@runtime_checkable
class UnvaultingAdapter(Adapter, Protocol):
    """An adapter that opens files of variables that are vaulted as a whole."""

    def unvaulted(self, path: Path, site_dir: Path) -> Mapping[str, Any]:
        """Return what is in a file, each text and number vaulted again for itself.

        That is `{"__ansible_vault": CIPHER TEXT}`, the same one as long as the value is the same.
        In the clear are keys, true, false and null, and nothing else. CobwebError where it cannot
        be opened, which shows nothing of it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionUse:
    """Where a site names an action: its `what` (`check`, `down -> up`) of a type that is in use.

    The type `spans_hosts` if one of its objects is on more than one host.
    """

    type_name: str
    what: str
    action: model.Action
    place: Place
    spans_hosts: bool = False


class SiteFiles(Protocol):
    """The files that a site may read; what is asked of the disk, and what it says, is noted.

    What is not for the site is as if it was not there, and reading it raises OSError.
    """

    @property
    def site_dir(self) -> Path:
        """The folder of the site, absolute."""

    def kind(self, path: Path) -> str:
        """Return "file" or "dir", links followed, and "" where there is neither."""

    def data(self, path: Path, most_bytes: int | None = None) -> bytes:
        """Return the bytes of a file; OSError where it cannot be read, or has more of them."""

    def members(self, folder: Path) -> Sequence[tuple[Path, bool, bool, bool]]:
        """Return what is in a folder: its path; whether it is a folder, a file, and a link."""

    def absent(self, what: str, *paths: Path, otherwise: str) -> tuple[str, str]:
        """Return message and hint for a name in the site, none of whose `paths` can be used."""

    def installed(self, folder: Path) -> SiteFiles:
        """Return the files below a folder that no site names, wherever it is; noted as well."""


@runtime_checkable
class ActionAdapter(Adapter, Protocol):
    """An adapter that knows what the task files and roles of actions mean."""

    def look_at(
        self, uses: Sequence[ActionUse], files: SiteFiles
    ) -> tuple[Sequence[Finding], Sequence[Finding]]:
        """Return what is wrong, and what is worth a word; reads by `files` alone, runs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """A node that a provider is asked about; the same one each time that it is asked.

    `node` is the name of its host, and `owner` the site that it is for: by these two a machine is
    found again. `number` counts the nodes of `cluster` from 1. `fields` are those of the provider
    in the catalog, secrets in the clear; `hardware` and `image` have what the catalog says of the
    types (`name`, `cores`, `memory_mb`, `user`, ...) and this provider's own words for them
    (`flavor`, `image`, ...). A call should end within `timeout_s`.
    """

    node: str
    owner: str
    cluster: str
    number: int
    tenant: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    site_dir: Path = Path()
    timeout_s: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that a provider has; `id` is never used again for another one.

    `addresses` go by `access_v4` (where the coordinator reaches it) and `bind_v4` (where its
    neighbours do); `connection` are Ansible's variables for it (`ansible_host`, `ansible_user`,
    ...), without secrets, for they are kept as they are. `ready` says that it answers.
    """

    id: str
    addresses: Mapping[str, str] = field(default_factory=dict)
    connection: Mapping[str, Any] = field(default_factory=dict)
    ready: bool = False


@runtime_checkable
class NodeProvider(Registered, Protocol):
    """An adapter that makes machines and takes them away, each known by its node's name.

    `fields` is the JSON Schema (draft 2020-12) of `catalog.providers.NAME.fields`; a property with
    `x-cobweb: secret` is given as `!vault` or `{env: NAME}`. Calls come from several threads, for
    different nodes at once, and from any coordinator of the site: what a provider knows of a
    machine it knows from outside of this process. ProviderError where a call fails,
    CredentialsError where it is refused for who asks; neither holds a secret.
    """

    fields: ClassVar[Mapping[str, Any]]

    def find(self, request: NodeRequest) -> Machine | None:
        """Return the machine of a node, also one that a failed or killed `create` left; or None.

        Quick, changes nothing, and never returns a machine of another owner or node.
        """

    def create(self, request: NodeRequest) -> Machine:
        """Make the machine and return it, ready or not; the one that is there if there is one.

        From the moment that anything of it exists `find` finds it.
        """

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        """Wait until the machine answers, and return it `ready`, with addresses and connection."""

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        """Take the machine away, whatever it is like; nothing is left on return.

        Harmless where it is gone; touches no other machine that has this node's name by now.
        """


class Link(Protocol):
    """One owner's end of a transport; `close` may be called again, after it nothing is sent.

    What is sent may be lost, doubled, late and out of order, but never altered, and never comes
    under the name of an owner that has not sent it. All methods are called from one thread and
    return at once; what cannot be sent is lost. A link that may lose the others says in `joined`
    how often it has found them, and calls `wake` when that grows.
    """

    def send(self, owner: str, message: bytes) -> None:
        """Send a message to an owner, who may not be there."""

    def receive(self) -> Sequence[tuple[str, bytes]]:
        """Return what has come, each with the owner that has sent it."""

    def close(self) -> None:
        """Give up what the link holds."""


@runtime_checkable
class Transport(Registered, Protocol):
    """Carries messages between engines that share a site (design, sections 8 and 11)."""

    def connect(self, address: str, owner: str, wake: Callable[[], None]) -> Link:
        """Return the end of `owner`; `wake` is to be called when something has come.

        `address`, in words of the transport, is where the others are; CobwebError where none is.
        """


class Extension(Registered, Protocol):
    """What a plugin adds to another one, at a `point` that one asks for; the core knows neither.

    A plugin names the points that it asks for by extensions of the point `extension-point`; what is
    at them is its to check. Sites are made anew where the `source` of a class, a path, has changed.
    """

    point: ClassVar[str]
