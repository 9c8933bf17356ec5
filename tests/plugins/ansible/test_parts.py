"""The parts by themselves: messages, the wire, trees of processes."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from cobweb_plugins.ansible._playbooks import _text_only
from cobweb_plugins.ansible._processes import Tree, descendants, end_ssh_masters
from cobweb_plugins.ansible._results import (
    MESSAGE_LIMIT,
    Collector,
    TaskEnd,
    bounded,
    describe,
    facts_of,
)
from cobweb_plugins.ansible._wire import LineBuffer, encode


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({}, ""),
        ({"msg": "no"}, "no"),
        ({"msg": "non-zero return code", "stderr": "a\n b\n"}, "non-zero return code: a b"),
        ({"msg": "same", "stderr": "same"}, "same"),
        ({"stdout": "said"}, "said"),
        ({"msg": None, "reason": "why"}, "why"),
        ({"msg": "MODULE FAILURE", "module_stderr": "trace"}, "MODULE FAILURE: trace"),
        ({"censored": "hidden", "msg": "secret"}, "hidden"),
        ({"msg": "items", "results": [{"msg": "ok"}, {"failed": True, "msg": "bad"}]}, "bad"),
        ({"msg": "items", "results": "no list"}, "items"),
        (
            {"unreachable": True, "msg": "Failed to connect to the host via ssh: "},
            "Failed to connect to the host via ssh: exit status 255, nothing said",
        ),
        ({"msg": "it ended:", "rc": 3}, "it ended: exit status 3, nothing said"),
        ({"msg": "it ended:"}, "it ended"),
        ({"msg": "it ended", "rc": 3, "stderr": "why"}, "it ended: why"),
    ],
)
def test_description_of_a_result(result: dict[str, object], text: str) -> None:
    """The line says what the result says, of a loop what the failing item says."""
    assert describe(result) == text


def test_long_text_keeps_both_ends() -> None:
    """What is too long loses its middle and becomes one line."""
    text = bounded("begin\n" + "x" * 5000 + " end")
    assert len(text) <= MESSAGE_LIMIT
    assert text.startswith("begin x")
    assert text.endswith("x end")


def _end(event: str, **more: object) -> TaskEnd:
    values = {"result": {"msg": event}, "changed": False, "ignored": False, **more}
    return TaskEnd(event=event, name="t", **values)  # type: ignore[arg-type]  # made of literals


def test_collector_tells_the_last_failure_that_counts() -> None:
    """Ignored failures leave no trace in the outcome; a job without a reason says so."""
    collector = Collector()
    collector.add(_end("failed", ignored=True))
    assert collector.end(ok=False, check=False, facts={})["message"] == "Ansible gave no reason"
    collector.add(_end("unreachable", delegated="other"))
    fields = collector.end(ok=False, check=False, facts={})
    assert fields["outcome"] == "failed"
    assert fields["message"] == "t: other is unreachable: unreachable"
    collector.add(_end("unreachable"))
    assert collector.end(ok=False, check=False, facts={})["outcome"] == "unreachable"


@pytest.mark.parametrize(
    ("words", "said"), [(None, ""), ("", ""), (" a\n b ", "a b"), (["a"], "['a']")]
)
def test_a_check_may_say_what_differs(words: object, said: str) -> None:
    """In one line; one that says nothing has an empty message."""
    fields = Collector().end(ok=True, check=True, facts={"cob_state": "up", "cob_message": words})
    assert (fields["state"], fields["message"]) == ("up", said)


@pytest.mark.parametrize(
    ("facts", "ok", "results", "message"),
    [
        ({}, True, {}, ""),
        ({"cob_results": {"id": 5}}, True, {"id": 5}, ""),
        ({"cob_results": {"id": 5}}, False, {"id": 5}, "Ansible gave no reason"),
        ({"cob_results": {"id": 5, "pw": 6}, "cob_secret_results": ["pw", "other"]}, True,
         {"id": 5}, "the result pw is secret, and no secret is kept"),
        ({"cob_results": {"pw": 6}, "cob_secret_results": "pw"}, False, {},
         "Ansible gave no reason"),
        ({"cob_results": [5]}, True, {}, "tasks set cob_results to a list, results are a mapping"),
    ],
    ids=["none", "kept", "kept-of-a-failure", "secret", "secret-of-a-failure", "no-mapping"],
)  # fmt: skip
def test_what_tasks_hand_back_is_told_but_no_secret(
    facts: dict[str, Any],
    *,
    ok: bool,
    results: dict[str, Any],
    message: str,
) -> None:
    """Also where a task failed after it: what was made by then must not be lost sight of."""
    fields = Collector().end(ok=ok, check=False, facts=facts)
    assert fields["results"] == results
    assert fields["message"] == message
    assert (fields["outcome"] == "ok") == (not message)


def test_wire_cuts_lines_wherever_they_are_split() -> None:
    """Messages survive any cut of the stream, and mappings of any kind."""
    messages = [
        {"n": n, "deep": MappingProxyType({"x": (1, OrderedDict(y="ü\n"))})} for n in (1, 2)
    ]
    stream = b"".join(encode(message) for message in messages)
    for cut in range(len(stream) + 1):
        buffer = LineBuffer()
        found = buffer.feed(stream[:cut]) + buffer.feed(stream[cut:])
        assert [message["n"] for message in found] == [1, 2]
        assert found[0]["deep"] == {"x": [1, {"y": "ü\n"}]}


def test_text_is_marked_and_vault_marks_stay() -> None:
    """For the plain executor all text but vault marks is marked as no template."""
    value = {"a": ["x", 1, None], "b": {"__ansible_vault": "cipher"}}
    marked = {"a": [{"__ansible_unsafe": "x"}, 1, None], "b": {"__ansible_vault": "cipher"}}
    assert _text_only(value) == marked


def test_tree_ends_sessions_of_their_own() -> None:
    """A process that ignores SIGTERM and one in a session of its own end with their tree."""
    script = "trap '' TERM; setsid sleep 3605 & sleep 3606 & echo up; wait; sleep 3607"
    root = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    assert root.stdout is not None
    assert root.stdout.readline() == b"up\n"
    tree = Tree(root.pid)
    assert len(tree.fds) >= 3
    tree.terminate()
    tree.kill()
    assert tree.gone(10)
    assert descendants(root.pid) == []
    root.wait()
    tree.close()
    root.stdout.close()


def test_tree_of_a_process_that_is_gone_is_empty() -> None:
    """A process that has ended before is no error."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    tree = Tree(ended.pid)
    assert tree.gone()
    tree.close()


def test_ssh_masters_of_no_folder(tmp_path: Path) -> None:
    """Nothing to end is no error, and neither is a socket that nobody listens on."""
    end_ssh_masters(tmp_path / "none")
    (tmp_path / "dead").touch()
    end_ssh_masters(tmp_path)


def test_what_a_transition_says_of_itself_is_its_message() -> None:
    """Only under the name `cob_message`, and only of tasks that ended well."""
    said = [
        ("ok", {"cob_message": "kept a local edit", "msg": "x"}),
        ("skipped", {"cob_message": "not this"}),
        ("ok", {"msg": "nor this"}),
        ("ok", {"cob_message": "and another"}),
    ]
    collector = Collector()
    for event, result in said:
        collector.add(TaskEnd(event=event, name="task", result=result, changed=True, ignored=False))
    assert collector.end(ok=True, check=False, facts={})["message"] == (
        "kept a local edit; and another"
    )


@pytest.mark.parametrize("name", ["cob_state", "cob_results", "cob_message", "cob_secret_results"])
@pytest.mark.parametrize("looped", [False, True])
def test_a_module_says_nothing_to_cobweb(name: str, *, looped: bool) -> None:
    """Only set_fact does, which runs here; what a module says comes from its host."""
    result: dict[str, Any] = {"ansible_facts": {name: {"ansible_connection": "local"}}}
    result = {"results": [5, {}, result]} if looped else result
    facts = facts_of(result)
    assert facts == {name: {"ansible_connection": "local"}}
    collector = Collector()
    end = TaskEnd(event="ok", name="t", result=result, changed=False, ignored=False, facts=facts)
    collector.add(end)
    fields = collector.end(ok=True, check=False)
    assert fields["results"] == {}
    assert fields["message"] == f"t: a module of the host said `{name}`, which is for set_fact"
    assert fields["outcome"] == "failed"


def test_what_set_fact_says_counts() -> None:
    """Of several tasks the last one."""
    collector = Collector()
    for state in ("down", "up"):
        facts = {"cob_state": state, "cob_results": {"a": 1}}
        result = {"ansible_facts": facts}
        end = TaskEnd(
            event="ok",
            name="t",
            result=result,
            changed=False,
            ignored=False,
            facts=facts,
            says=True,
        )
        collector.add(end)
    fields = collector.end(ok=True, check=True)
    assert (fields["outcome"], fields["state"], fields["results"]) == ("ok", "up", {"a": 1})


@pytest.mark.parametrize("word", ["results", "ansible_facts", "msg", "stdout", "cob_message"])
@pytest.mark.parametrize("value", [5, "x", [1, [2]], {"a": {"b": []}}, None, True, [{"failed": 1}]])
def test_a_result_may_be_anything(word: str, value: object) -> None:
    result = {word: value, "failed": True}
    end = TaskEnd(
        event="ok", name="t", result=result, changed=False, ignored=False, facts=facts_of(result)
    )
    collector = Collector()
    collector.add(end)
    assert collector.end(ok=True, check=False)["outcome"] == "ok"


def test_a_state_has_a_length() -> None:
    fields = Collector().end(ok=True, check=True, facts={"cob_state": "x" * 10_000})
    assert fields["message"] == "the check set cob_state to 10000 characters, a state has 200"


def test_what_is_too_much_to_be_kept_is_not_told_on() -> None:
    """It would only be carried to where it is refused."""
    fields = Collector().end(ok=True, check=False, facts={"cob_results": {"a": "x" * 100_000}})
    assert fields["results"] == {}
    assert fields["message"].startswith("results of 100009 characters of JSON")
