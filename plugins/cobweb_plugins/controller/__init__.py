"""Built-in plugin: what was decided besides the site's files, and what a controller may do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.plugin import Extension, Section, data_dir, hookimpl

if TYPE_CHECKING:
    import click

    from cobweb.model import Expansion
    from cobweb.plugin import ExpandContext, SiteAccess

__all__ = ["cobweb_interface"]

cobweb_interface = 1


class ServeSection:
    """Policy of the controller. It stands for nothing, and is checked with the site."""

    name: ClassVar[str] = "serve"
    schema: ClassVar[Mapping[str, Any]] = json.loads(
        (data_dir("schemas") / "sections" / "serve.schema.json").read_text(encoding="utf-8")
    )

    @classmethod
    def reasons(cls, access: SiteAccess, cob: str) -> Sequence[str]:
        """Return what was decided of an object, why, and what of it is not admitted."""
        from cobweb_plugins.controller.deciders._listed import reasons_of

        return reasons_of(access, cob)

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:  # noqa: ARG002  # of the protocol
        """Return nothing; ModelError with all that is wrong."""
        from cobweb.model import Expansion
        from cobweb_plugins.controller._policy import check_policy

        check_policy(sections)
        return Expansion()


class DeciderPoint:
    """The extension point `decider`, at which plugins add what decides: `deciders.Decider`."""

    point: ClassVar[str] = "extension-point"
    name: ClassVar[str] = "decider"


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register the commands for decisions, and those for a controller."""
    from cobweb.plugin import on_site
    from cobweb_plugins.controller import _commands as it

    commands = (it.decisions, it.decide, it.deciders, it.serve, it.approvals, it.approve)
    return list(map(on_site, (*commands, it.reject, it.pin, it.unpin)))


@hookimpl
def cobweb_register_extensions() -> Sequence[type[Extension]]:
    """Register the point of deciders."""
    return [DeciderPoint]


@hookimpl
def cobweb_register_sections() -> Sequence[type[Section]]:
    """Register `serve`."""
    return [ServeSection]
