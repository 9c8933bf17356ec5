"""Jobs that go together are one play, so that words which span hosts mean what they mean there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Host, Job, Outcome, Report, Tasks, cob_id
from cobweb_plugins.ansible._results import END_TASK
from tests.plugins.ansible.conftest import BOTH, LIMIT_S, LOCAL, Bench, MakeBench, local_hosts

pytestmark = pytest.mark.gate("an ansible-playbook runs a play of several hosts on this machine")

WORDS = ["{{ no }}", "b", "c"]
SPAN = """
- name: once
  ansible.builtin.shell: echo {{ inventory_hostname }} >> DIR/once
  run_once: true
- name: one at a time
  ansible.builtin.shell: |
    echo in >> DIR/turns
    echo out >> DIR/turns
  throttle: 1
- ansible.builtin.command: echo {{ cob.spec.word }}
  register: said
- ansible.builtin.set_fact:
    cob_results:
      play: "{{ ansible_play_hosts }} {{ ansible_play_batch }}"
      others: "{{ ansible_play_hosts | map('extract', hostvars, ['said', 'stdout']) | list }}"
      own: "{{ cob.host }} {{ cob.spec.word }} {{ hostvars.h3.cob.host }} {{ site_word }}"
"""


def jobs(bench: Bench, text: str, *, count: int = 3, **more: Any) -> list[Job]:
    """Return jobs of as many hosts that go together, with these tasks."""
    path = bench.write("span.yml", text.replace("DIR", str(bench.folder)))
    action = Tasks(path=str(path), together=True, **more.pop("action", {}))
    return [
        bench.job(action, host=f"h{number}", spec={"word": word}, **more)
        for number, word in zip(range(1, count + 1), WORDS, strict=False)
    ]


def lines(bench: Bench, name: str) -> list[str]:
    """Return the lines that tasks wrote."""
    return (bench.folder / name).read_text().splitlines()


def outcomes(reports: list[Report]) -> list[str]:
    """Return how jobs ended."""
    return [str(report.outcome) for report in reports]


def hosts_of(count: int) -> dict[str, Host]:
    """Return local hosts whose variable `site_word` is their name."""
    hosts = local_hosts(count).values()
    return {it.name: replace(it, variables={**LOCAL, "site_word": it.name}) for it in hosts}


@BOTH
def test_what_spans_hosts_means_what_it_means_in_ansible(make_bench: MakeBench, kind: Any) -> None:
    """One play has all of them; each has its own object, and reports for itself."""
    bench = make_bench(kind, inventory=hosts_of(3), parallel=2)
    reports = bench.run(*jobs(bench, SPAN))
    assert outcomes(reports) == ["ok"] * 3, reports
    assert lines(bench, "once") == ["h1"]
    assert lines(bench, "turns") == ["in", "out"] * 3
    everyone = ["h1", "h2", "h3"]
    for report, name, word in zip(reports, everyone, WORDS, strict=True):
        assert report.results == {
            "play": f"{everyone} {everyone}",
            "others": WORDS,
            "own": f"{name} {word} h3 {name}",
        }
        names = [task.name for task in report.tasks]
        assert names.count("one at a time") == 1
        assert END_TASK not in names


@BOTH
def test_who_fails_alone_fails_alone(make_bench: MakeBench, kind: Any) -> None:
    """The others come to their end; where one stops the play, no other is said to have done so."""
    bench = make_bench(kind, hosts=3)
    text = """
- name: bad
  ansible.builtin.command: {argv: [test, "{{ cob.spec.word }}", "!=", b]}
  any_errors_fatal: ANY
- ansible.builtin.shell: echo {{ inventory_hostname }} >> DIR/done
"""
    reports = bench.run(*jobs(bench, text.replace("ANY", "false")))
    assert outcomes(reports) == ["ok", "failed", "ok"]
    assert sorted(lines(bench, "done")) == ["h1", "h3"]
    reports = bench.run(*jobs(bench, text.replace("ANY", "true")))
    assert outcomes(reports) == ["failed"] * 3
    assert reports[1].message.startswith("bad: non-zero return code")
    stopped = "the play was stopped before its end: bad: non-zero return code"
    assert [reports[0].message, reports[2].message] == [stopped] * 2
    assert len(lines(bench, "done")) == 2


@BOTH
def test_a_play_that_ends_early_has_ended_well(make_bench: MakeBench, kind: Any) -> None:
    """That is what `end_play` and `end_host` are for, also where another host fails."""
    bench = make_bench(kind, hosts=3)
    (one, other) = bench.run(*jobs(bench, "- ansible.builtin.meta: end_play\n", count=2))
    assert outcomes([one, other]) == ["ok", "ok"]
    text = """
- {ansible.builtin.meta: end_host, when: "inventory_hostname == 'h1'"}
- {ansible.builtin.fail: {msg: no}, when: "inventory_hostname == 'h2'"}
"""
    assert outcomes(bench.run(*jobs(bench, text))) == ["ok", "failed", "ok"]


@BOTH
def test_only_instances_of_one_object_are_one_play(make_bench: MakeBench, kind: Any) -> None:
    """Other objects, steps and later rounds have plays of their own."""
    bench = make_bench(kind, hosts=2)
    text = "- ansible.builtin.shell: echo {{ ansible_play_hosts | length }} >> DIR/plays\n"
    first, second = jobs(bench, text, count=2)
    other = replace(first, number=90, cob=cob_id("h1", "other"))
    step = replace(second, number=91, source="outdated", dest="up")
    assert outcomes(bench.run(first, other, step, second)) == ["ok"] * 4
    assert sorted(lines(bench, "plays")) == ["1", "1", "2", "2"]
    assert outcomes(bench.run(replace(first, number=92))) == ["ok"]
    assert sorted(lines(bench, "plays")) == ["1", "1", "1", "2", "2"]


@BOTH
def test_a_check_mode_of_several_hosts(make_bench: MakeBench, kind: Any) -> None:
    """Each finds its own state; what is done once is looked at once."""
    bench = make_bench(kind, hosts=3)
    (bench.folder / "b").write_text("there")
    text = """
- ansible.builtin.copy: {dest: "DIR/{{ cob.spec.word }}", content: there}
  when: cob.spec.word in 'bc'
- ansible.builtin.copy: {dest: DIR/once, content: there}
  run_once: true
"""
    finds = {"finds": ("up", "outdated", "down")}
    reports = bench.run(*jobs(bench, text, check=True, action=finds))
    assert [report.state for report in reports] == ["outdated", "up", "outdated"]
    assert not (bench.folder / "once").exists()


@BOTH
def test_a_play_that_is_stopped_is_stopped_whole(
    make_bench: MakeBench, kind: Any, fifo: tuple[Path, int]
) -> None:
    """By its time limit, or the end of the run; what waits is never begun."""
    bench = make_bench(kind, hosts=2, parallel=1)
    text = f"- ansible.builtin.shell: echo . > {fifo[0]}; sleep 1000\n"
    waiting = jobs(bench, text, count=2)
    for job in jobs(bench, text, count=2, timeout_s=LIMIT_S):
        bench.executor.submit(job)
    for job in waiting:
        bench.executor.submit(replace(job, cob=cob_id(job.host, "later")))
    bench.until_written(fifo[1], 2)  # one fork, so one host
    bench.executor.close(kill=True)
    reports = sorted(bench.executor.wait(0.0), key=lambda report: report.number)
    assert outcomes(reports) == ["cancelled"] * 4
    assert [report.began for report in reports] == [False, False, True, True]


@BOTH
def test_a_play_that_takes_too_long(make_bench: MakeBench, kind: Any) -> None:
    """Each of its jobs has taken too long then; it has time for each round of its forks."""
    bench = make_bench(kind, hosts=2, parallel=1)
    reports = bench.run(*jobs(bench, "- command: sleep 1000\n", count=2, timeout_s=3.0))
    assert outcomes(reports) == [str(Outcome.TIMEOUT)] * 2
    assert reports[0].message == "took longer than 6 s and was stopped"


@BOTH
def test_the_first_host_is_that_of_the_group(make_bench: MakeBench, kind: Any) -> None:
    """It does what is done once, as in a play of the group."""
    groups = {"all": ["h1", "h2", "h3"], "ring": ["h3", "h1"], "other": ["h2", "h1", "h3"]}
    bench = make_bench(kind, hosts=3, groups=groups)
    text = "- ansible.builtin.shell: echo {{ ansible_play_hosts | join(' ') }} >> DIR/first\n"
    text += "  run_once: true\n"
    first, second, third = jobs(bench, text)
    assert outcomes(bench.run(first, third)) == ["ok"] * 2
    assert outcomes(bench.run(*(replace(it, number=it.number + 50) for it in (first, second))))
    assert lines(bench, "first") == ["h3 h1", "h1 h2"]
