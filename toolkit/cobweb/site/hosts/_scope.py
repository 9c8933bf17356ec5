"""What templates of a host see: its variables, evaluated when used, and Ansible's magic ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cobweb._lazy import Lazy
from cobweb.errors import CobwebError, Place
from cobweb.site.hosts._connection import is_fact
from cobweb.site.hosts._hosts import ALL, Inventory
from cobweb.site.hosts._variables import Variables
from cobweb.site.reading._findings import did_you_mean
from cobweb.site.reading._nodes import Leaf, Map, Node, Seq, plain, unmarked
from cobweb.site.templates._meter import RenderError
from cobweb.site.templates._rendering import Templates, is_template
from cobweb.site.templates._sandbox import checked

MAX_CHAIN = 50
"""So many variables may refer to each other in a chain."""

SITE = ""
"""The scope of what is no host's: variables of `all`."""

_MAGIC_OF_SITE = ("groups", "hostvars")
_MAGIC = ("group_names", "groups", "hostvars", "inventory_hostname", "inventory_hostname_short")


class EvaluationError(Exception):
    """A value cannot be evaluated; it names the place of the template at fault."""

    def __init__(self, place: Place, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.place = place
        self.message = message
        self.hint = hint


def text_of(value: Any, place: Place) -> str:
    """Return a value as text; EvaluationError where a vaulted value would be in it."""
    try:
        return str(checked(value))
    except RenderError as failure:
        raise EvaluationError(place, failure.message, failure.hint) from failure


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constant:
    """A node without templates, as plain data; shared by all hosts that have it."""

    value: Any


class Evaluator:
    """Evaluates nodes for hosts; constants are made plain once, texts are compiled once."""

    def __init__(
        self,
        inventory: Inventory,
        variables: Variables,
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.inventory = inventory
        self.functions = functions
        self.variables = variables
        self.templates = Templates()
        self.groups = Lazy(inventory.groups, lambda name: list(inventory.members(name)))
        self.hostvars = Lazy(inventory.hosts, lambda name: self.scope(name).view())
        self._constants: dict[int, tuple[Node, _Constant | None]] = {}
        self._scopes: dict[str, Scope] = {}

    def scope(self, host: str) -> Scope:
        """Return the scope of a host, or of the site for `SITE`."""
        if host not in self._scopes:
            self._scopes[host] = Scope(self, host)
        return self._scopes[host]

    def constant(self, node: Node) -> _Constant | None:
        """Return a node's plain value if no part of it is a template."""
        known = self._constants.get(id(node))
        if known is None:
            made = None if _has_template(node) else _Constant(value=unmarked(plain(node)))
            self._constants[id(node)] = known = (node, made)
        return known[1]


class Scope:
    """The names that a template sees on one host; a value is evaluated once."""

    def __init__(self, evaluator: Evaluator, host: str) -> None:
        self._evaluator = evaluator
        self._host = host
        self._values: dict[str, Any] = {}
        self._open: list[str] = []
        if host == SITE:
            self._own: Mapping[str, Node] = {}
            self._shared = evaluator.variables.shared((ALL,))
        else:
            self._own, self._shared = evaluator.variables.of(host)

    def node(self, name: str) -> Node | None:
        """Return the definition of a variable that counts."""
        return self._own.get(name) or self._shared.get(name)

    def names(self) -> list[str]:
        """Return all names that can be used."""
        magic = _MAGIC if self._host else _MAGIC_OF_SITE
        return [*magic, *dict.fromkeys([*self._shared, *self._own])]

    def evaluate(self, node: Node, *, as_written: bool = False) -> Any:
        """Return a node's value; of a template that fails EvaluationError, `as_written` itself."""
        constant = self._evaluator.constant(node)
        if constant is not None:
            return constant.value
        if isinstance(node, Map):
            items = node.items.items()
            return {key: self.evaluate(value, as_written=as_written) for key, value in items}
        if isinstance(node, Seq):
            return [self.evaluate(item, as_written=as_written) for item in node.items]
        try:
            return self.render(node.value, node.place)
        except (EvaluationError, CobwebError):
            if as_written:
                return node.value
            raise

    def render(self, text: str, place: Place, *, file: bool = False) -> Any:
        """Return the value of a text that may be a template; `file`: it is the content of one."""
        if not is_template(text):
            return text
        try:
            template = self._evaluator.templates.get(text, file=file)
            values = self._values_of(template.names)
            if values is None:
                return template.render(self.lookup)
            if values in template.results:
                return template.results[values]
            return template.keep(values, template.render(self.lookup))
        except RenderError as failure:
            message, hint = failure.message, failure.hint
            if is_fact(failure.name):
                message = f"facts are not known when a site is evaluated: `{failure.name}`"
                hint = "write it as a variable of the host, or use it in a task, after `setup`"
            elif failure.name and not hint:
                known = self.names()
                where = _HOST_HINT if self._host else _SITE_HINT
                hint = did_you_mean(failure.name, known, otherwise=where)
            raise EvaluationError(place, message, hint) from failure

    def _values_of(self, names: tuple[str, ...]) -> tuple[Any, ...] | None:
        """Return what tells the values of variables apart; None where that takes evaluating them.

        Templates see nothing else, so for the same values the same comes out.
        """
        found = [value for value in map(self._told_apart, names) if value is not None]
        return tuple(found) if len(found) == len(names) else None

    def _told_apart(self, name: str) -> tuple[Any, ...] | None:
        node = self.node(name)
        if node is None:
            return self._magic_told_apart(name)
        constant = self._evaluator.constant(node)
        if constant is None:
            value = self._values.get(name)
            return (type(value), value) if type(value) in _SCALARS else None
        if type(constant.value) in _SCALARS:
            return (type(constant.value), constant.value)
        return (Node, id(constant.value))  # it lives as long as its node

    def _magic_told_apart(self, name: str) -> tuple[Any, ...] | None:
        if name in _MAGIC_OF_SITE:
            return (name,)
        if name == "group_names" and self._host != SITE:
            return (name, self._evaluator.inventory.groups_of(self._host))
        return None if name in _MAGIC or name in self._evaluator.functions else (KeyError,)

    def lookup(self, name: str) -> Any:
        """Return the value of a variable; KeyError if there is none."""
        if name in self._values:
            return self._values[name]
        node = self.node(name)
        if node is None:
            return self._magic(name)
        if name in self._open or len(self._open) >= MAX_CHAIN:
            raise self._endless(name, node.place)
        self._open.append(name)
        try:
            self._values[name] = self.evaluate(node)
        finally:
            self._open.pop()
        return self._values[name]

    def _endless(self, name: str, place: Place) -> EvaluationError:
        chain = " -> ".join([*self._open[-4:], name])
        if name in self._open:
            message = f"variables refer to each other for ever: {chain}"
            return EvaluationError(place, message, "give one of them a value of its own")
        message = f"more than {MAX_CHAIN} variables refer to each other in a chain: {chain}"
        return EvaluationError(place, message, "let some refer to what is further down the chain")

    def view(self) -> Mapping[str, Any]:
        """Return the variables as a mapping whose values are evaluated when they are used.

        Without `groups` and `hostvars`, so that all of it is finite.
        """
        names = [name for name in self.names() if name not in _MAGIC_OF_SITE]
        return Lazy(dict.fromkeys(names), self.lookup)

    def _magic(self, name: str) -> Any:
        if name == "groups":
            return self._evaluator.groups
        if name == "hostvars":
            return self._evaluator.hostvars
        if self._host == SITE:
            raise KeyError(name)
        return self._magic_of_host(name)

    def _magic_of_host(self, name: str) -> Any:
        if name in self._evaluator.functions:
            return partial(self._evaluator.functions[name], self._host)
        if name == "inventory_hostname":
            return self._host
        if name == "inventory_hostname_short":
            return self._host.split(".")[0]
        if name == "group_names":
            return sorted(set(self._evaluator.inventory.groups_of(self._host)) - {ALL})
        raise KeyError(name)


_SCALARS = (str, int, float, bool)
_HOST_HINT = "it is neither a variable of the host nor one of Ansible's own"
_SITE_HINT = "`on` belongs to no host and sees the variables of the group `all` only"


def _has_template(node: Node) -> bool:
    if isinstance(node, Leaf):
        return isinstance(node.value, str) and is_template(node.value)
    items = node.items.values() if isinstance(node, Map) else node.items
    return any(_has_template(item) for item in items)
