"""The dead-man switch in a site: `confirm` of objects, and how a change is taken back."""

from __future__ import annotations

from jinja2 import Environment, TemplateSyntaxError

from cobweb.model import CobType, Confirm
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Map, key_place
from cobweb.site.reading._settings import as_map, duration, known_keys, required, text

SHORTEST_S = 5.0
"""A change, and the connection that confirms it, take longer than anything below this."""

_KEYS = ("within", "revert", "prepare")
_HINT = "as in `confirm: 60s`, or `confirm: {within: 60s, revert: ...}`"


def shell_texts(body: Map, what: str, findings: Findings) -> tuple[str, str]:
    """Return `revert` and `prepare` of a type or a `confirm`; "" for what is not there."""
    revert, prepare = (_shell_text(body, key, what, findings) for key in _KEYS[1:])
    if prepare and "revert" not in body.items:
        message = f"{what} has `prepare` without `revert`"
        findings.add(key_place(body, "prepare"), message, "say what takes the change back")
    return revert, prepare


def confirm_of(body: Map, cob_type: CobType, what: str, findings: Findings) -> Confirm | None:
    """Return the dead-man switch of an object; None without one, with a finding for a wrong one."""
    node = body.items.get("confirm")
    if node is None:
        return None
    label = f"`confirm` of {what}"
    if isinstance(node, Leaf) and node.value is not None:
        within_s = duration(body, "confirm", what, findings)
        revert = prepare = ""
    else:
        section = as_map(node, label, findings, empty=(node.place, _HINT))
        if section is None:
            return None
        known_keys(section, _KEYS, label, findings)
        required(section, "within", label, findings, hint=_HINT)
        within_s = duration(section, "within", label, findings)
        revert, prepare = shell_texts(section, label, findings)
    if within_s is not None and within_s < SHORTEST_S:
        message = f"{label} is shorter than {SHORTEST_S:g} s"
        findings.add(node.place, message, "a change and a new connection take longer")
    if not revert and not cob_type.revert:
        message = f"{label}: nothing says how its host takes a change back"
        hint = f"the type `{cob_type.name}` has no `revert`; write `confirm: {{..., revert: ...}}`"
        findings.add(node.place, message, hint)
    if any(getattr(it, "together", False) for it in cob_type.actions()):
        message = f"{label}: what goes `together` is not confirmed host by host"
        findings.add(node.place, message, f"the type `{cob_type.name}` says `together`")
    return None if within_s is None else Confirm(within_s=within_s, revert=revert, prepare=prepare)


def _shell_text(body: Map, key: str, what: str, findings: Findings) -> str:
    found = text(body, key, what, findings) or ""
    try:
        Environment().parse(found)  # noqa: S701  # looked at only: it is filled in on the way
    except TemplateSyntaxError as error:
        message = f"`{key}` of {what} is no template: {error.message}"
        findings.add(body.items[key].place, message, "mend the syntax")
    return found
