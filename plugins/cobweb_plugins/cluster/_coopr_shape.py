"""The form of Coopr's entities, as far as an import looks at them; the rest may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Shape = dict[str, Any]

_TEXT: Shape = {"type": ["string", "null"]}
_NAMES: Shape = {"type": ["array", "null"], "items": {"type": "string"}}
_GROUPS: Shape = {"type": ["array", "null"], "items": _NAMES}
_FREE: Shape = {"type": ["object", "null"]}


def _with(**properties: Shape) -> Shape:
    return {**_FREE, "properties": properties}


def _each(of: Shape) -> Shape:
    return {**_FREE, "additionalProperties": of}


_NEEDS = _with(requires=_NAMES, uses=_NAMES)
_TYPES = _with(description=_TEXT, providermap=_each({"type": "object"}))
_BASED_ON: Shape = {
    "anyOf": [_TEXT, {"type": "object", "required": ["name"], "properties": {"name": _TEXT}}]
}
_RULE = _with(hardwaretypes=_NAMES, imagetypes=_NAMES, quantities=_FREE)
_SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "providers": _with(description=_TEXT, providertype=_TEXT, provisioner=_FREE),
        "hardwaretypes": _TYPES,
        "imagetypes": _TYPES,
        "services": _with(
            description=_TEXT,
            version=_TEXT,
            dependson=_NAMES,
            dependencies=_with(provides=_NAMES, conflicts=_NAMES, install=_NEEDS, runtime=_NEEDS),
            provisioner=_with(actions=_each(_with(type=_TEXT, fields=_FREE))),
        ),
        "clustertemplates": _with(
            description=_TEXT,
            extends=_BASED_ON,
            includes={"type": ["array", "null"], "items": _BASED_ON},
            defaults=_with(
                services=_NAMES, provider=_TEXT, hardwaretype=_TEXT, imagetype=_TEXT, config=_FREE
            ),
            compatibility=_with(hardwaretypes=_NAMES, imagetypes=_NAMES, services=_NAMES),
            constraints=_with(
                size=_FREE,
                layout=_with(mustcoexist=_GROUPS, cantcoexist=_GROUPS),
                services=_each(_RULE),
            ),
            administration=_with(leaseduration=_FREE),
            links={"type": ["array", "null"], "items": {"type": "object"}},
        ),
    }
)


def misshapen(kind: str, data: Mapping[str, Any]) -> str:
    """Say what of an entity is not as Coopr writes it; "" if nothing is."""
    from jsonschema import Draft202012Validator

    error = next(iter(Draft202012Validator(_SHAPES[kind]).iter_errors(dict(data))), None)
    if error is None:
        return ""
    return f"its {'.'.join(map(str, error.absolute_path))} is not as Coopr writes it"
