"""What the adapter `gridengine` reads out of answers of a Grid Engine, and what it does not."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tests.support.pool_members import loaded

QHOST = """\
<?xml version='1.0'?>
<qhost xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qhost/qhost.xsd">
 <host name='global'>
   <hostvalue name='arch_string'>-</hostvalue>
 </host>
 <host name='n01.lab'>
   <hostvalue name='arch_string'>lx-amd64</hostvalue>
   <hostvalue name='load_avg'>0.16</hostvalue>
 <queue name='all.q'>
   <queuevalue qname='all.q' name='qtype_string'>BI</queuevalue>
   <queuevalue qname='all.q' name='slots_used'>1</queuevalue>
   <queuevalue qname='all.q' name='slots'>2</queuevalue>
   <queuevalue qname='all.q' name='slots_resv'>0</queuevalue>
   <queuevalue qname='all.q' name='state_string'>%s</queuevalue>
 </queue>
 <job name='8'>
   <jobvalue jobid='8' name='job_name'>arr</jobvalue>
   <jobvalue jobid='8' name='job_owner'>batch</jobvalue>
   <jobvalue jobid='8' name='taskid'>1</jobvalue>
 </job>
 </host>
</qhost>
"""
ROW = """\
    <job_list state="pending">
      <JB_job_number>{number}</JB_job_number>
      <JAT_prio>0.50000</JAT_prio>
      <JB_name>a%lt;b&amp;c</JB_name>
      <JB_owner>batch</JB_owner>
      <state>{state}</state>
      <queue_name></queue_name>
      <slots>{slots}</slots>
      {more}
      <binding>NONE</binding>
    </job_list>
"""
QSTAT = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
  </queue_info>
  <job_info>
{}  </job_info>
</job_info>
"""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return what reads answers, as it is on a host."""
    loaded(monkeypatch, "cobweb_pool_counter")  # with all that modules of adapters import
    return sys.modules["ansible.module_utils.cobweb_gridengine"]


def row(number: int, state: str = "qw", slots: int = 1, more: str = "") -> str:
    """Return a pending job as qstat says it."""
    return ROW.format(number=number, state=state, slots=slots, more=more)


@pytest.mark.parametrize(
    ("letters", "silent", "disabled", "queued"),
    [
        ("", False, False, True),
        ("d", False, True, True),
        ("duo", True, True, False),
        ("u", True, False, True),
        ("a", False, False, True),
    ],
)
def test_letters_say_what_a_host_does(
    engine: ModuleType, letters: str, *, silent: bool, disabled: bool, queued: bool
) -> None:
    node = engine.nodes_of(QHOST % letters)["n01"]
    assert (node.name, node.silent, node.disabled, node.queued) == (
        "n01.lab",
        silent,
        disabled,
        queued,
    )
    assert (node.used, node.slots, [str(it) for it in node.jobs]) == (1, 2, ["8.1 (batch: arr)"])


@pytest.mark.parametrize(
    ("letters", "target", "state"),
    [
        ("", "up", "up"),
        ("u", "draining", "up"),
        ("d", "up", "draining"),
        ("du", "draining", "draining"),
        # It is in no queue that stays.
        ("o", "up", "up"),
        ("o", "draining", "draining"),
        ("o", "down", "up"),
    ],
)
def test_the_entry_drains_where_no_queue_gives_its_host_work(
    monkeypatch: pytest.MonkeyPatch, letters: str, target: str, state: str
) -> None:
    module = loaded(monkeypatch, "cobweb_gridengine")
    known = {"n01": "n01.lab"}
    monkeypatch.setattr(module.Master, "entries", lambda _self: known)
    nodes = sys.modules["ansible.module_utils.cobweb_gridengine"].nodes_of(QHOST % letters)
    monkeypatch.setattr(module.Master, "nodes", lambda _self: nodes)
    cob = {"spec": {"resource": "n01", "with": {}}, "target": target}
    assert module.entry_check(cob) == {"state": state}
    known.clear()
    assert module.entry_check(cob) == {"state": "down"}


def test_what_is_held_or_in_error_is_not_pending(engine: ModuleType) -> None:
    rows = [row(1), row(2, "hqw"), row(3, "Eqw"), row(4, "Rq", more="<tasks>1-5:2,8</tasks>")]
    found = engine.pending_of(QSTAT.format("".join(rows)))
    assert [(it.number, it.tasks, it.is_array) for it in found] == [("1", 1, False), ("4", 4, True)]


def test_jobs_that_ask_for_the_same_are_of_one_kind(engine: ModuleType) -> None:
    asks = '<hard_request name="arch" resource_contribution="0.0">{}</hard_request>'
    rows = [row(1, more=asks.format("a")), row(2, more=asks.format("a")), row(3, slots=2)]
    first, second, third = engine.pending_of(QSTAT.format("".join(rows)))
    assert first.kind == second.kind != third.kind


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "error: commlib error",
        QHOST[:-10],
        "<job_info/>",
        "<qhost><host/></qhost>",
        "<qhost><host name='n01'/></qhost>",
        (QHOST % "").replace("'slots'>2", "'slots'>two"),
    ],
)
def test_hosts_are_not_read_out_of_an_answer_that_is_broken(
    engine: ModuleType, answer: str
) -> None:
    with pytest.raises(engine.Failed, match=r"^qhost: "):
        engine.nodes_of(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        QSTAT.format(row(1))[:-40],
        "<qhost/>",
        QSTAT.format(row(1).replace("<slots>1", "<slots>")),
        QSTAT.format(row(1).replace("_number>1", "_number>one")),
        QSTAT.format(row(1, more="<tasks>1-x</tasks>")),
    ],
)
def test_jobs_are_not_read_out_of_an_answer_that_is_broken(engine: ModuleType, answer: str) -> None:
    with pytest.raises(engine.Failed, match=r"^qstat: "):
        engine.pending_of(answer)
