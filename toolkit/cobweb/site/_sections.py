"""Sections of plugins that stand for hosts and objects: asked once, when the site is loaded."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb.errors import ModelError
from cobweb.model import CobType, Decision, Expansion
from cobweb.site._documents import text_of
from cobweb.site.hosts._hosts import Inventory
from cobweb.site.hosts._sources import expand
from cobweb.site.reading._files import Files
from cobweb.site.reading._nodes import Leaf, Map, Node, at, key_place, lift, plain

if TYPE_CHECKING:
    from cobweb.plugin import Extension
    from cobweb.plugin.protocols import Expander


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandContext:
    """What an expander may know besides the sections; see `cobweb.plugin.ExpandContext`."""

    site_dir: Path
    files: Files
    extensions: Sequence[type[Extension]] = ()
    decisions: Mapping[str, Decision] = field(default_factory=dict)

    def read(self, name: str) -> str | None:
        """Return the text of a file of the site; see `text_of`."""
        return text_of(self.files, name)

    def extensions_at(self, point: str) -> Mapping[str, type[Extension]]:
        """Return what plugins add at a point, by name."""
        return {it.name: it for it in self.extensions if it.point == point}


Maker = tuple[str, Node]
"""A section, and where it stands."""


@dataclass(slots=True, kw_only=True)
class Expanded:
    """All expansions of a site in one; `inventories` are to be read beside the site's own."""

    inventories: list[Node] = field(default_factory=list)
    cobs: dict[str, Node] = field(default_factory=dict)
    limits: dict[str, Node] = field(default_factory=dict)
    types: dict[str, CobType] = field(default_factory=dict)
    shared: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    releases: set[str] = field(default_factory=set)
    asked: bool = False
    """Whether the site has such a section: then it may have no host."""
    makers: dict[tuple[str, str], Maker] = field(default_factory=dict)
    """The section that made something, and where it stands, by what that is and its name."""
    members: dict[str, list[Maker]] = field(default_factory=dict)
    """The sections that have a host in their groups and say nothing of it, by its name."""


def expand_all(
    root: Map, sections: Mapping[str, Any], expanders: Sequence[Expander], context: ExpandContext
) -> Expanded:
    """Ask the expander of each section that the site has; findings say what is wrong."""
    made, files = Expanded(), context.files
    for expander in expanders:
        node = root.items.get(expander.name)
        if node is None:
            continue
        made.asked = True
        decisions = _decisions(expander, files)
        if decisions is None:
            continue
        own = replace(context, decisions=decisions)
        try:
            _add(made, expander.expand(sections, own), (expander.name, node), files)
        except ModelError as error:
            for path, message, hint in error.problems:
                where = at(root, iter(path)) if path else node
                files.findings.add(where.place, message, hint)
    return made


def _decisions(expander: Expander, files: Files) -> Mapping[str, Decision] | None:
    """Return what was decided in an expander's section; None with findings where that is wrong."""
    schema = getattr(expander, "decision_schema", None)
    if schema is None:
        return {}
    from cobweb.site.reading._schemas import SpecChecker

    found = files.decisions(expander.name).by_key
    checker = SpecChecker(schema, whole="the decision")
    is_sound = True
    for decision in found.values():
        body = lift(decision.body, decision.place)
        for place, message, _ in checker.problems(decision.body, body):
            is_sound = False
            key = shlex.quote(decision.key)
            hint = f"take it back with `cobweb decide {decision.section} {key} null`"
            files.findings.add(place, message, hint)
    own = {key: replace(it, body=deepcopy(it.body)) for key, it in found.items()}
    return own if is_sound else None  # a plugin may change what it is given


def clashes(inventory: Inventory, made: Expanded, files: Files) -> None:
    """Find hosts and groups of expansions whose names the site's own inventory has, too.

    A host of which a section says nothing may be there, or be made by another section; if it is
    not, it is made by the section that has it in its groups.
    """
    for name in sorted(made.members.keys() - inventory.hosts.keys()):
        if ("host", name) not in made.makers:
            for maker in made.members[name]:
                _note_maker(made, "host", name, maker, files)
    known = {*(("group", it) for it in inventory.groups), *(("host", it) for it in inventory.hosts)}
    for (kind, name), (section, node) in sorted(made.makers.items(), key=itemgetter(0)):
        if (kind, name) in known:
            has = f"the site's inventory has a {kind} `{name}`"
            message = f"{has}, which its {section} make as well"
            files.findings.add(node.place, message, "rename one of them")


def joined(root: Map, key: str, made: Mapping[str, Node], files: Files) -> Node | None:
    """Return `cobs` or `limits` of the site with `made`; a name that both have is a finding.

    What is no mapping in the site comes back as it is, for its own finding.
    """
    written = root.items.get(key)
    if not made:
        return written
    keys = {name: node.place for name, node in made.items()}
    if written is None or (isinstance(written, Leaf) and written.value is None):
        return Map(items=made, keys=keys, place=next(iter(made.values())).place)
    if not isinstance(written, Map):
        return written
    for name in sorted(made.keys() & written.items.keys()):
        message = f"`{name}` in `{key}` is a name that the site's clusters use"
        hint = f"give it another name; {made[name].place} has it, too"
        files.findings.add(key_place(written, name), message, hint)
    return replace(written, items={**made, **written.items}, keys={**keys, **written.keys})


def _add(made: Expanded, expansion: Expansion, maker: tuple[str, Node], files: Files) -> None:
    """Add what a section stands for; what another one makes as well is a finding."""
    place = maker[1].place
    inventory = lift(expansion.inventory, place)
    for kind, name in _names(expansion, plain(inventory)):
        if kind == "member":
            made.members.setdefault(name, []).append(maker)
        else:
            _note_maker(made, kind, name, maker, files)
    if expansion.inventory:
        made.inventories.append(inventory)
    made.cobs |= {name: lift(cob, place) for name, cob in expansion.cobs.items()}
    made.limits |= {name: lift(limit, place) for name, limit in expansion.limits.items()}
    made.types |= expansion.types
    for name, parts in expansion.shared.items():
        made.shared[name] = {**made.shared.get(name, {}), **parts}
    made.functions |= expansion.functions
    made.releases |= set(expansion.releases)


def _note_maker(made: Expanded, kind: str, name: str, maker: Maker, files: Files) -> None:
    """Note which section makes something; that another one does, too, is a finding."""
    other, node = made.makers.setdefault((kind, name), maker)
    if node is not maker[1]:
        message = f"`{maker[0]}` makes the {kind} `{name}`, as `{other}` at {node.place} does"
        files.findings.add(maker[1].place, message, "give one of them another name")


def _names(expansion: Expansion, inventory: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a section makes that has a name in the whole site: its kind, and the name.

    Hosts of which it says nothing but that they are in its groups are of the kind `member`.
    """
    kinds = {
        "COB": expansion.cobs,
        "limit": expansion.limits,
        "type": expansion.types,
        "function": expansion.functions,
    }
    for kind, names in kinds.items():
        yield from ((kind, name) for name in names)
    for name, parts in expansion.shared.items():
        yield from (("shared part", f"{name}.{part}") for part in parts)
    groups = list(inventory.items())
    for group_name, group in groups:  # which grows by what is below them
        yield "group", group_name
        groups += [(name, it) for name, it in _part(group, "children").items() if it]
        for pattern, said in _part(group, "hosts").items():
            yield from (("host" if said else "member", name) for name in _hosts(pattern))


def _part(group: Any, key: str) -> Mapping[str, Any]:
    """Return what a group has; what is no mapping is told later."""
    found = group.get(key) if isinstance(group, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _hosts(pattern: str) -> Sequence[str]:
    """Return the hosts that a name in an inventory stands for; what is wrong is told later."""
    try:
        return expand(pattern)
    except ValueError:
        return ()
