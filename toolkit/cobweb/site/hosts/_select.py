"""Host patterns as the site writes them: rendered with the site's variables, checked, placed."""

from __future__ import annotations

from cobweb.errors import Place
from cobweb.site.hosts._patterns import PatternError, Patterns
from cobweb.site.hosts._scope import SITE, EvaluationError, Evaluator
from cobweb.site.reading._findings import Findings


class Selector:
    """Selects hosts; what is wrong with a pattern becomes a finding.

    `quiet` says that files or the inventory could not be read well: a name that is missing is then
    a consequence and no finding. `made` are groups of sections, which may be empty for now.
    """

    def __init__(
        self, patterns: Patterns, evaluator: Evaluator, findings: Findings, *, quiet: bool
    ) -> None:
        self._patterns = patterns
        self._evaluator = evaluator
        self._findings = findings
        self.quiet = quiet
        self.made: frozenset[str] = frozenset()

    def text(self, written: str, place: Place) -> str | None:
        """Return a text of the site rendered, None with a finding where that fails."""
        return self.text_on(SITE, written, place, self._findings)

    def text_on(self, host: str, written: str, place: Place, findings: Findings) -> str | None:
        """Return a text rendered on a host, None with a finding that names it where that fails."""
        try:
            value = self._evaluator.scope(host).render(written, place)
        except EvaluationError as error:
            findings.add(error.place, error.message, error.hint, host=host)
            return None
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return ",".join(value)
        if isinstance(value, str):
            return value
        findings.add(place, "the template must give text or a list of names", host=host)
        return None

    def some(self, written: str, place: Place, what: str) -> tuple[str, ...]:
        """Return the hosts of a pattern as written; a finding where there are none."""
        pattern = self.text(written, place)
        names = (pattern or "").replace(":", ",").replace("&", ",").split(",")
        if self.made.isdisjoint(names):
            return () if pattern is None else self.hosts(pattern, place, what, self._findings)
        return self.known(pattern or "", place, what, self._findings) or ()

    def hosts(self, pattern: str, place: Place, what: str, findings: Findings) -> tuple[str, ...]:
        """Return the hosts of a rendered pattern; a finding where there are none."""
        hosts = self.known(pattern, place, what, findings)
        if hosts == () and not self.quiet:
            hint = "the groups are empty, or exclude each other"
            findings.add(place, f"{what} matches no host: `{pattern}`", hint)
        return hosts or ()

    def known(
        self, pattern: str, place: Place, what: str, findings: Findings
    ) -> tuple[str, ...] | None:
        """Return the hosts of a rendered pattern, perhaps none; None if it is wrong."""
        try:
            return self._patterns.select(pattern)
        except PatternError as error:
            if not self.quiet:
                findings.add(place, f"{what}: {error}", error.hint)
            return None
