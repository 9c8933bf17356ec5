"""What COBs refer to: `after`, `requires`, `binds`, `stops` and `needs`, resolved to links.

A reference that is no template is the same on every host of its COB and is resolved when the site
is read. One that is a template sees the variables of the dependent's host, and is resolved per host
when its needs are asked for; hosts on which it gives the same text share one link.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobweb.errors import Finding, Place
from cobweb.model import ANY, CobType
from cobweb.site.hosts._select import Selector
from cobweb.site.objects._cobs import WORDS, CobDef, Cobs
from cobweb.site.objects._needs import BACK_WORDS, Link, Shape, has_step, word_shapes
from cobweb.site.objects._types import arrow
from cobweb.site.reading._findings import Findings, did_you_mean, one_of
from cobweb.site.reading._nodes import Leaf, Map, Node, plain
from cobweb.site.reading._settings import as_map, flag, known_keys, required, text, texts
from cobweb.site.templates._rendering import is_template

NEEDS = "needs"
_NEED_TEXTS = ("when", "cob", "on", "state")
_NEED_KEYS = (*_NEED_TEXTS, "optional")
_NEED_HINT = "write `- {when: ..., cob: ..., state: ...}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A reference as written in the list `word` of a COB; `need` is its entry in `needs`.

    One that is `optional` asks for nothing where there is no instance that it could refer to.
    """

    cob: CobDef
    word: str
    text: str
    place: Place
    need: Map | None = None
    optional: bool = False


class References:
    """Reads the references of all COBs: `links` are fixed, `varying` depend on the host."""

    def __init__(self, cobs: Cobs, selector: Selector, findings: Findings) -> None:
        self._cobs = cobs
        self._selector = selector
        self._findings = findings
        self.links: list[Link] = []
        self.varying: list[VaryingLink] = []

    def read(self) -> None:
        """Read the references of the definitions that are whole."""
        for cob in self._cobs.defs.values():
            for word in WORDS:
                for name, place in texts(cob.body, word, f"COB `{cob.name}`", self._findings):
                    self._take(Written(cob=cob, word=word, text=name, place=place))
            self._needs(cob)

    def _take(self, written: Written) -> None:
        if is_template(written.text):
            self.varying.append(VaryingLink(written, self, self._selector, self._findings))
            return
        link = self.link(written, written.text, self._findings)
        if link is None:
            return
        is_elsewhere = not written.cob.host_set <= self._cobs.defs[link.target].host_set
        if link.hosts is None and is_elsewhere and not written.optional:
            for host in written.cob.hosts:
                self.check_same_host(link, host, self._findings)
        self.links.append(link)

    def _needs(self, cob: CobDef) -> None:
        needs = cob.body.items.get(NEEDS)
        if isinstance(needs, Map | Leaf):
            message = f"`needs` of COB `{cob.name}` must be a list"
            self._findings.add(needs.place, message, _NEED_HINT)
        elif needs is not None:
            for item in needs.items:
                self._need(cob, item)

    def _need(self, cob: CobDef, node: Node) -> None:
        what = f"a need of COB `{cob.name}`"
        body = as_map(node, what, self._findings, empty=(node.place, _NEED_HINT))
        if body is None:
            return
        known_keys(body, _NEED_KEYS, what, self._findings)
        lacking = [
            key for key in ("when", "cob", "state") if not required(body, key, what, self._findings)
        ]
        optional = flag(body, "optional", what, self._findings, default=False)
        values = {
            key: text(body, key, what, self._findings) for key in _NEED_TEXTS if key in body.items
        }
        if lacking or None in values.values():
            return
        name, pattern = values["cob"], values.get("on")
        written = f"{name}@{pattern}" if pattern else str(name)
        place = body.items["cob"].place
        self._take(
            Written(cob=cob, word=NEEDS, text=written, place=place, need=body, optional=optional)
        )

    def link(self, written: Written, rendered: str, findings: Findings) -> Link | None:
        """Return the link of a reference that was rendered to `rendered`; None with findings."""
        name, sign, pattern = (part.strip() for part in rendered.partition("@"))
        if not name or (sign and not pattern):
            message = f"`{rendered}` in `{written.word}` is no reference"
            findings.add(written.place, message, "write `name` or `name@pattern`")
            return None
        target = self._target(name, written.place, findings)
        if target is None:
            return None
        if target is written.cob and not sign:
            hint = "name other hosts, as in `name@pattern`"
            findings.add(written.place, f"`{name}` refers to itself", hint)
            return None
        shapes = _shapes(written, target, findings)
        missing = Findings() if written.optional else findings
        hosts = self._instances(target, pattern, written.place, missing) if sign else None
        if not shapes or (sign and not hosts and not written.optional):
            return None
        return Link(
            source=written.cob.name,
            target=name,
            hosts=None if hosts is None else dict.fromkeys(hosts),
            shapes=shapes,
            place=written.place,
        )

    def check_same_host(self, link: Link, host: str, findings: Findings) -> bool:
        """Find a host where the dependent is and what it needs is not; False for such a one."""
        if host in self._cobs.defs[link.target].host_set:
            return True
        message = f"`{link.source}` needs `{link.target}`, which is not on the same host"
        hint = f"write `{link.target}@pattern` for other hosts, or mend `on`"
        findings.add(link.place, message, hint, host=host)
        return False

    def _target(self, name: str, place: Place, findings: Findings) -> CobDef | None:
        found, written = self._cobs.defs.get(name), self._cobs.written
        if found is None and name not in written and not self._selector.quiet:
            hint = did_you_mean(name, written, otherwise=f"known are {one_of(sorted(written))}")
            findings.add(place, f"no COB is called `{name}`", hint)
        return found

    def _instances(
        self, target: CobDef, pattern: str, place: Place, findings: Findings
    ) -> tuple[str, ...]:
        what = f"`{target.name}@{pattern}`"
        hosts = self._selector.hosts(pattern, place, what, findings)
        found = tuple(host for host in hosts if host in target.host_set)
        if hosts and not found:
            hint = f"`{target.name}` is on {', '.join(target.hosts[:3])}"
            findings.add(place, f"{what} matches no instance", hint)
        return found


class VaryingLink:
    """A reference that is a template; see `link`."""

    def __init__(
        self, written: Written, references: References, selector: Selector, findings: Findings
    ) -> None:
        self.source = written.cob.name
        name, sign, _ = written.text.partition("@")
        self.target = name.strip() if sign and not is_template(name) else None
        """The COB that it refers to on every host; None where that depends on the host."""
        self.back = written.word in BACK_WORDS
        """Whether what it refers to has needs on the dependent."""
        self._written = written
        self._references = references
        self._selector = selector
        self._findings = findings
        self._links: dict[str, Link | tuple[Finding, ...]] = {}
        self._told: set[str] = set()

    def link(self, host: str) -> Link | None:
        """Return what an instance on `host` refers to; None with findings that name the host.

        Hosts for which it is rendered to the same text get the same link.
        """
        if host in self._told:
            return None
        rendered = self._selector.text_on(
            host, self._written.text, self._written.place, self._findings
        )
        found = () if rendered is None else self._resolved(rendered)
        if isinstance(found, Link):
            is_known = found.hosts is not None or self._written.optional
            if is_known or self._references.check_same_host(found, host, self._findings):
                return found
        else:
            for finding in found:
                self._findings.add(finding.place, finding.message, finding.hint, host=host)
        self._told.add(host)
        return None

    def _resolved(self, rendered: str) -> Link | tuple[Finding, ...]:
        if rendered not in self._links:
            findings = Findings()
            made = self._references.link(self._written, rendered, findings)
            self._links[rendered] = findings.sorted() if made is None else made
        return self._links[rendered]


def _shapes(written: Written, target: CobDef, findings: Findings) -> tuple[Shape, ...]:
    if written.need is None:
        return word_shapes(written.word, written.cob.type, target.type)
    cob, body = written.cob, written.need
    when, state = (str(plain(body.items[key])) for key in ("when", "state"))
    state_place, place = body.items["state"].place, body.items["when"].place
    fits = _can_be_in(target.type, state, state_place, findings)
    pair = arrow(when)
    if pair is None:
        known = _has_state(cob.type, when.strip(), place, findings)
        return (Shape(source=when.strip(), dest=None, state=state),) if known and fits else ()
    known_both = [_has_state(cob.type, each, place, findings) for each in pair]
    if not all(known_both) or not fits:
        return ()
    if not has_step(cob.type, pair):
        shown = one_of(str(step) for step in cob.type.transitions)
        message = f"type `{cob.type.name}` has no transition `{pair[0]} -> {pair[1]}`"
        findings.add(place, message, f"it has {shown}")
        return ()
    return (Shape(source=pair[0], dest=pair[1], state=state),)


def _can_be_in(cob_type: CobType, state: str, place: Place, findings: Findings) -> bool:
    """Find a need that is for neither a state nor a group of states; False for such a one."""
    known = (*cob_type.states, *cob_type.groups)
    if state in known:
        return True
    groups = f", its groups {one_of(cob_type.groups)}" if cob_type.groups else ""
    otherwise = f"its states are {one_of(cob_type.states)}{groups}"
    what = f"no state or group `{state}`" if cob_type.groups else f"no state `{state}`"
    hint = did_you_mean(state, known, otherwise=otherwise)
    findings.add(place, f"type `{cob_type.name}` has {what}", hint)
    return False


def _has_state(cob_type: CobType, state: str, place: Place, findings: Findings) -> bool:
    """Find a state, or `*`, that the type of the dependent lacks; False for such a one."""
    if state == ANY or state in cob_type.states:
        return True
    known = f"its states are {one_of(cob_type.states)}"
    hint = did_you_mean(state, cob_type.states, otherwise=known)
    if state in cob_type.groups:
        hint = f"`{state}` is a group of states; only what is needed may be one"
    findings.add(place, f"type `{cob_type.name}` has no state `{state}`", hint)
    return False
