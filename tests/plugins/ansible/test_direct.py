"""Direct jobs: past Ansible, and yet with the reports that its own play would have given."""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.util
import io
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Action, Host, Job, JobKind, Outcome, Report, Tasks, cob_id
from cobweb_plugins.ansible._direct import DirectFiles, DirectTasks, _imports
from cobweb_plugins.ansible._direct_run import DirectRun, direct_call
from cobweb_plugins.ansible._hidden import Hidden
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._results import Collector
from cobweb_plugins.ansible._warm import Answer, Call, Lost, Servers
from tests.plugins.ansible.conftest import Bench, MakeBench, local_hosts
from tests.plugins.ansible.test_warm import HERE, make_call, run

SHIPPED = Path(__file__).parents[3] / "playbooks"
LIBRARY, UTILITIES = SHIPPED / "library", SHIPPED / "module_utils"
CHECK = """
- name: look
  cobweb_file: {action: check, cob: "{{ cob }}"}
  register: found
- name: say
  set_fact: {cob_state: "{{ found.state }}"}
"""
FOR_ANSIBLE = {
    "agents/nats-files/check.yml",
    "agents/nats-files/remove.yml",
    "agents/nats-files/write.yml",
    "confirm/arm.yml",
    "cron/check.yml",
    "cron/remove.yml",
    "cron/write.yml",
    "node/bootstrap.yml",
    "package/carry_out.yml",
    "package/install.yml",
    "package/remove.yml",
    "pools/counter-observe.yml",
    "pools/gridengine-observe.yml",
    "pools/pool-gridengine/check.yml",
    "pools/pool-gridengine/drain.yml",
    "pools/pool-gridengine/join.yml",
    "pools/pool-gridengine/leave.yml",
    "pools/pool-slurm/check.yml",
    "pools/pool-slurm/drain.yml",
    "pools/pool-slurm/join.yml",
    "pools/pool-slurm/leave.yml",
    "pools/processes-observe.yml",
    "pools/slurm-observe.yml",
    "sysctl/check.yml",
    "sysctl/restore.yml",
    "sysctl/set.yml",
    "tree/check.yml",
    "tree/write.yml",
}
"""The task files of Cobweb that do more than to call a module."""


@pytest.fixture
def files() -> DirectFiles:
    """Return what looks at task files, where a site has no modules of its own."""
    return DirectFiles([LIBRARY], [UTILITIES])


def read(files: DirectFiles, folder: Path, text: str) -> DirectTasks | None:
    """Read a task file of this text."""
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.yml"
    path.write_text(text, encoding="utf-8")
    return files.tasks(str(path))


# --- which jobs are direct


def test_nearly_all_task_files_of_cobweb_are_direct(files: DirectFiles) -> None:
    paths = [
        path
        for path in SHIPPED.rglob("*.yml")
        # Service adapters are no tasks either.
        if path.name != "type.yml" and (path.parent.name != "pools" or "observe" in path.name)
    ]
    others = {str(p.relative_to(SHIPPED)) for p in paths if files.tasks(str(p)) is None}
    assert others == FOR_ANSIBLE


@pytest.mark.parametrize(
    ("text", "is_direct"),
    [
        (CHECK, True),
        (CHECK.replace("set_fact", "ansible.builtin.set_fact"), True),
        ('- cobweb_file: {action: write, cob: "{{ cob }}"}', True),
        (CHECK.replace("cobweb_file", "ansible.builtin.cobweb_file"), False),
        (CHECK.replace("cobweb_file", "site_file"), False),
        (CHECK.replace("cobweb_file", "cobweb_nothing"), False),
        (CHECK.replace("cobweb_file", "cobweb_../file"), False),
        (CHECK.replace("{{ cob }}", "{{ cob | combine({}) }}"), False),
        (CHECK.replace("{{ cob }}", "{{ other }}"), False),
        (CHECK.replace("check, cob", "check, more: 1, cob"), False),
        (CHECK.replace("action: check, ", ""), False),
        (CHECK.replace("action: check", "action: '{{ cob.name }}'"), False),
        (CHECK.replace("name: look", "name: 'look at {{ cob.name }}'"), False),
        (CHECK.replace("  register: found", "  become: true\n  register: found"), False),
        (CHECK.replace("  register: found", "  when: true\n  register: found"), False),
        (CHECK.replace("  register: found", ""), False),
        (CHECK.replace("found.state", "other.state"), False),
        (CHECK.replace("found", "cob"), False),
        (CHECK.replace("found", "my-name"), False),
        (CHECK.replace("found", "class"), False),
        ("[" * 3000, False),
        (CHECK.replace("found.state", "found.state | upper"), False),
        (CHECK.replace("cob_state:", "cob_results: {}, cob_state:"), False),
        (CHECK.replace("cob_state:", "cob_message:"), False),
        (CHECK.replace("set_fact", "debug"), False),
        (CHECK + "- debug:\n", False),
        (CHECK.replace("look", "!vault look"), False),
        ("", False),
        ("[]", False),
        ("- 1\n- 2", False),
        ("- cobweb_file:", False),
        ("- cobweb_file: [action, cob]", False),
        ("- {name: nothing}", False),
        ("a: [", False),
        ("text", False),
    ],
)
def test_only_the_plain_form_is_direct(
    files: DirectFiles, tmp_path: Path, text: str, *, is_direct: bool
) -> None:
    assert (read(files, tmp_path, text) is not None) == is_direct


@pytest.mark.parametrize(
    "own",
    [
        "library/cobweb_file.py",
        "library/below/cobweb_file.py",
        "module_utils/cobweb_host.py",
        "module_utils/cobweb_record.py",
    ],
)
def test_what_a_site_has_in_the_place_of_ours_is_for_ansible(tmp_path: Path, own: str) -> None:
    (tmp_path / own).parent.mkdir(parents=True)
    (tmp_path / own).touch()
    folders = [tmp_path / "library", LIBRARY], [tmp_path / "module_utils", UTILITIES]
    assert read(DirectFiles(*folders), tmp_path, CHECK) is None
    behind = [LIBRARY, tmp_path / "library"], [UTILITIES, tmp_path / "module_utils"]
    assert read(DirectFiles(*behind), tmp_path, CHECK) is not None


def test_a_module_below_a_link_is_the_sites_own_as_well(tmp_path: Path) -> None:
    """Ansible follows links, also one in a circle."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/cobweb_file.py").touch()
    (tmp_path / "shared/again").symlink_to(tmp_path)
    (tmp_path / "library").mkdir()
    (tmp_path / "library/common").symlink_to(tmp_path / "shared")
    files = DirectFiles([tmp_path / "library", LIBRARY], [UTILITIES])
    assert read(files, tmp_path, CHECK) is None


# --- what is sent to a host


def modules() -> list[str]:
    """Return the names of Cobweb's modules."""
    return sorted(path.stem for path in LIBRARY.glob("*.py"))


@pytest.fixture
def servers() -> Iterator[Servers]:
    """Return servers of this machine."""
    servers = Servers()
    yield servers
    servers.close()


def packed(files: DirectFiles, folder: Path, module: str) -> DirectTasks:
    """Pack a module, to be asked for what it cannot do."""
    text = f'- {module}: {{action: "fly", cob: "{{{{ cob }}}}"}}'
    tasks = read(files, folder, text)
    assert tasks is not None
    return tasks


def call_of(tasks: DirectTasks, **cob: Any) -> Call:
    """Return the call of a packed module."""
    return direct_call(tasks.message(), tasks.code, cob)


def test_each_module_has_with_it_what_it_imports(
    servers: Servers, files: DirectFiles, tmp_path: Path
) -> None:
    """All on one server, so that what they share is shared."""
    for module in modules():
        call = call_of(packed(files, tmp_path, module))
        answer = servers.run(call, HERE)
        assert answer is not None
        assert (answer[0], answer[2]) == (1, b""), module
        assert json.loads(answer[1])["msg"].startswith("value of action must be one of: ")


def test_nothing_else_of_ansible_is_imported() -> None:
    """The quick look at imports finds what the grammar of Python finds."""
    for path in (*LIBRARY.glob("*.py"), *UTILITIES.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        found = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ansible"):
                tail = str(node.module).removeprefix("ansible.module_utils").lstrip(".")
                found |= {tail} if tail else {alias.name for alias in node.names}
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith("ansible") for alias in node.names), path
        assert set(_imports(text)) == found - {"basic"}, path


SHARED = "seen = 0\ndef run(call):\n    global seen\n    seen += 1\n    print(call['a'], seen)\n"
DIRECT = (
    "import __main__, os, sys\nfrom ansible.module_utils import cobweb_own\n"
    "if __name__ == '__main__':\n    cobweb_own.run(__main__.cobweb_call)\n"
    "    print('ansible.module_utils.basic' in sys.modules, os.environ.get('LEFT'))\n"
    "    os.environ['LEFT'] = 'x'\n"
)


def make_direct(tmp_path: Path, **texts: str) -> DirectFiles:
    """Return files that look at modules of the test's own."""
    for name, text in texts.items():
        folder = tmp_path / ("module_utils" if name == "cobweb_own" else "library")
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return DirectFiles([], [], own=tmp_path)


def test_direct_calls_and_ansibles_own_share_a_server_and_nothing_else(
    servers: Servers, tmp_path: Path
) -> None:
    files = make_direct(tmp_path, cobweb_a=DIRECT, cobweb_b=DIRECT + "#", cobweb_own=SHARED)
    first, second = (_given(files, tmp_path, name) for name in ("cobweb_a", "cobweb_b"))
    theirs = make_call(
        "import sys; from ansible.module_utils import shared\n"
        "print(shared.A, 'ansible.module_utils.cobweb_own' in sys.modules)",
        shared="A = 7",
    )
    for call in (first, theirs, second, first, theirs, second):
        answer = servers.run(call, HERE)
        assert answer is not None
        said = b"7 False\n" if call is theirs else b"5 1\nFalse None\n"
        assert (answer[0], answer[1]) == (0, said), answer


def _given(files: DirectFiles, folder: Path, module: str) -> Call:
    tasks = packed(files, folder, module)
    call = direct_call(tasks.message(), tasks.code, {})
    return Call(
        module=call.module,
        profile=call.profile,
        params=json.dumps({"a": 5}),
        code=call.code,
        digest=call.digest,
    )


@pytest.mark.parametrize(
    ("module", "said"),
    [("1 / 0", b"ZeroDivisionError"), ("import nowhere", b"ModuleNotFoundError")],
)
def test_a_module_that_breaks_says_how(
    servers: Servers, tmp_path: Path, module: str, said: bytes
) -> None:
    files = make_direct(tmp_path, cobweb_a=module)
    for _ in range(2):
        answer = servers.run(_given(files, tmp_path, "cobweb_a"), HERE)
        assert answer is not None
        assert (answer[0], answer[1]) == (1, b"")
        assert said in answer[2]
    assert run(servers, make_call("print(3)")) == 3


def test_bytecode_of_another_python_is_passed_over(servers: Servers, tmp_path: Path) -> None:
    files = make_direct(tmp_path, cobweb_a="if __name__ == '__main__': print('well')")
    tasks = packed(files, tmp_path, "cobweb_a")
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(tasks.code))) as good:
        assert "cobweb_a.pyc" in good.namelist()
        with zipfile.ZipFile(data, "w") as other:
            for name in good.namelist():
                text = good.read(name)
                if name.endswith(".pyc"):
                    assert text.startswith(importlib.util.MAGIC_NUMBER)
                    text = b"\0\0\r\n" + text[4:12] + b"rubbish"
                other.writestr(name, text)
    call = direct_call(tasks.message(), base64.b64encode(data.getvalue()), {})
    answer = servers.run(call, HERE)
    assert answer is not None
    assert (answer[0], answer[1]) == (0, b"well\n"), answer


# --- what an answer means


class Answering(Servers):
    """Servers that give one answer."""

    def __init__(self, answer: Answer | Lost | MemoryError | None) -> None:
        super().__init__()
        self._answer = answer

    def run(self, *_: Any, **__: Any) -> Answer | None:
        """Give it."""
        if isinstance(self._answer, Lost | MemoryError):
            raise self._answer
        return self._answer


SAYS = {"cob_state": ("state", False), "cob_message": ("message", True)}
UNREACHABLE = "look: Failed to connect to the host via ssh: no route"


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        ((0, b'{"state": "up"}', b""), "ok", ("up", "")),
        ((0, b'{"state": "up", "message": "so"}', b"noise"), "ok", ("up", "so")),
        ((1, b'{"failed": true, "msg": "no disk"}', b""), "failed", ("", "look: no disk")),
        ((0, b"{}", b""), "failed", ("", "say: the module cobweb_x has said no `state`")),
        ((0, b'{"state": 1}', b""), "failed", ("", "set cob_state to a int")),
        ((1, b'{"state": "up"}', b""), "failed", ("", "exit status 1 and no answer")),
        ((0, b"[]", b""), "failed", ("", "exit status 0 and no answer: []")),
        ((0, b"", b""), "failed", ("", "exit status 0 and no answer")),
        ((0, b"\xff\xfe", b""), "failed", ("", "no answer: \ufffd\ufffd")),
        ((1, b"", b"Traceback\nValueError: x\n"), "failed", ("", "no answer: ValueError: x")),
        ((137, b'{"st', b""), "failed", ("", "exit status 137 and no answer")),
        ((0, b"[" * 100_000, b""), "failed", ("", "no answer: [[[")),
        ((0, b'a warning\n{"state": "up"}\nmore\n', b""), "ok", ("up", "")),
        ((0, b'{"state": "\\ud800"}', b""), "failed", ("", "no answer")),
        ((0, b'{"state": "up", "a": ' + b"[" * 900 + b"]" * 900 + b"}", b""), "ok", ("up", "")),
        ((0, b'{"state": "up", "rc": 3}', b""), "failed", ("", "the module said `rc`")),
        ((0, b'{"state": "up", "unreachable": true}', b""), "failed", ("", "said `unreachable`")),
        ((0, b'{"state": "up", "skipped": true}', b""), "failed", ("", "said `skipped`")),
        ((0, b'{"state": "up", "failed": "false"}', b""), "failed", ("", "does not say why")),
        (MemoryError(), "failed", ("", "look: what the host said takes more memory")),
        (
            (0, b'{"state": "up", "ansible_facts": {"cob_state": "lie"}}', b""),
            "failed",
            ("", "look: a module of the host said `cob_state`"),
        ),
        (Lost(255, b"no route"), "unreachable", ("", UNREACHABLE)),
        (Lost(137, b"killed"), "failed", ("", "exit status 137 and no answer: killed")),
    ],
)
def test_what_an_answer_means(answer: Answer | Lost, outcome: str, said: tuple[str, str]) -> None:
    report = _report(answer)
    assert (report["outcome"], report.get("state", "")) == (outcome, said[0])
    assert said[1] in report["message"]
    assert bool(report["message"]) == bool(said[1])


def _report(answer: Answer | Lost | MemoryError | None, first: str = "") -> dict[str, Any]:
    direct = {"name": "look", "module": "cobweb_x", "says_name": "say", "says": SAYS}
    met = {"python": "/usr/bin/python3", "way": ["ssh", "h"], "cwd": ""}
    run = DirectRun(direct=direct, met=met, mark="")
    call = Call(module="cobweb_x", profile="direct", params="{}", code=b"", digest="d")
    collector = Collector()
    good = run.run(call, first, Answering(answer), collector, Hidden())
    if good is None:
        return {"outcome": "for Ansible"}
    return collector.end(ok=good, check=True)


def test_where_there_is_no_server_ansible_does_it() -> None:
    assert _report(None) == _report(None, first="true") == {"outcome": "for Ansible"}


def test_a_script_that_comes_first_and_fails_is_the_last() -> None:
    report = _report((73, b"a mark", b"why"), first="exit 73")
    assert report["outcome"] == "failed"
    assert [task["message"] for task in report["tasks"]] == ["a mark"]


# --- beside Ansible's own play


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    """Return a bench with two hosts that are this machine."""
    return make_bench(AnsibleExecutor, hosts=2)


def job(bench: Bench, files: str, **more: Any) -> Job:
    """Make a job of one of Cobweb's types, named by its task file."""
    spec, host = more.pop("spec"), more.pop("host", "h1")
    action: Action = Tasks(path=str(SHIPPED / files))
    cob = {"id": f"{host}/a", "name": "a", "host": host, "spec": spec, "applied": None}
    return Job(
        number=next(bench.numbers),
        kind=JobKind.CHECK if files.endswith("check.yml") else JobKind.TRANSITION,
        cob=cob_id(host, "a"),
        host=host,
        type_name=files.partition("/")[0],
        action=action,
        cob_vars={**cob, "state": "down", "target": "up", **more},
    )


def met(bench: Bench) -> dict[str, Any]:
    """Return what the executor knows of the ways to its hosts."""
    executor = bench.executor
    assert isinstance(executor, AnsibleExecutor)
    return {host: known for host, (_, known) in executor._met.items()}


def stories(bench: Bench, folder: Path) -> list[Report]:
    """Run what ends well, what fails, and what says more than that."""
    text, link = {"path": str(folder / "x"), "content": "é\n"}, {"path": str(folder / "y/x")}
    state = {"state_dir": str(folder / "state")}
    done = folder / "done"
    sleeps = {"check": "echo sick; exit 3", "do": "true"}
    jobs = [
        ("file/check.yml", {**text, **state}),
        ("file/write.yml", {**text, **state}),
        ("file/check.yml", {**text, **state}),
        ("file/write.yml", {**link, "content": "", **state}),
        ("script/check.yml", {"creates": str(done), "do": f"touch {done}"}),
        ("script/do.yml", {"creates": str(done), "do": f"touch {done}"}),
        ("script/do.yml", {"check": "exit 1", "do": "echo out; echo no >&2; exit 9"}),
        ("script/check.yml", sleeps),
        ("script/undo.yml", {"creates": str(done), "do": "true"}),
        ("mount/check.yml", {"path": "/", "source": "nowhere", "fstype": "tmpfs", **state}),
    ]
    return [bench.run(job(bench, files, spec=spec))[0] for files, spec in jobs]


@pytest.mark.gate("twenty jobs, half of them as whole plays: what all of this stands on, 3 s")
def test_reports_are_those_of_ansibles_own_play(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    direct = stories(bench, folder)
    assert met(bench)["h1"]["python"] == sys.executable
    assert met(bench)["h1"]["cwd"] == str(tmp_path / "site")
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    monkeypatch.setattr(DirectFiles, "tasks", lambda *_: None)
    usual = stories(bench, folder)
    assert {report.outcome for report in direct} == {Outcome.OK, Outcome.FAILED}
    shift = usual[0].number - direct[0].number
    assert [_plain(report, shift) for report in direct] == [_plain(it, 0) for it in usual]


def _plain(report: Report, shift: int) -> tuple[Any, ...]:
    found = (report.outcome, report.state, report.message, report.tasks, report.results)
    return (report.number + shift, *found, report.in_doubt, report.at_work, report.began)


def test_a_vaulted_spec_is_for_ansible(bench: Bench, tmp_path: Path) -> None:
    """It alone can decrypt it; here it cannot, as there is no password."""
    (good,) = bench.run(job(bench, "file/check.yml", spec={"path": str(tmp_path / "x")}))
    assert good.outcome is Outcome.OK
    spec = {"path": str(tmp_path / "x"), "content": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;x"}}
    (bad,) = bench.run(job(bench, "file/check.yml", spec=spec))
    assert bad.outcome is Outcome.FAILED
    assert "undecryptable" in bad.message


@pytest.mark.gate("six hosts, each as Ansible itself would go there: no other test has them, 3 s")
def test_a_host_is_met_only_where_ansible_would_meet_it_so(
    make_bench: MakeBench, local: dict[str, str], tmp_path: Path
) -> None:
    more: dict[str, dict[str, Any]] = {
        "plain": {},
        "template": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "template in a list": {"ansible_more": ["{% if cob.name %}{% endif %}"]},
        "same user": {"ansible_become": True},
        "files": {"ansible_pipelining": False},
        "shell": {"ansible_shell_executable": "/bin/bash"},
        "limit": {"ansible_python_module_rlimit_nofile": 512},
    }
    hosts = {
        name: Host(name=name, groups=(), variables={**local, **variables})
        for name, variables in more.items()
    }
    bench = make_bench(AnsibleExecutor, inventory=hosts)
    for _ in range(2):
        spec = {"path": str(tmp_path / "x")}
        reports = bench.run(*(job(bench, "file/check.yml", host=name, spec=spec) for name in more))
        assert {(report.outcome, report.state) for report in reports} == {(Outcome.OK, "down")}
    found = {host for host, known in met(bench).items() if known}
    assert found == {"plain", "same user"}


@pytest.mark.gate("work on a wrong machine or as a wrong user would be the worst of this way, 2 s")
def test_what_depends_on_the_object_is_asked_for_each(
    make_bench: MakeBench, local: dict[str, str], tmp_path: Path
) -> None:
    """One host may be another machine, or another user, for each of its objects."""
    python = tmp_path / "python3"
    python.symlink_to(sys.executable)
    variables = {**local, "ansible_python_interpreter": "{{ cob.spec.python }}"}
    inventory = {"h1": Host(name="h1", groups=(), variables=variables)}
    bench = make_bench(AnsibleExecutor, inventory=inventory, parallel=1)
    tell = {"check": "readlink /proc/$PPID/exe; tr '\\0' ' ' </proc/$PPID/cmdline; exit 3"}
    (good,) = bench.run(
        job(bench, "script/check.yml", spec={"check": "exit 0", "python": sys.executable})
    )
    assert good.outcome is Outcome.OK
    said = [
        bench.run(job(bench, "script/check.yml", spec={**tell, "python": path}))[0].message
        for path in (sys.executable, str(python))
    ]
    assert [str(python) in it for it in said] == [False, True], said


ACTION = """
from ansible.plugins.action.normal import ActionModule as Normal
class ActionModule(Normal):
    def run(self, tmp=None, task_vars=None):
        found = self._execute_module("stat", {"path": "/tmp"}, task_vars=task_vars)
        return {**super().run(tmp, task_vars), "state": "stat said " + min(found["stat"])}
"""


@pytest.mark.gate("a site's own action plugin would be passed over in silence, 3 s")
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[defaults]\naction_plugins = plugins\n", "stat said atime"),
        ("[tags]\nskip = untagged\n", "the check set no fact cob_state"),
    ],
)
def test_what_a_site_has_ansible_do_at_each_task_is_done(
    make_bench: MakeBench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    said: str,
) -> None:
    """Also where the first job on a host finds out about its Python."""
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    site = tmp_path / "site"
    (site / "plugins").mkdir(parents=True)
    (site / "plugins/cobweb_file.py").write_text(ACTION, encoding="utf-8")
    (site / "ansible.cfg").write_text(config, encoding="utf-8")
    unknown = Host(name="h2", groups=(), variables={"ansible_connection": "local"})
    bench = make_bench(AnsibleExecutor, inventory={**local_hosts(1), "h2": unknown})
    spec = {"path": str(tmp_path / "x")}
    for host in ("h1", "h1", "h2", "h2"):
        (report,) = bench.run(job(bench, "file/check.yml", host=host, spec=spec))
        assert said in (report.state, report.message)


def test_a_host_that_ansible_does_not_know_is_told(
    make_bench: MakeBench, local: dict[str, str], tmp_path: Path
) -> None:
    """Ansible takes this name for two others."""
    name = "h[1:2]"
    bench = make_bench(
        AnsibleExecutor, inventory={name: Host(name=name, groups=(), variables=local)}
    )
    spec = {"path": str(tmp_path / "x")}
    (report,) = bench.run(job(bench, "file/check.yml", host=name, spec=spec))
    assert report.outcome is Outcome.FAILED
    assert report.message == f"Ansible does not know the host {name}"
