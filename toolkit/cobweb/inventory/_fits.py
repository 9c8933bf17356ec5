"""Whether specs that were evaluated before still fit a type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cobweb.errors import Place
from cobweb.inventory._nodes import Leaf
from cobweb.model import Cob

_NOWHERE = Leaf(value=None, place=Place(file=""))


def unfit_specs(cobs: Iterable[Cob]) -> Iterator[str]:
    """Yield what in specs does not fit the schemas of their types; one problem per object."""
    from cobweb.inventory._schemas import SpecChecker

    checkers: dict[int, SpecChecker] = {}
    for cob in cobs:
        if cob.type.spec_schema is None:
            continue
        checker = checkers.setdefault(id(cob.type), SpecChecker(cob.type.spec_schema))
        problem = next(checker.problems(cob.spec, _NOWHERE), None)
        if problem is not None:
            yield f"{cob.id}: {problem[1]}"
