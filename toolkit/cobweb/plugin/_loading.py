"""Load plugins one by one: a broken one is left out whole and harms nobody else.

pluggy's own entry-point loader stops at the first broken entry point and calls hooks of all plugins
at once, so that one that raises ends the call. Here every entry point gets a plugin manager of its
own: pluggy checks marks and signatures, and nothing is shared before a plugin has proved whole.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pluggy

from cobweb._text import did_you_mean
from cobweb.errors import CobwebError, PluginError
from cobweb.model import CobType, PythonAction
from cobweb.plugin import _border, protocols
from cobweb.plugin._contracts import cob_type_problems, faces_of, item_problems, schema_problems
from cobweb.plugin._hooks import HOOKS, PROJECT, Kind

if TYPE_CHECKING:
    import click

_PREFIX = "cobweb_register_"
"""How the names of all hooks begin, also of those that only another version of Cobweb has."""

_MISSPELT = 0.95
"""How like a hook of this Cobweb the name of one is that was meant: all of them begin alike."""

_POINT = "extension-point"
"""The point at which plugins tell which points they ask for."""

Tables = dict[str, dict[str, Any]]
"""Field of `Plugins`, as most kinds are -> name -> what was registered."""


class _RejectedError(CobwebError):
    """Why a plugin is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where a plugin is from; `module` is the value of its entry point."""

    name: str
    distribution: str
    version: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin(_Origin):
    """A plugin that is there: where it is from, and the names that it registers.

    `location` is the file it was loaded from ("" if unknown). `notes` say what of it this Cobweb,
    with these plugins, has no use for.
    """

    location: str
    registered: Mapping[Kind, tuple[str, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPlugin(_Origin):
    """A plugin that was left out whole, and why."""

    reason: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.name} ({self.distribution} {self.version}): {self.reason}{hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """All that was loaded; every mapping goes by the registered name.

    `executors` are classes, made once per run without arguments; `solvers`, `planners`, `adapters`
    and `transports` are instances. Calls of these raise PluginError where the plugin breaks.
    `generators` are those adapters that make a site's files from a model, `providers` those that
    make machines; `task_planners` are those planners that schedule tasks of nodes.
    `observers` are classes, too, made once per call of a command; `unasked_observers` are those of
    them that may come without being named.
    `python_types` are the instances whose methods the type's `PythonAction`s name; what these raise
    fails a job. `extensions` are classes by `POINT/NAME`; `extensions_at` has those of a point.
    """

    loaded: tuple[LoadedPlugin, ...] = ()
    failed: tuple[FailedPlugin, ...] = ()
    types: Mapping[str, CobType] = field(default_factory=dict)
    python_types: Mapping[str, protocols.PythonType] = field(default_factory=dict)
    executors: Mapping[str, type[protocols.Executor]] = field(default_factory=dict)
    solvers: Mapping[str, protocols.Solver] = field(default_factory=dict)
    planners: Mapping[str, protocols.Planner] = field(default_factory=dict)
    task_planners: Mapping[str, protocols.TaskPlanner] = field(default_factory=dict)
    adapters: Mapping[str, protocols.Adapter] = field(default_factory=dict)
    generators: Mapping[str, protocols.Generator] = field(default_factory=dict)
    providers: Mapping[str, protocols.NodeProvider] = field(default_factory=dict)
    commands: Mapping[str, click.Command] = field(default_factory=dict)
    sections: Mapping[str, type[protocols.Section]] = field(default_factory=dict)
    expanders: Mapping[str, protocols.Expander] = field(default_factory=dict)
    transports: Mapping[str, protocols.Transport] = field(default_factory=dict)
    observers: Mapping[str, type[protocols.Observer]] = field(default_factory=dict)
    unasked_observers: Mapping[str, type[protocols.UnaskedObserver]] = field(default_factory=dict)
    extensions: Mapping[str, type[protocols.Extension]] = field(default_factory=dict)

    @property
    def decision_schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schema of what may be decided, by the name of each section that takes that."""
        sections = self.sections.items()
        return {name: it.decision_schema for name, it in sections if hasattr(it, "decision_schema")}

    def extensions_at(self, point: str) -> Mapping[str, type[protocols.Extension]]:
        """Return by name what plugins add at a point that another plugin asks for."""
        return {it.name: it for it in self.extensions.values() if it.point == point}


def load_plugins(*, strict: bool = False) -> Plugins:
    """Load all installed plugins.

    A plugin that breaks its contract is left out whole and is in `failed`; with `strict`,
    PluginError says all of them. Of two that register one name the later is left out; the order is:
    the built-in ones, then by name. What plugins print while they load goes to
    stderr, never into our data.
    """
    loaded, failed = list[LoadedPlugin](), list[FailedPlugin]()
    tables: Tables = defaultdict(dict)
    with _printing_to_stderr():
        for found in find_entry_points():
            try:
                plugin, made = _load(found, loaded)
            except _RejectedError as error:
                said = {"reason": error.message, "hint": error.hint}
                failed.append(FailedPlugin(**found.origin(), **said))
                continue
            loaded.append(plugin)
            for table, entries in made.items():
                tables[table].update(entries)
    if strict and failed:
        first, *others = failed
        message = "\n".join([first.reason, *(f"plugin {plugin}" for plugin in others)])
        raise PluginError(first.name, message, hint=first.hint)
    known = {name for it in loaded for name in it.registered.get(Kind.EXTENSIONS, ())}
    noted = tuple(_with_points(plugin, known) for plugin in loaded)
    whole = {table: MappingProxyType(entries) for table, entries in tables.items()}
    return Plugins(loaded=noted, failed=tuple(failed), **whole)


_LOCK, _REPLACED = threading.Lock(), list[Any]()


@contextlib.contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Send what is printed to stderr; of several threads the last puts back what was there."""
    with _LOCK:
        _REPLACED.append(sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _LOCK:
            sys.stdout = _REPLACED.pop()


@contextlib.contextmanager
def _contained(what: str) -> Iterator[None]:
    """Turn whatever a plugin raises while it is loaded into the reason why it is left out."""
    try:
        yield
    except (KeyboardInterrupt, _RejectedError):
        raise
    except BaseException as error:  # the border to foreign code
        missing = isinstance(error, ModuleNotFoundError) and error.name
        hint = f"install what provides {missing}, or reinstall the plugin" if missing else ""
        hint = hint or "report this to its author"
        raise _RejectedError(f"{what}: {_border.describe(error)}", hint=hint) from error


@_contained("it cannot be examined")
def _load(found: Found, others: Sequence[LoadedPlugin]) -> tuple[LoadedPlugin, Tables]:
    """Return a whole plugin and what it registers; `others` were loaded before it."""
    plugin = _import(found)
    notes = _hook_notes(plugin)
    items = {kind: it for kind in Kind if (it := _registered(plugin, kind))}
    names = {kind: tuple(_name(kind, it) for it in of) for kind, of in items.items()}
    _refuse_taken(found, names, others)
    tables = _make_all(found.name, items)
    if found.distribution != OURS:  # ours are tested, and this takes a slow import
        _refuse_schemas(tables)
    location = str(getattr(plugin, "__file__", "") or "")
    loaded = LoadedPlugin(**found.origin(), location=location, registered=names, notes=notes)
    return loaded, tables


def _refuse_taken(
    found: Found, names: Mapping[Kind, Sequence[str]], others: Sequence[LoadedPlugin]
) -> None:
    owners = {
        (kind, name): it for it in others for kind in it.registered for name in it.registered[kind]
    }
    for kind, name in ((kind, name) for kind, mine in names.items() for name in mine):
        if names[kind].count(name) > 1:
            raise _RejectedError(f"it registers {kind} {name!r} twice")
        if owner := owners.get((kind, name)):
            other = f"plugin {owner.name} ({owner.distribution} {owner.version})"
            message = f"it registers {kind} {name!r}, which {other} has registered before"
            hint = f"rename one of them, or uninstall {found.distribution}"
            raise _RejectedError(message, hint=hint)


def _name(kind: Kind, item: Any) -> Any:
    """Return the name of what is registered: that of an extension has its point before it."""
    return f"{item.point}/{item.name}" if kind is Kind.EXTENSIONS else item.name


def _with_points(plugin: LoadedPlugin, known: Collection[str]) -> LoadedPlugin:
    """Return a plugin with a note for each of its extensions whose point nobody asks for."""
    notes = tuple(
        f"no plugin asks for its {name}"
        for name in plugin.registered.get(Kind.EXTENSIONS, ())
        if f"{_POINT}/{name.partition('/')[0]}" not in known and not name.startswith(f"{_POINT}/")
    )
    return replace(plugin, notes=(*plugin.notes, *notes))


def _import(found: Found) -> Any:
    """Return a plugin that was made for these protocols."""
    if found.entry is None:
        raise _RejectedError(found.problem, hint=f"reinstall {found.distribution}")
    with _contained(f"{found.module} cannot be imported"):
        plugin = found.entry.load()
    version = getattr(plugin, "cobweb_interface", None)
    if version is None:
        hint = f"write `cobweb_interface = {protocols.INTERFACE}` in {found.module}"
        raise _RejectedError("it does not say which plugin interface it was made for", hint=hint)
    if version != protocols.INTERFACE:
        message = f"it was made for plugin interface {version!r}"
        hint = f"install a version of {found.distribution} that fits"
        raise _RejectedError(f"{message}, this Cobweb has {protocols.INTERFACE}", hint=hint)
    return plugin


def _hook_notes(plugin: Any) -> tuple[str, ...]:
    """Return a note for each hook of another version of Cobweb; refuse a hook that does not fit.

    What looks like a hook of this one is misspelt, and nothing of the plugin is used.
    """
    notes, hooks = list[str](), tuple(kind.hook for kind in Kind)
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HOOKS)
    with _contained("its hooks do not fit"):
        manager.register(plugin)
    for name in sorted(dir(plugin)):
        marked = manager.parse_hookimpl_opts(plugin, name) is not None
        if name in hooks and not marked:
            raise _RejectedError(f"{name} is not marked", hint="write @hookimpl above it")
        if name not in hooks and (marked or name.startswith(_PREFIX)):
            hint = did_you_mean(name, hooks, likeness=_MISSPELT)
            if hint or not name.startswith(_PREFIX):
                hint = hint or f"hooks are {', '.join(hooks)}"
                raise _RejectedError(f"there is no hook {name}", hint=hint)
            notes.append(f"this Cobweb has no hook {name}")
    return tuple(notes)


def _registered(plugin: Any, kind: Kind) -> tuple[Any, ...]:
    """Call one hook, where the plugin has it; its items, checked one by one."""
    with _contained(f"{kind.hook} failed"):
        returned: Any = getattr(plugin, kind.hook, tuple)()
    if not isinstance(returned, list | tuple):
        message = f"{kind.hook} returned {type(returned).__name__}, not a list"
        raise _RejectedError(message, hint="return a list of classes")
    items = tuple(returned)
    with _contained(f"what {kind.hook} returned cannot be used"):
        problems = [problem for item in items for problem in item_problems(kind, item)]
    if problems:
        raise _RejectedError("; ".join(problems), hint="see cobweb.plugin for the protocols")
    return items


def _make_all(plugin: str, items: Mapping[Kind, Collection[Any]]) -> Tables:
    tables: Tables = {}
    for kind, members in items.items():
        for item in members:
            with _contained(f"{item.name} cannot be made"):
                for table, made in _make(plugin, kind, item):
                    tables.setdefault(table, {})[_name(kind, item)] = made
    return tables


def _refuse_schemas(tables: Tables) -> None:
    for table, owner, attribute in (
        (Kind.TYPES, "type", "spec_schema"),
        (Kind.SECTIONS, "section", "schema"),
        (Kind.SECTIONS, "the decisions of section", "decision_schema"),
        ("generators", "the model of", "schema"),
        ("providers", "the fields of", "fields"),
    ):
        for name, made in tables.get(table, {}).items():
            what = f"the schema of {owner} {name}"
            with _contained(f"{what} cannot be read"):
                schema = getattr(made, attribute, None)
                if schema is not None and (problems := schema_problems(schema)):
                    raise _RejectedError(f"{what} is no JSON Schema {problems[0]}")


def _make(plugin: str, kind: Kind, item: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tables that an item goes to, and what goes there."""
    match kind:
        case Kind.TYPES:
            yield from _make_type(item())
        case Kind.EXECUTORS:
            yield kind, _border.guarded_executor(plugin, item)
        case Kind.SOLVERS | Kind.PLANNERS | Kind.ADAPTERS:
            made = item()
            for face in faces_of(kind, item):
                yield face.table, _border.guarded(plugin, face.word, made)
        case Kind.TRANSPORTS:
            yield kind, _border.guarded_transport(plugin, item())
        case Kind.OBSERVERS:
            make = _border.guarded_class(plugin, "observer", item)
            yield kind, make
            if hasattr(item, "unasked"):
                yield "unasked_observers", make
        case Kind.SECTIONS | Kind.COMMANDS | Kind.EXTENSIONS:
            yield kind, item
            if kind is Kind.SECTIONS and hasattr(item, "expand"):
                yield "expanders", _border.guarded(plugin, "section", item())


def _make_type(instance: Any) -> Iterator[tuple[str, Any]]:
    cob_type = instance.cob_type()
    if problems := cob_type_problems(cob_type, instance):
        raise _RejectedError("; ".join(problems))
    yield Kind.TYPES, cob_type
    if any(isinstance(action, PythonAction) for action in cob_type.actions()):
        yield "python_types", instance


OURS = "cobweb"
"""The distribution of the built-in plugins: it comes first, so that nobody takes their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(_Origin):
    """An entry point of the group, or (`entry` None) a distribution whose list is unreadable.

    Then it is called as its distribution.
    """

    entry: EntryPoint | None
    problem: str = ""

    def origin(self) -> dict[str, str]:
        """Return where it is from, for the plugin that becomes of it."""
        return {each.name: getattr(self, each.name) for each in fields(_Origin)}


def find_entry_points() -> tuple[Found, ...]:
    """Return the entry points of all installed distributions: ours first, then by name."""
    found: dict[str, list[Found]] = {}
    for distribution in distributions():
        try:
            text = distribution.read_text("entry_points.txt") or ""
        except (OSError, UnicodeDecodeError) as error:
            text = getattr(error, "object", b"").decode(errors="replace")
        if f"[{PROJECT}]" not in text:
            continue
        name = _metadata(distribution, "Name")
        if (normal := name.lower().replace("_", "-")) not in found:
            found[normal] = _entries(distribution, name)
    every = (it for entries in found.values() for it in entries)
    return tuple(sorted(every, key=lambda f: (f.distribution != OURS, f.name, f.distribution)))


def _entries(distribution: Distribution, name: str) -> list[Found]:
    found = partial(Found, distribution=name, version=_metadata(distribution, "Version"))
    try:
        points = distribution.entry_points.select(group=PROJECT)
        return [found(name=it.name, module=it.value, entry=it) for it in points]
    except (OSError, TypeError, ValueError) as error:
        problem = f"its entry_points.txt cannot be read: {error}"
        return [found(name=name, module="", entry=None, problem=problem)]


def _metadata(distribution: Distribution, key: str) -> str:
    try:
        return str(distribution.metadata[key] or "unknown")
    except (OSError, UnicodeDecodeError):
        return "unknown"
