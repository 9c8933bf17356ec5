"""The work of an earlier generation, made fit to be done again: its files, and its secrets.

A task file that is gone from the site, or says something else by now, runs from the copy that the
state database has. What cannot be brought back becomes an action that fails with the reason, so
that it is the failure of those objects alone that need it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, assert_never

from cobweb._text import is_below
from cobweb.errors import ExecutorError
from cobweb.generation import INPUTS, SITE_ROOT, KeptFiles, Paths, reveal
from cobweb.model import Missing, Nothing, PythonAction, Role, Tasks

if TYPE_CHECKING:
    from cobweb.model import Action, Cob, CobId, CobType, Graph, Host
    from cobweb.plugin import PythonType
    from cobweb.store import Store

_CONNECTION = "ansible_"


class Secrets:
    """Finds vaulted values again among those that the site has now.

    `present` returns these, by their digests; it is asked when it must be. `hosts` are those of the
    site now: one that is there is reached by what that says. `cobs` are its objects, where a secret
    that is another now may be taken for the one that was.
    """

    def __init__(
        self,
        present: Callable[[], Mapping[str, Mapping[str, Any]]],
        hosts: Mapping[str, Host],
        cobs: Mapping[CobId, Cob] | None = None,
    ) -> None:
        self._present = cache(present)
        self._hosts = hosts
        self._cobs = cobs or {}

    def spec(self, cob: Cob) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return the spec of an object with its secrets back, and the places of those gone.

        Of variables that are content it has digests: tasks have the variables.
        """
        now = self._cobs.get(cob.id)
        spec, missing = self._revealed(cob.spec, None if now is None else now.spec)
        if spec is not cob.spec and INPUTS in spec and cob.type.input_globs():
            spec = {**spec, INPUTS: cob.spec[INPUTS]}
        return spec, missing

    def type(self, kind: CobType) -> tuple[CobType, tuple[str, ...]]:
        """Return a type with the secrets back that it shares, and the places of those gone.

        Of many secrets an object may need none: what is gone stays as it was stored, for the work
        that asks for it to tell.
        """
        if not kind.shared:
            return kind, ()
        kinds = (it.type for it in self._cobs.values())
        now = next((it for it in kinds if it.name == kind.name), None)
        shared, missing = self._revealed(kind.shared, None if now is None else now.shared)
        made = kind if shared is kind.shared else replace(kind, shared=shared)
        return made, missing

    def host(self, host: Host) -> tuple[Host, tuple[str, ...]]:
        """Return a host with its secrets back, and the names of variables without which it is lost.

        These are of its connection. Another variable whose secret is gone is left out: tasks that
        ask for it say so.
        """
        now = self._hosts.get(host.name)
        variables, missing = self._revealed(host.variables, None if now is None else now.variables)
        names = {place.partition(".")[0] for place in missing}
        lost = sorted(name for name in names if name.startswith(_CONNECTION))
        kept = {name: value for name, value in variables.items() if name not in names}
        return replace(host, variables=kept), tuple(lost)

    def graph(self, graph: Graph, hosts: Mapping[str, Host]) -> tuple[Graph, Mapping[str, Host]]:
        """Return the objects with their secrets back, and their hosts as these were.

        Every action of an object fails that has lost one, or whose host is not in the site any more
        and has.
        """
        found = {name: self.host(it) for name, it in hosts.items()}
        graph = with_types(graph, lambda kind: self.type(kind)[0])
        cobs = {
            cob: self._cob(it, () if it.host in self._hosts else found[it.host][1])
            for cob, it in graph.cobs.items()
        }
        return replace(graph, cobs=cobs), {name: host for name, (host, _) in found.items()}

    def _revealed(self, value: Any, instead: Any) -> tuple[Any, tuple[str, ...]]:
        if not reveal(value, {})[1]:
            return value, ()
        return reveal(value, self._present(), instead)

    def _cob(self, cob: Cob, lost: Sequence[str]) -> Cob:
        spec, missing = self.spec(cob)
        counted = f"{INPUTS}." if cob.type.input_globs() else None
        names = [
            *(f"the variable {name}" for name in lost),
            *(f"spec.{it}" for it in missing if not counted or not it.startswith(counted)),
        ]
        if not names:
            return cob if spec is cob.spec else replace(cob, spec=spec)
        way_out = "write it anywhere in the site again"
        if cob.id not in self._cobs:  # what the site has is not to be forgotten
            way_out += f", or take the object away by hand and `cobweb forget {cob.id}`"
        message = f"the vaulted value of {', '.join(names)} is not in the site any more"
        failing = Missing(message=f"{message} ({way_out})")
        return replace(cob, type=_with_actions(cob.type, lambda _action: failing))


class KeptWork:
    """Lets types of earlier generations work with the files that they had.

    `folder` gets the copies; it is private to the run and exists. Without one nothing is written,
    and actions keep their paths: to find out what is missing. `roots` are those of the site now,
    `types` those of plugins: one that has only more than it had takes the place of what it was, for
    its check may find a state that it did not know then.
    """

    def __init__(
        self,
        store: Store,
        roots: Mapping[str, str],
        python_types: Mapping[str, PythonType],
        folder: Path | None = None,
        *,
        types: Mapping[str, CobType] = MappingProxyType({}),
    ) -> None:
        self._types = types
        self._paths = Paths(roots)
        self._python_types = python_types
        self._folder = folder
        self._now = cache(self._read)
        self._stored = cache(store.file)
        self._restored: dict[tuple[tuple[str, str], ...], Paths] = {}

    def graph(self, graph: Graph, files: KeptFiles) -> Graph:
        """Return the graph with the work of its types found again; `files` are its generation's.

        StoreError where the state database fails, ExecutorError where a copy cannot be written.
        """
        return with_types(graph, lambda kind: self.type(kind, files))

    def type(self, kind: CobType, files: KeptFiles) -> CobType:
        """Return a type with its work found again; itself where all is as it was."""
        present = self._types.get(kind.name, kind)
        if present.check == kind.check and present != kind and has_only_more(kind, present):
            same = present.shared == kind.shared
            return present if same else replace(present, shared=kind.shared)
        made = _with_actions(kind, lambda action: self._action(action, kind, files))
        return kind if made == kind else made

    def _action(self, action: Action, kind: CobType, files: KeptFiles) -> Action:
        match action:
            case Tasks(path=path):
                found = self._place(path, kind, files, is_role=False)
                return found if isinstance(found, Missing) else replace(action, path=found)
            case Role(name=name) if name.startswith("/"):
                found = self._place(name, kind, files, is_role=True)
                return found if isinstance(found, Missing) else replace(action, name=found)
            case PythonAction(type_name=name, method=method):
                known = self._python_types.get(name)
                if hasattr(known, method):
                    return action
                return Missing(message=f"no plugin has the type {name} with `{method}` any more")
            case Role() | Nothing() | Missing():
                return action
            case _:
                assert_never(action)

    def _place(self, path: str, kind: CobType, files: KeptFiles, *, is_role: bool) -> str | Missing:
        """Return where a task file or role is now that is as it was, or why there is none."""
        written = self._paths.written(path, kind.place)
        what = "role" if is_role else "task file"
        names = _names(written, files, is_role=is_role)
        if not names:
            there = Path(path).is_dir() if is_role else Path(path).is_file()
            gone = Missing(message=f"the {what} {written} is gone, and no generation has a copy")
            return path if there else gone
        if all(self._now(name)[0] == files.digests[name] for name in names):
            return path
        if lost := [name for name in names if self._copy(name, files) is None]:
            message = f"the {what} {written} is not as it was, and the copy of {lost[0]} is gone"
            return Missing(message=message)
        return path if self._folder is None else self._restore(files).read(written)

    def _read(self, name: str) -> tuple[str, bytes | None]:
        """Return the digest and the content of a file in the site now, if there is one."""
        with suppress(OSError):
            data = Path(self._paths.read(name)).read_bytes()
            return hashlib.sha256(data).hexdigest(), data
        return "", None

    def _copy(self, name: str, files: KeptFiles) -> bytes | None:
        """Return a file as it was, from the site where that still has it."""
        now, data = self._now(name)
        return data if now == files.digests[name] else self._stored(files.digests[name])

    def _restore(self, files: KeptFiles) -> Paths:
        """Write the files of a generation once, beside each other as they were; return where."""
        assert self._folder is not None
        key = tuple(sorted(files.digests.items()))
        if key not in self._restored:
            top = self._folder / f"generation-{len(self._restored) + 1}"
            up = max(name.count("../") for name in files.digests)
            site = top.joinpath(*["up"] * up, SITE_ROOT)
            self._restored[key] = Paths({SITE_ROOT: str(site)})
            for name in files.digests:
                path = self._restored[key].read(name)
                data = self._copy(name, files)
                if data is not None and is_below(path, str(top)):
                    _write(Path(path), data)
        return self._restored[key]


def with_types(graph: Graph, made_of: Callable[[CobType], CobType]) -> Graph:
    """Return the objects with what is made of their types, of each once."""
    types = {id(it.type): it.type for it in graph.cobs.values()}
    made = {number: made_of(kind) for number, kind in types.items()}
    if all(made[number] is kind for number, kind in types.items()):
        return graph
    cobs = {cob: replace(it, type=made[id(it.type)]) for cob, it in graph.cobs.items()}
    return replace(graph, cobs=cobs)


def has_only_more(old: CobType, new: CobType) -> bool:
    """Say whether a type still has all states, in their order, transitions and groups."""
    steps = {(step.source, step.dest) for step in new.transitions}
    return (
        tuple(state for state in new.states if state in old.states) == old.states
        and (new.preferred, new.remove) == (old.preferred, old.remove)
        and all((step.source, step.dest) in steps for step in old.transitions)
        and old.groups.keys() <= new.groups.keys()
    )


def _names(written: str, files: KeptFiles, *, is_role: bool) -> list[str]:
    """Return the kept files that belong to a task file or role."""
    if not is_role and written not in files.digests:
        return []
    folder = f"{written}/" if is_role else written.rpartition("/")[0] + "/"
    return [name for name in files.digests if name == written or name.startswith(folder)]


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        message = f"cannot write the copy of a task file: {error.strerror or error}"
        raise ExecutorError(message, hint="make room, or set TMPDIR") from error


def _with_actions(kind: CobType, made_of: Callable[[Action], Action]) -> CobType:
    """Return a type with what is made of each of its actions."""
    steps = tuple(replace(step, action=made_of(step.action)) for step in kind.transitions)
    return replace(kind, check=made_of(kind.check), transitions=steps)
