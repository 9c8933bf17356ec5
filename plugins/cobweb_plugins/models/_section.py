"""The section `generate` of a site: its data models, by their files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from cobweb.plugin import SiteAccess, data_dir


class GenerateSection:
    """Which files of the site are data models, and which adapter makes files of each.

    It stands for nothing: the files that were made are imported by the site, as others are.
    """

    name: ClassVar[str] = "generate"
    schema: ClassVar[Mapping[str, Any]] = json.loads(
        (data_dir("schemas") / "sections" / "generate.schema.json").read_text(encoding="utf-8")
    )

    @staticmethod
    def notes(access: SiteAccess) -> Iterator[str]:
        """Yield which models say something else than what was made of them."""
        from cobweb_plugins.models._models import find_models

        for model in find_models(access):
            import hashlib

            from cobweb_plugins.models._made_files import written_digest

            written = written_digest(model)
            if written != hashlib.sha256(model.path.read_bytes()).hexdigest():
                where = f"{model.into.relative_to(model.site_dir)}/"
                what = f"has changed since {where} was made"
                if not written:
                    what = f"was not used yet: {where} is to be made"
                yield f"{model.name} {what}; run `cobweb generate`"
