"""Take out of an imported catalog what refers to something that is not there.

Coopr looks names up when they are used, Cobweb when a site is loaded. What would mean something
else without the missing name (a service without one that it requires, a list of allowed types that
would be empty, which means all) goes as a whole, and then what refers to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cobweb_plugins.cluster._catalog_checks import catalog_problems
from cobweb_plugins.cluster._coopr import Notes

Raw = Mapping[str, Any]
TYPES = ("hardwaretypes", "imagetypes")
TYPE_NAMES = {"hardwaretypes": "hardware type", "imagetypes": "image type", "services": "service"}


def fitted(made: Raw, site: Raw, notes: Notes) -> dict[str, dict[str, Any]]:
    """Return the parts of a catalog that fit together, with those of the `site`'s own catalog.

    `made` are imported entities by part and name; what goes is in `notes`.
    """
    fit = _Fit({kind: dict(entities) for kind, entities in made.items()}, site, notes)
    for kind in TYPES:
        fit.types(kind)
    while fit.services():
        pass
    while fit.templates():
        pass
    return fit.made


def sound(made: Raw, site: Raw, schema: Raw, notes: Notes) -> dict[str, dict[str, Any]]:
    """Return the parts of a catalog without the entities of which each alone is wrong.

    `site` is the site's own catalog with the automators that will be there, `schema` that of the
    section. What is wrong with the site's own part is not looked at here.
    """
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(dict(schema))
    parts = {kind: dict(entities) for kind, entities in made.items()}
    while True:
        whole = {
            kind: {**(site.get(kind) or {}), **parts.get(kind, {})} for kind in {**site, **parts}
        }
        found = [
            (("catalog", *error.absolute_path), error.message)
            for error in validator.iter_errors(whole)
        ]
        found = found or [(path, message) for path, message, _ in catalog_problems(whole)]
        wrong: dict[tuple[str, str], str] = {}
        for path, message in found:
            kind, name, *within = (*map(str, path[1:]), "", "")
            if name in parts.get(kind, {}):
                where = ".".join(it for it in within if it)
                wrong.setdefault((kind, name), f"{where}: {message}" if where else message)
        if not wrong:
            return parts
        for (kind, name), why in wrong.items():
            del parts[kind][name]
            notes.add(kind, name, "", why)
        parts = fitted(parts, site, notes)


class _Fit:
    """The entities that are left, changed in place."""

    def __init__(self, made: dict[str, dict[str, Any]], site: Raw, notes: Notes) -> None:
        self.made = made
        self._site = site
        self._notes = notes

    def _known(self, kind: str) -> set[str]:
        return {*self.made.get(kind, ()), *(self._site.get(kind) or ())}

    def _drop(self, kind: str, name: str, why: str) -> None:
        del self.made[kind][name]
        self._notes.add(kind, name, "", why)

    def _kept(self, kind: str, name: str, words: Any, key: str, of: str) -> bool:
        """Take unknown names out of a list `key` of `words`; False if none of some is left."""
        names = list(words.get(key, ()))
        known = self._known(of)
        kept = [each for each in names if each in known]
        for each in names:
            if each not in known:
                self._notes.add(kind, name, f"{key}: {each}", f"there is no such {TYPE_NAMES[of]}")
        if key in words:
            words[key] = kept
        return bool(kept) or not names

    def types(self, kind: str) -> None:
        """Keep the types that a provider knows, and of what they say the known providers."""
        known = self._known("providers")
        for name, words in list(self.made.get(kind, {}).items()):
            said = words["providers"]
            gone = [each for each in said if each not in known]
            words["providers"] = {each: said[each] for each in said if each in known}
            if not words["providers"]:
                why = f"none of its providers is there ({', '.join(gone)})"
                self._drop(kind, name, why if gone else "it names no provider")
            elif gone:
                why = "there are no such providers"
                self._notes.add(kind, name, f"providers: {', '.join(gone)}", why)

    def services(self) -> bool:
        """Leave out services whose required ones are not there; say whether any went."""
        all_services = {**(self._site.get("services") or {}), **self.made.get("services", {})}
        virtual = {
            each
            for words in all_services.values()
            for each in (words.get("dependencies") or {}).get("provides", ())
        }
        known = {*all_services, *virtual}
        before = len(self.made.get("services", {}))
        for name, words in list(self.made.get("services", {}).items()):
            needs = words.get("dependencies", {})
            missing = [
                each
                for phase in ("install", "runtime")
                for each in needs.get(phase, {}).get("requires", ())
                if each not in known
            ]
            if missing:
                self._drop("services", name, f"it requires {missing[0]}, which is not there")
                continue
            self._loose_needs(name, needs, known)
        return len(self.made.get("services", {})) < before

    def _loose_needs(self, name: str, needs: dict[str, Any], known: Collection[str]) -> None:
        for words, key in (
            (needs, "conflicts"),
            (needs.get("install", {}), "uses"),
            (needs.get("runtime", {}), "uses"),
        ):
            for each in words.get(key, ()):
                if each not in known:
                    why = "there is no such service"
                    self._notes.add("services", name, f"{key}: {each}", why)
            if key in words:
                words[key] = [each for each in words[key] if each in known]

    def templates(self) -> bool:
        """Leave out templates that would mean something else; say whether any went."""
        before = len(self.made.get("templates", {}))
        for name, words in list(self.made.get("templates", {}).items()):
            why = self._unfit_template(name, words)
            if why:
                self._drop("templates", name, why)
        return len(self.made.get("templates", {})) < before

    def _unfit_template(self, name: str, words: dict[str, Any]) -> str:
        """Take unknown names out of a template; return why it must go, "" if it need not."""
        templates = self._known("templates")
        parents = [*filter(None, [words.get("extends")]), *words.get("includes", ())]
        missing = [each for each in parents if each not in templates]
        if missing:
            return f"it is based on the template {missing[0]}, which is not there"
        defaults = words.get("defaults", {})
        gone = [it for it in defaults.get("services", ()) if it not in self._known("services")]
        if gone:
            return f"its service {gone[0]} is not there"
        self._loose_defaults(name, defaults)
        allowed = words.get("compatibility", {})
        for key in ("hardwaretypes", "imagetypes", "services"):
            if not self._kept("templates", name, allowed, key, key):
                return f"none of the {TYPE_NAMES[key]}s that it allows is there"
        for key, kind in (("hardwaretype", "hardwaretypes"), ("imagetype", "imagetypes")):
            if allowed.get(kind) and defaults.get(key, allowed[kind][0]) not in allowed[kind]:
                why = "the template does not allow its own default"
                self._notes.add("templates", name, f"{key}: {defaults.pop(key)}", why)
        return self._unfit_rules(name, words.get("constraints", {}))

    def _loose_defaults(self, name: str, defaults: dict[str, Any]) -> None:
        for key in ("provider", "hardwaretype", "imagetype"):
            value = defaults.get(key)
            if value is not None and value not in self._known(f"{key}s"):
                self._notes.add("templates", name, f"{key}: {value}", "it is not there")
                del defaults[key]

    def _unfit_rules(self, name: str, constraints: dict[str, Any]) -> str:
        known = self._known("services")
        for service, rule in list(constraints.get("services", {}).items()):
            if service not in known:
                why = "there is no such service"
                self._notes.add("templates", name, f"constraints of {service}", why)
                del constraints["services"][service]
                continue
            for key in TYPES:
                if not self._kept("templates", name, rule, key, key):
                    return f"none of the {TYPE_NAMES[key]}s for {service} is there"
        layout = constraints.get("layout", {})
        for key, groups in layout.items():
            kept = [[each for each in group if each in known] for group in groups]
            layout[key] = [group for group in kept if len(group) > 1]
        return ""
