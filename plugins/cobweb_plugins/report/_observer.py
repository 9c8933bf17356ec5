"""The observer `annotations`: when a command has ended, its pipeline is told what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.errors import UsageError
from cobweb_plugins.report._pipeline import in_pipeline, tell_pipeline

if TYPE_CHECKING:
    from cobweb_plugins.report._recorder import Recorder


class Annotations:
    """Records all runs of a call, and tells of the one that the result is of."""

    name: ClassVar[str] = "annotations"

    def unasked(self) -> bool:
        """Say whether there is a pipeline to be told."""
        return in_pipeline()

    def open(self, argument: str) -> None:
        """Get ready; there is no argument to give."""
        if argument:
            raise UsageError(f"annotations take no argument {argument!r}")
        self._runs: dict[str, Recorder] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        """Record an event; a run begins with a `version`, and says its name in the next one."""
        from cobweb_plugins.report._recorder import Recorder

        if event["type"] == "version":
            self._recorder = Recorder()
        elif event["type"] == "run.start":
            self._runs[event["run"]] = self._recorder
        self._recorder.take(event)

    def close(self, result: Mapping[str, Any] | None) -> None:
        """Tell the pipeline, where the run did not go well."""
        if result is None or not result["exit_code"] or result["run"] not in self._runs:
            return
        from cobweb_plugins.report.forms import RunFacts, make_report

        story = self._runs[result["run"]].story()
        tell_pipeline(make_report(story, RunFacts(waits=result.get("unsettled", ()))))
