"""`cobweb run` on hosts that are this machine: what is told, and with which exit code."""

# ruff: noqa: PLR0913, PLR0917 - a test takes its fixtures and its row of a table

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.conftest import Ran, Run
from tests.plugins.applications.conftest import (
    LOCAL,
    RUNS,
    MakeSite,
    MakeSsh,
    Start,
    install,
    instead,
    over,
)
from tests.support.pool_members import until

CheckSchema = Callable[[str, Any], None]
KEPT = 512 * 1024
CHANNEL = """\
"A channel that is tried first."
from contextlib import asynccontextmanager
from cobweb.errors import CobwebError
from cobweb.plugin import hookimpl

cobweb_interface = 1

class Gated:
    point = "command_channel"
    name = "gated"
    rank = 1
    width = 1

    @asynccontextmanager
    async def open(self, site):
        {body}
        yield

@hookimpl
def cobweb_register_extensions():
    return [Gated]
"""


def called(run: Run, site: Path, *words: str, on: str = "all") -> Ran:
    """Call `cobweb run` on hosts of a site."""
    return run("-C", site, "run", "--on", on, *words)


def data_of(run: Run, site: Path, *words: str) -> Any:
    """Return what `cobweb run -o json` tells."""
    return json.loads(called(run, site, "-o", "json", *words).out)


def arguments_file(program: Path) -> Path:
    """Return where a fake ssh writes its arguments."""
    return Path(f"{program}.arguments")


def has_ended(file: Path) -> bool:
    """Say whether the process whose id a file holds has ended."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(int(file.read_text())).status() == psutil.STATUS_ZOMBIE
    return True


def await_end(*files: Path) -> None:
    """Wait until the processes whose ids files hold have ended."""
    until(lambda: all(has_ended(it) for it in files))


def tells_pid(file: Path) -> str:
    """Return what a shell runs to write its process's id into a file, at once."""
    return f"echo $$ >{file}.new; mv {file}.new {file}"


# --- answers


@pytest.mark.parametrize(
    ("command", "code", "out"),
    [
        ("echo well met", 0, ["n[1-3] (3 hosts): well met"]),
        ("printf 'no newline'", 0, ["n[1-3] (3 hosts): no newline"]),
        ("true", 0, ["n[1-3] (3 hosts): no output"]),
        ("echo a; echo; echo b", 0, ["n[1-3] (3 hosts):", "  a", "  ", "  b"]),
        ("echo a; echo b >&2", 0, ["n[1-3] (3 hosts):", "  a", "  stderr: b"]),
        ("exit 3", 1, ["n[1-3] (3 hosts): exit code 3"]),
        ("echo a; exit 255", 1, ["n[1-3] (3 hosts): exit code 255:", "  a"]),
    ],
)
def test_equal_answers_are_told_together(
    run: Run, site: Path, command: str, code: int, out: list[str]
) -> None:
    ran = called(run, site, "--", command)
    assert (ran.code, ran.out.splitlines()) == (code, out)
    failed = "; 3 with a failure" if code else ""
    assert ran.err.strip() == f"3 of 3 hosts answered{failed}"


def test_a_command_that_is_killed_there_has_answered_with_128_and_the_signal(
    run: Run, site: Path
) -> None:
    answers = data_of(run, site, "--", "kill -9 $$")["answers"]  # shells have words of their own
    assert {it["code"] for it in answers} == {137}


def test_large_groups_come_first_and_missing_ones_last(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh
) -> None:
    hosts: dict[str, Any] = {f"n{it}": {} for it in (1, 2, 3, 4, 5)}
    site = make_site({**hosts, "n0": {"ansible_connection": "docker"}}, over(make_ssh()))
    command = "case $HOST in n1) echo a;; n2) echo b; exit 1;; *) echo c;; esac"
    ran = called(run, site, "--", command)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "n[3-5] (3 hosts): c",
        "n1: a",
        "n2: exit code 1:",
        "  b",
        "n0: it is reached by the connection `docker`, and not over SSH",
    ]
    assert ran.err.strip() == "5 of 6 hosts answered; 1 with a failure; missing: n0"


def test_only_hosts_of_the_pattern_are_called(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, tmp_path: Path
) -> None:
    site = make_site(["n1", "n2", "n3"], over(make_ssh()))
    ran = called(run, site, "--", f"echo $HOST >>{tmp_path}/called; echo hi", on="n2:n3:!n3")
    assert ran.out == "n2: hi\n"
    assert (tmp_path / "called").read_text() == "n2\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["echo $((1 + 1)) | tr 2 3"], "3"),
        (["echo", "$HOME", "*", "a  b", ";", "exit", "'\"\\"], "$HOME * a  b ; exit '\"\\"),
        (["printf", "%s|", "", "-n", "--on"], "|-n|--on|"),
        (["echo", "ünï"], "ünï"),
    ],
)
@pytest.mark.parametrize("way", ["local", "ssh"])
def test_one_word_is_a_line_of_sh_and_several_are_a_command(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, way: str, words: list[str], said: str
) -> None:
    site = make_site(["n1"], LOCAL if way == "local" else over(make_ssh()))
    assert called(run, site, "--", *words).out == f"n1: {said}\n"


@pytest.mark.parametrize("way", ["local", "ssh"])
def test_a_command_begins_in_the_home_folder_and_reads_nothing(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, home: Path, way: str
) -> None:
    site = make_site(["n1"], LOCAL if way == "local" else over(make_ssh()))
    assert called(run, site, "--", "pwd; cat").out == f"n1: {home}\n"


def test_what_follows_the_command_is_no_option(run: Run, site: Path) -> None:
    assert called(run, site, "echo", "-o", "json").out == "n[1-3] (3 hosts): -o json\n"


def test_what_is_no_text_is_told_as_escapes(run: Run, site: Path) -> None:
    command = r"printf 'a\377\000\033[31mb\033[0m\rc\n'; printf '\033]0;x\007' >&2"
    ran = called(run, site, "--", command)
    assert ran.code == 0
    assert not re.search(r"[^\x20-\x7e\n]", ran.out + ran.err)
    assert "a\\xff" in ran.out
    assert "31mb" in ran.out
    (answer,) = data_of(run, site, "--", command)["answers"]
    assert answer["output"] == "a\\xff\x00\x1b[31mb\x1b[0m\rc\n"


def test_what_a_missing_host_says_has_no_control_characters(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh
) -> None:
    site = make_site(["n1"], over(make_ssh(r"printf '\033[2Jgo away\033[0m\n' >&2; exit 255")))
    ran = called(run, site, "--", "true")
    assert ran.code == 1
    assert "go away" in ran.out
    assert "\x1b" not in ran.out + ran.err


def test_of_very_long_outputs_the_beginning_is_kept_and_the_rest_counted(
    run: Run, site: Path
) -> None:
    more, most = 3_000_000, "head -c 3000000 /dev/zero | tr '\\0'"
    ran = called(run, site, "--", f"{most} a; {most} b >&2")
    assert ran.code == 0
    lost = 2 * (more - KEPT)
    assert f"  {lost} bytes more were not kept" in ran.out.splitlines()
    (answer,) = data_of(run, site, "--", f"{most} a; {most} b >&2")["answers"]
    assert answer["hosts"] == ["n1", "n2", "n3"]
    assert (answer["output"], answer["errors"]) == ("a" * KEPT, "b" * KEPT)
    assert answer["lost_bytes"] == lost


@pytest.mark.parametrize("size", [KEPT - 1, KEPT, KEPT + 1])
def test_at_the_bound_of_what_is_kept_nothing_else_is_lost(
    run: Run, make_site: MakeSite, size: int
) -> None:
    command = f"head -c {size} /dev/zero | tr '\\0' a"
    (answer,) = data_of(run, make_site(["n1"]), "--", command)["answers"]
    assert len(answer["output"]) == min(size, KEPT)
    assert answer["lost_bytes"] == max(0, size - KEPT)


@pytest.mark.parametrize("way", ["local", "ssh"])
def test_a_command_may_show_the_processes_that_it_runs_in(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, way: str
) -> None:
    site = make_site(["n1"], LOCAL if way == "local" else over(make_ssh()))
    command = "tr '\\0' ' ' </proc/$PPID/cmdline; echo; tr '\\0' '\\n' </proc/$PPID/cmdline"
    ran = called(run, site, "--", command)
    assert ran.code == 0, ran.out
    joined = "tr '\\0' ':' </proc/$PPID/cmdline; echo; echo end"
    ran = called(run, site, "--", joined)
    assert ran.code == 0, ran.out
    assert ran.out.splitlines()[-1] == "  end"


@pytest.mark.gate("the client is given a second, in which it could end")
def test_a_command_is_over_though_what_it_left_running_holds_its_output(
    run: Run, make_site: MakeSite, tmp_path: Path
) -> None:
    pid, fifo = tmp_path / "pid", tmp_path / "fifo"
    os.mkfifo(fifo)
    command = f"(cat {fifo}; echo late) & echo $! >{pid}; echo done"
    ran = called(run, make_site(["n1"]), "--", command)
    assert (ran.code, ran.out) == (0, "n1: done\n")
    assert not has_ended(pid)  # what was started on purpose goes on
    fifo.write_text("")
    await_end(pid)


def test_the_data_are_of_the_schema(
    run: Run,
    make_site: MakeSite,
    make_ssh: MakeSsh,
    check_schema: CheckSchema,
) -> None:
    site = make_site(
        {"n1": {}, "n2": {}, "n3": {}, "n4": {"ansible_connection": "winrm"}}, over(make_ssh())
    )
    command = "echo a; echo b >&2; [ $HOST != n2 ]"
    data = data_of(run, site, "--", command)
    check_schema("broadcast", data)
    said = {"output": "a\n", "errors": "b\n", "lost_bytes": 0}
    reason = "it is reached by the connection `winrm`, and not over SSH"
    assert data == {
        "format": 1,
        "command": command,
        "answers": [
            {"hosts": ["n1", "n3"], **said, "code": 0},
            {"hosts": ["n2"], **said, "code": 1},
        ],
        "missing": [
            {"hosts": ["n4"], "output": "", "errors": "", "lost_bytes": 0, "reason": reason}
        ],
    }


def test_nothing_of_the_site_is_touched(run: Run, site: Path) -> None:
    before = sorted(site.rglob("*"))
    assert called(run, site, "--", "true").code == 0
    assert sorted(site.rglob("*")) == before


# --- what is missing


def test_a_host_whose_port_is_closed_is_missing_with_the_reason_of_ssh(
    run: Run, make_site: MakeSite
) -> None:
    with socket.socket() as bound:  # bound, and nobody listens
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        shared = {"ansible_host": "127.0.0.1", "ansible_port": port}
        ran = called(run, make_site(["n1", "n2"], shared), "--", "true")
    reason = f"ssh: connect to host 127.0.0.1 port {port}: Connection refused"
    assert (ran.code, ran.out) == (1, f"n[1-2] (2 hosts): {reason}\n")
    assert ran.err.strip() == "0 of 2 hosts answered; missing: n[1-2]"


VAULTED = {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n6162\n"}


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        (
            {"ansible_connection": "community.docker.docker"},
            "it is reached by the connection `community.docker.docker`, and not over SSH",
        ),
        (
            {"ansible_connection": "winrm"},
            "it is reached by the connection `winrm`, and not over SSH",
        ),
        ({"ansible_password": "x"}, "its login needs a password, and not a key"),
        ({"ansible_ssh_pass": VAULTED}, "its login needs a password, and not a key"),
        (
            {"ansible_become": True, "ansible_become_method": "su"},
            "tasks become root there by `su`, and not by sudo",
        ),
        (
            {"ansible_become": True, "ansible_become_password": VAULTED},
            "sudo needs a password there",
        ),
        ({"ansible_become": "yes", "ansible_become_pass": "x"}, "sudo needs a password there"),
        ({"ansible_connection": VAULTED}, "its variable ansible_connection is vaulted"),
        ({"ansible_become": VAULTED}, "its variable ansible_become is vaulted"),
        *(
            ({name: VAULTED}, f"its variable {name} is vaulted")
            for name in ("ansible_user", "ansible_host", "ansible_ssh_common_args")
        ),
        (
            {"ansible_become": True, "ansible_become_user": VAULTED},
            "its variable ansible_become_user is vaulted",
        ),
    ],
    ids=str,
)
def test_a_host_that_needs_what_is_not_there_is_missing(
    run: Run,
    make_site: MakeSite,
    make_ssh: MakeSsh,
    variables: Mapping[str, Any],
    reason: str,
) -> None:
    program = make_ssh()
    ran = called(run, make_site({"n1": variables}, over(program)), "--", "true")
    assert (ran.code, ran.out) == (1, f"n1: {reason}\n")
    assert not arguments_file(program).exists()  # nobody was called


def test_a_variable_that_cannot_be_evaluated_is_an_obstacle(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh
) -> None:
    program = make_ssh()
    shared = {**over(program), "ansible_user": "{{ nobody_knows_it }}"}
    ran = called(run, make_site(["n1"], shared), "--", "true")
    assert ran.code == 1
    assert "nobody_knows_it" in ran.out
    assert not arguments_file(program).exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo one >&2; echo last >&2; exit 255", "last"),
        ("echo shells are not for you; exit 1", "shells are not for you"),
        ("exit 7", "the login ended with exit code 7"),
        ("kill -9 $$", "the login ended with exit code -9"),
    ],
)
def test_what_a_login_says_that_does_not_run_a_command_is_the_reason(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, text: str, reason: str
) -> None:
    ran = called(run, make_site(["n1"], over(make_ssh(text))), "--", "true")
    assert (ran.code, ran.out) == (1, f"n1: {reason}\n")


def test_what_a_login_says_before_is_no_output(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh
) -> None:
    text = f"echo Welcome; head -c 200000 /dev/zero; echo Beware >&2; {RUNS}; echo Bye"
    ran = called(run, make_site(["n1"], over(make_ssh(text))), "--", "echo hi")
    assert (ran.code, ran.out) == (0, "n1: hi\n")


def test_a_client_that_ends_while_the_command_runs_has_lost_it(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh
) -> None:
    text = instead("echo so far; kill -9 $PPID")
    ran = called(run, make_site(["n1"], over(make_ssh(text))), "--", "true")
    lost = "the connection was lost while the command ran"
    assert ran.code == 1
    assert ran.out.splitlines() == [f"n1: {lost}:", "  so far"]


@pytest.mark.full("a process of its own, and it is awaited for long: it does not end")
def test_a_program_for_ssh_that_is_not_there_makes_hosts_missing(
    make_site: MakeSite, start: Start, tmp_path: Path
) -> None:
    hosts = {"n1": {"ansible_connection": "ssh", **over(tmp_path / "none")}, "n2": {}}
    process = start("-C", make_site(hosts), "run", "--on", "all", "--", "echo hi")
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert out.splitlines()[0] == "n2: hi"
    assert err.strip() == "1 of 2 hosts answered; missing: n1"


def test_a_channel_that_cannot_be_opened_is_told_and_its_hosts_are_missing(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(tmp_path, monkeypatch, CHANNEL.format(body='raise CobwebError("the gate is shut")'))
    ran = called(run, site, "--", "echo hi")  # its rank is the first
    assert (ran.code, ran.out) == (0, "n[1-3] (3 hosts): hi\n")
    assert ran.err.splitlines() == ["gated: the gate is shut", "3 of 3 hosts answered"]


def test_without_a_channel_that_reaches_it_a_host_is_missing(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.cfg"
    bad.write_text("no section\n")
    monkeypatch.setenv("ANSIBLE_CONFIG", str(bad))
    ran = called(run, site, "--", "echo hi")
    assert (ran.code, ran.out) == (1, "n[1-3] (3 hosts): no command channel reaches it\n")
    assert ran.err.startswith(f"ssh: cannot read {bad}")
    assert ran.err.endswith("0 of 3 hosts answered; missing: n[1-3]\n")


# --- limits and ends


@pytest.mark.gate("its time limit")
@pytest.mark.parametrize("way", ["local", "ssh"])
def test_after_its_time_a_command_is_ended_with_all_that_it_has_started(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, tmp_path: Path, way: str
) -> None:
    site = make_site(["n1"], LOCAL if way == "local" else over(make_ssh()))
    one, two = tmp_path / "one", tmp_path / "two"
    command = f"echo begun; echo $$ >{one}; sh -c 'echo $$ >{two}; sleep 1000; :' & sleep 1000; :"
    ran = called(run, site, "--timeout", "1s", "--", command)
    assert ran.code == 1
    assert ran.out.splitlines() == ["n1: no answer within 1 s:", "  begun"]
    assert ran.err.strip() == "0 of 1 host answered; missing: n1"
    await_end(one, two)


DEAF = "trap '' TERM; echo $$ >{}; while :; do sleep 0.1; done"


@pytest.mark.gate("its time limit, and the two seconds that SIGTERM has")
def test_what_does_not_heed_sigterm_is_killed(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, tmp_path: Path
) -> None:
    far = make_ssh('exec setsid -w sh -c "$*"')  # what sshd starts is not killed with the client
    pid = tmp_path / "pid"
    ran = called(run, make_site(["n1"], over(far)), "--timeout", "1s", "--", DEAF.format(pid))
    assert ran.out == "n1: no answer within 1 s\n"
    await_end(pid)


@pytest.mark.full("its time limit, and the two seconds that SIGTERM has")
@pytest.mark.parametrize("parent", ["", "sh -c '{}'; :"], ids=["alone", "its parent heeds it"])
def test_what_does_not_heed_sigterm_is_killed_on_this_machine_too(
    site: Path, start: Start, tmp_path: Path, parent: str
) -> None:
    pid = tmp_path / "pid"
    deaf = DEAF.format(pid)
    command = parent.format(deaf.replace("''", '""')) if parent else deaf
    process = start(*("-C", site, "run", "--on", "n1", "--timeout", "1s", "--"), command)
    try:
        assert process.communicate(timeout=30)[0] == "n1: no answer within 1 s\n"
        await_end(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_fanout_bounds_how_many_are_called_at_once(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, tmp_path: Path
) -> None:
    site = make_site([f"n{it}" for it in range(6)], over(make_ssh()))
    alone = f"mkdir {tmp_path}/one && rmdir {tmp_path}/one"
    ran = called(run, site, "--fanout", "1", "--", alone)
    assert (ran.code, ran.out) == (0, "n[0-5] (6 hosts): no output\n")


def test_without_a_fanout_hosts_are_called_together(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, tmp_path: Path
) -> None:
    site = make_site(["n1", "n2"], over(make_ssh()))
    (a, b) = (tmp_path / "a", tmp_path / "b")
    os.mkfifo(a)
    os.mkfifo(b)
    meet = f"case $HOST in n1) echo x >{a}; cat {b};; n2) cat {a}; echo x >{b};; esac"
    assert called(run, site, "--", f"{meet} >/dev/null").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--on", "nobody", "--", "true"], "nobody"),
        (["--on", "n1:!n1", "--", "true"], "the pattern `n1:!n1` selects no host"),
        (["--on", "", "--", "true"], "the host pattern is empty"),
        (["--", "true"], "--on"),
        (["--on", "all"], "COMMAND"),
        (["--on", "all", "--"], "COMMAND"),
        (["--on", "all", "--fanout", "0", "--", "true"], "--fanout"),
        (["--on", "all", "--fanout", "many", "--", "true"], "--fanout"),
        (["--on", "all", "--timeout", "0", "--", "true"], "`0` is not between"),
        (["--on", "all", "--timeout", "soon", "--", "true"], "`soon` is no duration"),
        (["--on", "all", "--timeout", "-5s", "--", "true"], "`-5s` is no duration"),
        (["--on", "all", "--timeout", "2000d", "--", "true"], "`2000d` is not between"),
        (["--on", "all", "-o", "xml", "--", "true"], "xml"),
    ],
    ids=str,
)
def test_wrong_usage_is_refused_and_nobody_is_called(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, words: list[str], said: str
) -> None:
    program = make_ssh()
    ran = run("-C", make_site(["n1", "n2"], over(program)), "run", *words)
    assert (ran.code, ran.out) == (64, "")
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert not arguments_file(program).exists()


@pytest.mark.gate("a process of its own, which takes a moment to begin and to end")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_commands_and_names_who_is_missing(
    make_site: MakeSite, make_ssh: MakeSsh, start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    program = make_ssh()
    site = make_site(["n1", "n2", "n3"], over(program))
    pid = tmp_path / "n2"
    command = f"[ $HOST = n1 ] || {{ echo begun; {tells_pid(pid)}; sleep 1000; }}; echo here"
    process = start("-C", site, "run", "--on", "all", "--fanout", "1", "--", command)
    until(pid.exists)  # so n1 has answered
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 130
    lines = ["n1: here", "n2: interrupted:", "  begun", "n3: interrupted"]
    assert out.splitlines() == lines
    assert err.strip() == "1 of 3 hosts answered; missing: n[2-3]"
    await_end(pid)
    assert words_of(program)[1] == "n2"  # and n3 was not called


@pytest.mark.gate("a process of its own, which takes a moment to begin")
@pytest.mark.parametrize("way", ["local", "ssh"])
def test_when_cobweb_is_killed_its_command_ends(
    make_site: MakeSite, make_ssh: MakeSsh, start: Start, tmp_path: Path, way: str
) -> None:
    site = make_site(["n1"], LOCAL if way == "local" else over(make_ssh()))
    pid, child = tmp_path / "pid", tmp_path / "child"
    command = f"sleep 1000 & echo $! >{child}; {tells_pid(pid)}; wait; :"
    process = start("-C", site, "run", "--on", "all", "--", command)
    until(pid.exists)
    process.kill()
    await_end(pid, child)


# --- how ssh is called


OURS = [
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=2"),
]
WITHOUT_CHECKS = ["-o", "StrictHostKeyChecking=no"]


def words_of(program: Path) -> tuple[list[str], str]:
    """Return the arguments of the last call that are not Cobweb's own, and the host."""
    words = arguments_file(program).read_text().splitlines()
    place = words.index("--")
    start = place - len(OURS)
    assert words[start:place] == OURS
    return words[:start], words[place + 1]


Case = tuple[Mapping[str, Any], Mapping[str, str], str, list[str], str]
CASES: Mapping[str, Case] = {
    "nothing": ({}, {}, "", [], "n1"),
    "host": ({"ansible_host": "10.0.0.1"}, {}, "", [], "10.0.0.1"),
    "old host": ({"ansible_ssh_host": "10.0.0.1"}, {}, "", [], "10.0.0.1"),
    "an expression": ({"ansible_host": "{{ inventory_hostname }}.lan"}, {}, "", [], "n1.lan"),
    "an option as host": ({"ansible_host": "-oProxyCommand=x"}, {}, "", [], "-oProxyCommand=x"),
    "port": ({"ansible_port": 2222}, {}, "", ["-p", "2222"], "n1"),
    "port of both": ({"ansible_port": 1, "ansible_ssh_port": 2}, {}, "", ["-p", "2"], "n1"),
    "port of the environment": ({}, {"ANSIBLE_REMOTE_PORT": "3"}, "", ["-p", "3"], "n1"),
    "port of the file": ({}, {}, "[defaults]\nremote_port = 4\n", ["-p", "4"], "n1"),
    "user": ({"ansible_user": "ann"}, {}, "", ["-l", "ann"], "n1"),
    "user of the environment": ({}, {"ANSIBLE_REMOTE_USER": "ann"}, "", ["-l", "ann"], "n1"),
    "user of the file": ({}, {}, "[defaults]\nremote_user = ann\n", ["-l", "ann"], "n1"),
    "a variable before the rest": (
        {"ansible_user": "ann"},
        {"ANSIBLE_REMOTE_USER": "bob"},
        "[defaults]\nremote_user = cid\n",
        ["-l", "ann"],
        "n1",
    ),
    "the environment before the file": (
        {},
        {"ANSIBLE_REMOTE_USER": "bob"},
        "[defaults]\nremote_user = cid\n",
        ["-l", "bob"],
        "n1",
    ),
    "key": ({"ansible_ssh_private_key_file": "/k"}, {}, "", ["-i", "/k"], "n1"),
    "key by its other name": ({"ansible_private_key_file": "/k"}, {}, "", ["-i", "/k"], "n1"),
    "key at home": ({"ansible_private_key_file": "~/k"}, {}, "", ["-i", "HOME/k"], "n1"),
    "key of the environment": ({}, {"ANSIBLE_PRIVATE_KEY_FILE": "/k"}, "", ["-i", "/k"], "n1"),
    "key of the file": ({}, {}, "[defaults]\nprivate_key_file = /k\n", ["-i", "/k"], "n1"),
    "all arguments, and their quotes": (
        {
            "ansible_ssh_extra_args": "-o 'User=a b'",
            "ansible_ssh_common_args": "-J bastion",
            "ansible_ssh_args": "-C",
        },
        {},
        "",
        ["-C", "-J", "bastion", "-o", "User=a b"],
        "n1",
    ),
    "arguments of the environment": (
        {},
        {
            "ANSIBLE_SSH_ARGS": "-C",
            "ANSIBLE_SSH_COMMON_ARGS": "-J b",
            "ANSIBLE_SSH_EXTRA_ARGS": "-v",
        },
        "",
        ["-C", "-J", "b", "-v"],
        "n1",
    ),
    "arguments of the file": (
        {},
        {},
        "[ssh_connection]\nssh_args = -C\nssh_common_args = -J b\nssh_extra_args = -v\n",
        ["-C", "-J", "b", "-v"],
        "n1",
    ),
    "no check of keys": ({"ansible_host_key_checking": False}, {}, "", WITHOUT_CHECKS, "n1"),
    "a check of keys": ({"ansible_host_key_checking": True}, {}, "", [], "n1"),
    "no check by the environment": (
        {},
        {"ANSIBLE_HOST_KEY_CHECKING": "False"},
        "",
        WITHOUT_CHECKS,
        "n1",
    ),
    "no check by the environment of ssh": (
        {},
        {"ANSIBLE_SSH_HOST_KEY_CHECKING": "no"},
        "",
        WITHOUT_CHECKS,
        "n1",
    ),
    "no check by the file": (
        {},
        {},
        "[defaults]\nhost_key_checking = false\n",
        WITHOUT_CHECKS,
        "n1",
    ),
    "all of it": (
        {
            "ansible_host": "h",
            "ansible_port": "22",
            "ansible_user": "u",
            "ansible_private_key_file": "/k",
            "ansible_ssh_args": "-C",
            "ansible_host_key_checking": "no",
        },
        {},
        "",
        ["-C", *WITHOUT_CHECKS, "-i", "/k", "-p", "22", "-l", "u"],
        "h",
    ),
    "no check by the file's section of ssh": (
        *({}, {}, "[ssh_connection]\nhost_key_checking = false\n", WITHOUT_CHECKS, "n1"),
    ),
    "of two of the environment the last one counts": (
        {},
        {"ANSIBLE_HOST_KEY_CHECKING": "True", "ANSIBLE_SSH_HOST_KEY_CHECKING": "False"},
        "",
        WITHOUT_CHECKS,
        "n1",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ssh_is_called_as_ansible_would_call_it(
    run: Run,
    make_site: MakeSite,
    make_ssh: MakeSsh,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: Case,
) -> None:
    variables, environment, config, words, host = case
    program = make_ssh()
    site = make_site({"n1": variables}, over(program))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if config:
        (site / "ansible.cfg").write_text(config)
    ran = called(run, site, "--", "echo hi")
    assert (ran.code, ran.out) == (0, "n1: hi\n"), ran.err
    wanted = [it.replace("HOME", str(home)) for it in words]
    assert words_of(program) == (wanted, host)


@pytest.mark.parametrize("way", ["variable", "environment", "file"])
def test_the_program_for_ssh_is_what_is_said(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    program = make_ssh()
    site = make_site(["n1"], over(program) if way == "variable" else {})
    if way == "environment":
        monkeypatch.setenv("ANSIBLE_SSH_EXECUTABLE", str(program))
    elif way == "file":
        (site / "ansible.cfg").write_text(f"[ssh_connection]\nssh_executable = {program}\n")
    assert called(run, site, "--", "echo hi").out == "n1: hi\n"
    assert words_of(program) == ([], "n1")


def test_without_any_of_it_it_is_the_ssh_of_the_path(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = make_ssh()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert called(run, make_site(["n1"], {}), "--", "echo hi").out == "n1: hi\n"
    assert words_of(program) == ([], "n1")


@pytest.mark.parametrize(
    ("variables", "environment", "config", "words"),
    [
        ({"ansible_become": True}, {}, "", "-n -H -u root --"),
        ({"ansible_become": "{{ 1 == 1 }}"}, {}, "", "-n -H -u root --"),
        ({"ansible_become": True, "ansible_become_user": "db"}, {}, "", "-n -H -u db --"),
        ({"ansible_become": True, "ansible_become_method": "sudo"}, {}, "", "-n -H -u root --"),
        ({}, {"ANSIBLE_BECOME": "1", "ANSIBLE_BECOME_USER": "db"}, "", "-n -H -u db --"),
        ({}, {}, "[privilege_escalation]\nbecome = yes\nbecome_user = x\n", "-n -H -u x --"),
        ({"ansible_become": False}, {"ANSIBLE_BECOME": "1"}, "", ""),
        ({"ansible_become": "no"}, {}, "", ""),
        ({"ansible_become_user": "db"}, {}, "", ""),
    ],
    ids=str,
)
@pytest.mark.parametrize("way", ["local", "ssh"])
def test_who_becomes_root_does_so_by_sudo(
    run: Run,
    make_site: MakeSite,
    make_ssh: MakeSsh,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    variables: Mapping[str, Any],
    environment: Mapping[str, str],
    config: str,
    words: str,
) -> None:
    shared = LOCAL if way == "local" else over(make_ssh())
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nexport BY="$1 $2 $3 $4 $5"\nshift 5\nexec "$@"\n')
    sudo.chmod(0o755)
    site = make_site({"n1": variables}, shared)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if config:
        (site / "ansible.cfg").write_text(config)
    assert called(run, site, "--", "echo by $BY").out == f"n1: by {words}".rstrip() + "\n"
