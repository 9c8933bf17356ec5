"""Where a value of the site came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cobweb.errors import Place, UsageError
from cobweb.generation import INPUTS
from cobweb.site.hosts._scope import EvaluationError, Evaluator
from cobweb.site.objects._cobs import CobDef
from cobweb.site.objects._specs import FILLED, Specs, marked_properties
from cobweb.site.reading._findings import did_you_mean
from cobweb.site.reading._nodes import Leaf, Map, Node, at, is_vault, plain
from cobweb.site.templates._meter import RenderError
from cobweb.site.templates._rendering import is_template

VAULTED = "(vaulted)"
"""What is shown for a vaulted value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedVariable:
    """A variable that a template reads; `place` is None for Ansible's own names."""

    name: str
    value: Any
    place: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A value and its origin.

    `overrode` are the places of weaker definitions, the strongest first; `template` is the text
    that the value was made from, or None; vaulted parts of values are shown as `VAULTED`.
    `priority` is `default`, `normal` or `force`.
    """

    ref: str
    value: Any
    place: Place | None
    priority: str = "normal"
    overrode: tuple[Place, ...] = ()
    template: str | None = None
    variables: tuple[UsedVariable, ...] = ()


class Explainer:
    """Answers `host/cob.path` and `host.variable`; UsageError for what does not exist."""

    def __init__(self, evaluator: Evaluator, defs: dict[str, CobDef], specs: Specs) -> None:
        self._evaluator = evaluator
        self._defs = defs
        self._specs = specs

    def explain(self, ref: str) -> Explanation:
        """Return the origin of what `ref` names."""
        host, slash, rest = ref.partition("/")
        if slash:
            self._known_host(host, ref)
            return self._cob(ref, host, rest)
        hosts = [h for h in self._evaluator.inventory.hosts if ref.startswith(h + ".")]
        if not hosts:
            self._known_host(ref.partition(".")[0], ref)
            hint = "write `host.variable`, `host/cob` or `host/cob.path`"
            raise UsageError(f"`{ref}` names no value", hint=hint)
        host = max(hosts, key=len)
        return self._variable(ref, host, ref[len(host) + 1 :])

    def _known_host(self, host: str, ref: str) -> None:
        known = self._evaluator.inventory.hosts
        if host not in known:
            hint = did_you_mean(host, known, otherwise="write `host/cob.path` or `host.variable`")
            raise UsageError(f"`{ref}`: no host is called `{host}`", hint=hint)

    def _cob(self, ref: str, host: str, rest: str) -> Explanation:
        names = [n for n in self._defs if rest == n or rest.startswith(n + ".")]
        here = [name for name, cob in self._defs.items() if host in cob.host_set]
        if not names or max(names, key=len) not in here:
            hint = did_you_mean(rest.partition(".")[0], here, otherwise=f"{host} has {here[:5]}")
            raise UsageError(f"`{ref}`: there is no such COB on {host}", hint=hint)
        name = max(names, key=len)
        cob = self._defs[name]
        path = [part for part in rest[len(name) + 1 :].split(".") if part]
        if path[:1] == ["spec"]:
            value, node = self._spec(cob, host, path[1:])
            return self._walk(ref, host, node, value, path[1:])
        values = plain(cob.body)
        values["spec"] = self._specs.evaluate(cob, host)
        if not path:
            return Explanation(ref=ref, value=_shown(values), place=cob.place)
        return self._walk(ref, host, cob.body, values, path)

    def _spec(self, cob: CobDef, host: str, path: list[str]) -> tuple[Any, Map]:
        """Return the evaluated spec and its nodes, also of what is made of files and variables.

        A property that names one is in the value only if `path` asks for it.
        """
        value, spec = self._specs.evaluate(cob, host), cob.spec or Map(items={}, place=cob.place)
        marks = {
            key: mode for key, mode in marked_properties(cob.type).items() if key in spec.items
        }
        nodes: dict[str, Node] = {FILLED[mode]: spec.items[key] for key, mode in marks.items()}
        scope = self._evaluator.scope(host)
        if path and path[0] in marks:
            value = {**value, path[0]: scope.evaluate(spec.items[path[0]])}
        if cob.type.input_globs():
            found = {name: it for name in value.get(INPUTS, ()) if (it := scope.node(name))}
            nodes[INPUTS] = Map(items=found, place=spec.place)
        return value, replace(spec, items={**nodes, **spec.items})

    def _walk(self, ref: str, host: str, node: Node, value: Any, path: list[str]) -> Explanation:
        for part in path:
            key: Any = int(part) if isinstance(value, list) and part.isdigit() else part
            known = isinstance(value, dict) and key in value
            if not known and not (isinstance(key, int) and key < len(value)):
                options = [str(each) for each in value] if isinstance(value, dict) else []
                hint = did_you_mean(part, options, otherwise=f"it has {', '.join(options[:8])}")
                raise UsageError(f"`{ref}`: there is no `{part}`", hint=hint)
            value = value[key]
            node = at(node, iter([key]))
        text = node.value if isinstance(node, Leaf) and isinstance(node.value, str) else ""
        template = text if is_template(text) else None
        return Explanation(
            ref=ref,
            value=_shown(value),
            place=node.place,
            priority=node.priority.name.lower(),
            overrode=node.over,
            template=template,
            variables=self._used(host, template) if template else (),
        )

    def _variable(self, ref: str, host: str, rest: str) -> Explanation:
        scope = self._evaluator.scope(host)
        name, *path = rest.split(".")
        definitions = self._evaluator.variables.definitions(host, name)
        if not definitions:
            hint = did_you_mean(name, scope.names(), otherwise="`cobweb show` lists the variables")
            if name in scope.names():
                return Explanation(ref=ref, value=_shown(_listed(scope.lookup(name))), place=None)
            raise UsageError(f"`{ref}`: {host} has no variable `{name}`", hint=hint)
        found = self._walk(ref, host, definitions[0], scope.lookup(name), path)
        return replace(found, overrode=tuple(node.place for node in definitions[1:]))

    def _used(self, host: str, template: str) -> tuple[UsedVariable, ...]:
        scope = self._evaluator.scope(host)
        found = []
        for name in self._evaluator.templates.get(template).names:
            node = scope.node(name)
            try:
                value = _shown(_listed(scope.lookup(name)))
            except (KeyError, EvaluationError, RenderError):
                continue
            found.append(UsedVariable(name=name, value=value, place=node.place if node else None))
        return tuple(found)


def _listed(value: Any) -> Any:
    """Return names instead of the values of a mapping over all hosts or groups."""
    return value if isinstance(value, dict | list | str | int | float | None) else sorted(value)


def _shown(value: Any) -> Any:
    if is_vault(value):
        return VAULTED
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return value
