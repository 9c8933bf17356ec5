"""What people of Ansible write, and what they are told: the cause, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

FACT = "write it as a variable of the host, or use it in a task, after `setup`"
NAMES = "letters, digits, `_`, `.` and `-`, at most 253, all of ASCII"
LIMIT = "cobs: {c: {type: simple, on: app}}\nlimits: {l: {on: app, max: %s}}"


def spec(text: str) -> str:
    return f'cobs: {{c: {{type: simple, on: app01, spec: {{x: "{text}"}}}}}}'


def hosts(name: str) -> str:
    return f"inventory: {{app: {{hosts: {{{name}: }}}}}}"


FINDINGS = {
    "a fact of this host": (
        spec("{{ ansible_default_ipv4.address }}"),
        f"facts are not known when a site is evaluated: `ansible_default_ipv4` [on app01] ({FACT})",
    ),
    "facts": (
        spec("{{ ansible_facts['hostname'] }}"),
        f"facts are not known when a site is evaluated: `ansible_facts` [on app01] ({FACT})",
    ),
    "a fact of another host": (
        spec("{{ hostvars['db01'].ansible_distribution }}"),
        f"facts are not known when a site is evaluated: `ansible_distribution` [on app01] ({FACT})",
    ),
    "no fact": (
        spec("{{ ansible_conection }}"),
        (
            "`ansible_conection` is undefined [on app01] (it is neither a variable of the host"
            " nor one of Ansible's own)"
        ),
    ),
    "no fact of another host": (
        spec("{{ hostvars['db01'].rack }}"),
        (
            "the template fails: a value has no attribute `rack` [on app01] (look at what stands"
            " before the dot)"
        ),
    ),
    "a number as text": (
        LIMIT % '"2"',
        (
            "`max` of limit `l` must be a number from 1 or a percentage, not the text `2` (write it"
            " without quotes: `max: 2`)"
        ),
    ),
    "half a unit": (
        LIMIT % "1.5",
        (
            "`max` of limit `l` must be a number from 1 or a percentage, not `1.5` (as in `max: 2`"
            " or `max: 25%`; `max: 0` is a freeze)"
        ),
    ),
    "no share": (
        LIMIT % "0%",
        (
            "`max` of limit `l` must be a number from 1 or a percentage, not `0%` (as in `max: 2`"
            " or `max: 25%`; `max: 0` is a freeze)"
        ),
    ),
    "a short IPv6 address": (
        hosts('"::1"'),
        (
            "`::1` is no name for a host (give it a name, and write the address as"
            " `ansible_host: '::1'`)"
        ),
    ),
    "an IPv6 address in brackets": (
        hosts('"[2001:db8::56e]"'),
        (
            "host `[2001:db8::56e]`: a range is written [first:last] or [first:last:step] (an IPv6"
            " address has no brackets: 2001:db8::56e)"
        ),
    ),
    "a port": (
        hosts('"app01:22"'),
        "`app01:22` is no name for a host (write the port as the variable `ansible_port`)",
    ),
    "a name that is not ASCII": (
        hosts("größe1"),
        f"`größe1` is no name for a host ({NAMES}; write the other name as `ansible_host: größe1`)",
    ),
}


@pytest.mark.parametrize(("text", "said"), FINDINGS.values(), ids=FINDINGS)
def test_a_mistake_has_its_cause_and_what_to_do(maker: Any, text: str, said: str) -> None:
    found = maker.findings(text)
    assert [it for it in found if it.split(": ", 1)[1] == said], found


def test_a_host_and_a_group_of_one_name_are_worth_a_word(maker: Any) -> None:
    site = maker.site("inventory: {web: {hosts: {db: }}, db: {hosts: {d1: }}}")
    (note,) = site.notes()
    assert str(note) == (
        "site.yml:2:27: `db` is a host and a group: a pattern means the host (rename one of them)"
    )


def test_a_limit_may_let_nobody_out(maker: Any) -> None:
    for more in ("", ", transition: down -> up", ", per: rack"):
        text = LIMIT.replace("%s}", f"0{more}}}")
        site = maker.site(f"{text}\ninventory: {{app: {{hosts: {{app01: }}, vars: {{rack: a}}}}}}")
        graph = site.graph()
        bounds = [it.bound(5) for it in graph.budgets]
        bounds += [group.bound for it in graph.limits for group in it.groups]
        assert bounds == [0]
        assert site.notes() == ()
