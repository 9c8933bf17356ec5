"""What is vaulted does not leave a lane in what Ansible said."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Host, Outcome
from cobweb_plugins.ansible._hidden import MASK, Hidden
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._workspace import ansible_tool
from tests.plugins.ansible.conftest import MakeBench

SPEC_SECRET = 'it\'s "hunter2" & ü'  # noqa: S105  # of a vault that the test makes
HOST_SECRET = "first line\nsecond line\n"  # noqa: S105
OTHER_SECRET = "of-another-host"  # noqa: S105

AWKWARD = "a'b\"c\\d\té\n"

SPELLED = {
    "as it is": AWKWARD,
    "without blanks around": AWKWARD.strip(),
    "on one line": " ".join(AWKWARD.split()),
    "JSON": json.dumps(AWKWARD),
    "JSON in UTF-8": json.dumps(AWKWARD, ensure_ascii=False),
    "JSON, stripped": json.dumps(AWKWARD.strip()),
    "Python": repr(AWKWARD),
    "shell": shlex.quote(AWKWARD),
}


@pytest.mark.parametrize("text", SPELLED.values(), ids=[it.replace(" ", "-") for it in SPELLED])
def test_a_value_is_hidden_however_it_is_spelled(text: str) -> None:
    told = Hidden([AWKWARD]).text(f"<{text}>")
    assert MASK in told
    assert set(told) <= set(f"<>{MASK}'\"\\n\n")


@pytest.mark.parametrize(
    ("values", "text", "told"),
    [
        ((), "all of it", "all of it"),
        (("yes", "", " no\n"), "yes and no", "yes and no"),
        (("abcd", "abcdef"), "abcdefg abcd", f"{MASK}g {MASK}"),
        (("a.c.",), "abcd a.c.", f"abcd {MASK}"),
    ],
)
def test_short_values_stay_and_long_ones_go_first(
    values: tuple[str, ...], text: str, told: str
) -> None:
    assert Hidden(values).text(text) == told


def test_data_keep_their_form() -> None:
    data = {"failed": True, "rc": 5, "msg": ["x1234", 1234, None, ("1234",)], "other": {"1234": 1}}
    hidden = {"failed": True, "rc": 5, "msg": [f"x{MASK}", MASK, None, [MASK]], "other": {MASK: 1}}
    assert Hidden(["1234", "msg ", "True", "failed"]).data(data) == hidden
    assert Hidden().data(data) is data


TASKS: Mapping[str, str] = {
    "a command that fails": "- command: {argv: [sh, -c, 'echo pw $0 >&2; exit 3', '{{ pw }}']}",
    "the name of a task": '- name: "set {{ pw }}"\n  fail: {msg: no}',
    "a message": "- fail: {msg: '{{ pw }}'}",
    "a message that is cut": "- fail: {msg: \"{{ 'x' * 590 }}{{ pw }}{{ 'x' * 900 }}{{ pw }}\"}",
    "an item of a loop": "- fail: {msg: 'item {{ item }}'}\n  loop: ['{{ pw }}']",
    "an error of a template": "- debug: {msg: '{{ lookup(\"file\", pw) }}'}",
    "an error of an argument": "- file: {path: /nowhere, state: '{{ pw }}'}",
    "a key": "- fail: {msg: '{{ {pw: [pw]} }}'}",
    "output that goes on": "- debug: {msg: '{{ pw }}'}\n- fail: {msg: 'json {{ pw | to_json }}'}",
}
WHOSE = {
    "spec": ("cob.spec.pw", SPEC_SECRET),
    "host": ("host_pw", HOST_SECRET),
    "other": ("hostvars.h2.other_pw", OTHER_SECRET),
}


def _vaulted(folder: Path, text: str) -> dict[str, str]:
    tool = ansible_tool("ansible-vault")
    done = subprocess.run(
        [tool, "encrypt_string", "--vault-password-file", str(folder / "password")],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.strip() for line in done.stdout.splitlines() if not line.startswith("!vault")]
    return {"__ansible_vault": "\n".join(lines) + "\n"}


@pytest.mark.gate("secrets by Ansible itself")
def test_no_vaulted_value_is_in_a_report(
    make_bench: MakeBench, tmp_path: Path, local: dict[str, Any]
) -> None:
    """Of the job's object, of its host, and of a host that a task was delegated to."""
    (tmp_path / "password").write_text("open sesame", encoding="utf-8")
    (tmp_path / "site").mkdir()
    config = f"[defaults]\nvault_password_file = {tmp_path / 'password'}\n"
    (tmp_path / "site" / "ansible.cfg").write_text(config, encoding="utf-8")
    broken = {"__ansible_vault": "nothing of the kind"}
    spec = {"pw": _vaulted(tmp_path, SPEC_SECRET), "deep": [broken, 5]}
    own = {**local, "host_pw": _vaulted(tmp_path, HOST_SECRET)}
    other = {**local, "other_pw": _vaulted(tmp_path, OTHER_SECRET)}
    hosts = {"h1": Host(name="h1", variables=own), "h2": Host(name="h2", variables=other)}
    bench = make_bench(AnsibleExecutor, inventory=hosts)
    names, jobs = [], []
    for whose, (expression, _) in WHOSE.items():
        for number, (name, text) in enumerate(TASKS.items()):
            block = "\n".join(f"  {line}" for line in text.splitlines())
            delegate = "  delegate_to: h2\n" if whose == "other" else ""
            tasks = f"- vars: {{pw: '{{{{ {expression} }}}}'}}\n{delegate}  block:\n{block}\n"
            names.append(f"{whose}: {name}")
            jobs.append(bench.job(bench.tasks(f"{whose}-{number}.yml", tasks), spec=spec))
    for name, report in zip(names, bench.run(*jobs), strict=True):
        assert report.outcome is Outcome.FAILED, name
        told = f"{report.message} {report.tasks}"
        for word in ("hunter2", "second line", OTHER_SECRET):
            assert word not in told, name
        assert MASK in told, name


@pytest.mark.gate("secrets by Ansible itself")
def test_no_vaulted_value_is_handed_back(
    make_bench: MakeBench, local: Mapping[str, str], tmp_path: Path
) -> None:
    """Results that show one are refused; the others of the job are kept."""
    (tmp_path / "password").write_text("a password", encoding="utf-8")
    config = f"[defaults]\nvault_password_file = {tmp_path / 'password'}\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "ansible.cfg").write_text(config, encoding="utf-8")
    host = Host(name="h1", variables={**local, "host_pw": _vaulted(tmp_path, HOST_SECRET)})
    bench = make_bench(AnsibleExecutor, inventory={"h1": host})
    tasks = "- set_fact: {cob_results: {id: 5, deep: {pw: ['<{{ host_pw }}>']}}}"
    (report,) = bench.run(bench.job(bench.tasks("hand.yml", tasks)))
    assert report.outcome is Outcome.FAILED
    assert report.message == "the result deep is secret, and no secret is kept"
    assert report.results == {"id": 5}
