"""Sections of plugins that stand for hosts and objects: asked once, when the site is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb.errors import ModelError
from cobweb.model import CobType, Expansion
from cobweb.site._documents import text_of
from cobweb.site.hosts._hosts import Inventory
from cobweb.site.reading._files import Files
from cobweb.site.reading._nodes import Leaf, Map, Node, at, key_place, lift

if TYPE_CHECKING:
    from cobweb.plugin._values import Expander


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandContext:
    """What an expander may know besides the sections: the folder of the site and its files."""

    site_dir: Path
    _files: Files

    def read(self, name: str) -> str | None:
        """Return the text of a file of the site; see `text_of`."""
        return text_of(self._files, name)


@dataclass(slots=True, kw_only=True)
class Expanded:
    """All expansions of a site in one; `inventories` are to be read beside the site's own."""

    inventories: list[Node] = field(default_factory=list)
    cobs: dict[str, Node] = field(default_factory=dict)
    limits: dict[str, Node] = field(default_factory=dict)
    types: dict[str, CobType] = field(default_factory=dict)
    shared: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    asked: bool = False
    """Whether the site has such a section: then it may have no host."""
    makers: dict[tuple[str, str], tuple[str, Node]] = field(default_factory=dict)
    """The section that made something, and where it stands, by what that is and its name."""


def expand_all(
    root: Map, sections: Mapping[str, Any], expanders: Sequence[Expander], files: Files
) -> Expanded:
    """Ask the expander of each section that the site has; findings say what is wrong."""
    made = Expanded()
    for expander in expanders:
        node = root.items.get(expander.name)
        if node is None:
            continue
        made.asked = True
        context = ExpandContext(site_dir=files.site_dir, _files=files)
        try:
            _add(made, expander.expand(sections, context), (expander.name, node), files)
        except ModelError as error:
            for path, message, hint in error.problems:
                where = at(root, iter(path)) if path else node
                files.findings.add(where.place, message, hint)
    return made


def clashes(inventory: Inventory, made: Expanded, files: Files) -> None:
    """Find hosts and groups of expansions whose names the site's own inventory has, too."""
    known = {*(("group", it) for it in inventory.groups), *(("host", it) for it in inventory.hosts)}
    for (kind, name), (_, node) in sorted(made.makers.items(), key=itemgetter(0)):
        if (kind, name) in known:
            message = f"the site's inventory has a {kind} `{name}`, which its clusters make as well"
            files.findings.add(node.place, message, "rename one of them")


def joined(root: Map, key: str, made: Mapping[str, Node], files: Files) -> Node | None:
    """Return `cobs` or `limits` of the site with `made`; a name that both have is a finding.

    What is no mapping in the site comes back as it is, for its own finding.
    """
    written = root.items.get(key)
    if not made:
        return written
    if written is None or (isinstance(written, Leaf) and written.value is None):
        return Map(items=made, place=next(iter(made.values())).place)
    if not isinstance(written, Map):
        return written
    for name in sorted(made.keys() & written.items.keys()):
        message = f"`{name}` in `{key}` is a name that the site's clusters use"
        hint = f"give it another name; {made[name].place} has it, too"
        files.findings.add(key_place(written, name), message, hint)
    return replace(written, items={**made, **written.items})


def _add(made: Expanded, expansion: Expansion, maker: tuple[str, Node], files: Files) -> None:
    """Add what a section stands for; what another one makes as well is a finding."""
    place = maker[1].place
    for kind, name in _names(expansion):
        other, node = made.makers.setdefault((kind, name), maker)
        if node is not maker[1]:
            message = f"`{maker[0]}` makes the {kind} `{name}`, as `{other}` at {node.place} does"
            files.findings.add(place, message, "give one of them another name")
    if expansion.inventory:
        made.inventories.append(lift(dict(expansion.inventory), place))
    made.cobs |= {name: lift(dict(cob), place) for name, cob in expansion.cobs.items()}
    made.limits |= {name: lift(dict(limit), place) for name, limit in expansion.limits.items()}
    made.types |= expansion.types
    for name, parts in expansion.shared.items():
        made.shared[name] = {**made.shared.get(name, {}), **parts}
    made.functions |= expansion.functions


def _names(expansion: Expansion) -> Iterator[tuple[str, str]]:
    """Yield what a section makes that has a name in the whole site: its kind, and the name."""
    kinds = {
        "COB": expansion.cobs,
        "limit": expansion.limits,
        "type": expansion.types,
        "function": expansion.functions,
        "group": expansion.inventory,
    }
    for kind, names in kinds.items():
        yield from ((kind, name) for name in names)
    for name, parts in expansion.shared.items():
        yield from (("shared part", f"{name}.{part}") for part in parts)
    for group in expansion.inventory.values():
        hosts = group.get("hosts") if isinstance(group, Mapping) else None
        yield from (("host", name) for name in hosts or ())
