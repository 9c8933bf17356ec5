"""What services answer: asked all at once, and read by their adapters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cobweb.errors import CobwebError
from cobweb.model import UNKNOWN, Outcome
from cobweb.plugin import Answer as Said
from cobweb.plugin import Question
from cobweb_plugins.pools._adapters import observed_of, question

if TYPE_CHECKING:
    from cobweb_plugins.pools._section import Layout
    from cobweb_plugins.pools.decision import Observed

Ask = Callable[[Mapping[str, Question]], Mapping[str, Said]]


def now_s() -> float:
    """Return seconds since the epoch."""
    return datetime.now(UTC).timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a service has answered; where it could not be asked `observed` is None, `said` why."""

    observed: Observed | None = None
    said: str = ""

    @property
    def runs(self) -> bool:
        """Whether the service says that it is running."""
        return self.observed is not None and self.observed.state == "running"

    @property
    def state(self) -> str:
        """The state of the service, which is unknown where it could not be asked."""
        return str(self.observed.state) if self.observed else UNKNOWN

    def has(self, id_: str) -> bool:
        """Return whether the service says that it has a resource."""
        return self.observed is not None and id_ in self.observed.members

    @property
    def why(self) -> str:
        """What is wrong with the service, if something is."""
        return self.said or ("" if self.runs else f"it is {self.state}")


def asked(layout: Layout, services: Iterable[str], ask: Ask) -> dict[str, Answer]:
    """Ask services, all at once, and return what each has answered."""
    names = list(dict.fromkeys(services))
    begun_s = now_s()
    questions = {
        name: found
        for name in names
        if (found := question(layout.service(name), layout.adapter(name)))
    }
    said = ask(questions) if questions else {}
    arrived_s = now_s()
    return {name: _answer(layout, name, said.get(name), begun_s, arrived_s) for name in names}


def _answer(
    layout: Layout, name: str, said: Said | None, begun_s: float, arrived_s: float
) -> Answer:
    """Return what a service has said; what cannot be read is an answer as well."""
    if said is not None and said.outcome is not Outcome.OK:
        return Answer(said=said.message or str(said.outcome))
    data = {} if said is None else said.data
    try:
        found = layout.adapter(name).read(layout.service(name), data)
        return Answer(observed=observed_of(found, begun_s, arrived_s))
    except CobwebError:
        raise
    except Exception as error:  # noqa: BLE001 - a plugin's: it is the answer's to say
        return Answer(said=str(error))


def answer_data(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain JSON data for `answer_of`; a number that is none is null."""
    it = answer.observed
    if it is None:
        return {"said": answer.said}
    return {
        "begun": it.begun_s,
        "arrived": it.arrived_s,
        "state": str(it.state),
        "kpis": [
            {"name": kpi.name, "value": _plain(kpi.value), "properties": dict(kpi.properties)}
            for kpi in it.kpis
        ],
        "members": {
            id_: {
                "idle": seen.idle,
                "jobs": seen.jobs,
                "load": _plain(seen.load),
                "state": str(seen.state),
            }
            for id_, seen in it.members.items()
        },
    }


def answer_of(data: Mapping[str, Any]) -> Answer:
    """Return the answer that `answer_data` made this of."""
    if "said" in data:
        return Answer(said=data["said"])
    return Answer(observed=observed_of(data, data["begun"], data["arrived"]))


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
