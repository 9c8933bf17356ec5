"""Say which data models have changed since files of the site were made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb.cli._output import Output

if TYPE_CHECKING:
    from cobweb.api import Site


def note_stale_models(session: Site, output: Output) -> None:
    """Tell, one line each, which models say something else than what was made of them."""
    from cobweb.site import find_models

    for model in find_models(session.path, allow_outside=session.allow_outside):
        import hashlib

        from cobweb.operations import written_digest

        written = written_digest(model)
        if written != hashlib.sha256(model.path.read_bytes()).hexdigest():
            where = f"{model.into.relative_to(model.site_dir)}/"
            what = f"has changed since {where} was made"
            if not written:
                what = f"was not used yet: {where} is to be made"
            output.note(f"{model.name} {what}; run `cobweb generate`")
