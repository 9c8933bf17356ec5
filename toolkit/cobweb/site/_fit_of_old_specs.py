"""Whether specs that were evaluated before still fit a type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cobweb.errors import Place
from cobweb.generation import INPUTS
from cobweb.model import Cob
from cobweb.site.reading._nodes import Leaf

_NOWHERE = Leaf(value=None, place=Place(file=""))


def unfit_specs(cobs: Iterable[Cob]) -> Iterator[str]:
    """Yield what in specs, but for variables, does not fit their types; one problem per object."""
    from cobweb.site.reading._schemas import SpecChecker

    checkers: dict[int, SpecChecker] = {}
    for cob in cobs:
        if cob.type.spec_schema is None:
            continue
        checker = checkers.setdefault(id(cob.type), SpecChecker(cob.type.spec_schema))
        is_named = INPUTS in cob.type.spec_schema.get("properties", {})
        spec = {key: it for key, it in cob.spec.items() if key != INPUTS or is_named}
        problem = next(checker.problems(spec, _NOWHERE), None)
        if problem is not None:
            yield f"{cob.id}: {problem[1]}"
