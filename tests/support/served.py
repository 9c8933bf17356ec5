"""Sites that a controller keeps, from outside: files in Git or in a folder, and who keeps them.

The objects are boards (tests/plugins/controller/board), which write down each transition. `config`
on n1 stops `server` where its text changes; `plain` on n2 takes nothing out; the section
`switches` has a board on each host, with the text that is decided.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import create_engine
from sqlalchemy import text as sql_text

from cobweb._resources import data_dir
from cobweb.cli import main

__all__ = ["BOARDS", "Kept", "Ran", "Server", "before_children", "eventually", "git"]

CHECKOUT = Path(__file__).resolve().parents[2]
BOARDS = CHECKOUT / "tests" / "plugins" / "controller" / "board"
"""The folder of the plugin and its metadata."""

WAIT_S = 60.0
"""How long is waited for what comes soon; a broken controller fails a test after that."""

_POLL_S = 0.05
_GIT = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass(slots=True)
class Server:
    """A controller, or another command, in a process of its own; standard error is a file."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        """Return what is on its standard error."""
        return self.errors.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it by SIGKILL; what it has started goes on."""
        self.process.kill()
        self.process.wait(WAIT_S)

    def ended(self) -> Ran:
        """Wait for its end."""
        code = self.process.wait(WAIT_S)
        return Ran(code=code, out=self.output.read_text(encoding="utf-8"), err=self.said())


@dataclass(slots=True)
class Kept:
    """A site in a folder of its own, its state database, and commands on both.

    `texts` are those of the objects by name, `further` the text of more objects as lines of YAML
    below `cobs:`; both are in the files after `write` or `commit`. `is_git` says whether the
    controller reads the branch `main` of the folder's repository, or the folder as it is.
    """

    root: Path
    capsys: pytest.CaptureFixture[str]
    is_git: bool = True
    state: str = ""
    policy: str = ""
    texts: dict[str, str] = field(default_factory=lambda: {"config": "one", "plain": "one"})
    further: str = ""
    hosts: Sequence[str] = ("n1", "n2", "n3")

    def __post_init__(self) -> None:
        for name in ("boards", "hold", "fail"):
            (self.home / name).mkdir(parents=True)
        self.folder.mkdir()
        self.state = self.state or f"sqlite:///{self.root}/state.db"
        if self.is_git:
            git(self.folder, "init", "-q", "-b", "main")
            self.commit("the site")
        else:
            self.write()

    @property
    def folder(self) -> Path:
        """Return the folder of the site, which is the repository where there is one."""
        return self.root / "site"

    @property
    def home(self) -> Path:
        """Return the folder of the boards."""
        return self.root / "home"

    # The files

    def board(self, on: str, text: str, more: str = "") -> str:
        """Return an object as YAML in one line."""
        return f"{{type: board, on: {on}, spec: {{text: {text}, home: {self.home}}}{more}}}"

    def text(self) -> str:
        """Return the text of site.yml."""
        python = f"ansible_connection: local, ansible_python_interpreter: {sys.executable}"
        hosts = ", ".join(f"{host}: {{{python}}}" for host in self.hosts)
        return (
            f"cobweb: 1\nname: kept\n{self.state and f'state: {self.state}'}\n"
            f"inventory: {{all: {{hosts: {{{hosts}}}}}}}\n"
            f"switches: {{hosts: [n1, n2, n3], home: {self.home}}}\n"
            + (f"serve: {self.policy}\n" if self.policy else "")
            + "cobs:\n"
            + f"  config: {self.board('n1', self.texts['config'], ', stops: [server]')}\n"
            + f"  server: {self.board('n1', 'one', ', requires: [config]')}\n"
            + f"  plain: {self.board('n2', self.texts['plain'])}\n"
            + self.further
        )

    def write(self, **texts: str) -> None:
        """Write the files, with other texts of objects."""
        self.texts |= texts
        (self.folder / "site.yml").write_text(self.text(), encoding="utf-8")

    def commit(self, message: str = "a change", **texts: str) -> str:
        """Write the files and commit them; return the commit."""
        self.write(**texts)
        return self.commit_all(message)

    def commit_all(self, message: str) -> str:
        """Commit the files as they are."""
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.folder, "rev-parse", "HEAD").strip()

    # Commands in this process

    def ran(self, *words: str) -> Ran:
        self.capsys.readouterr()
        code = main(list(words))
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err, err
        return Ran(code=code, out=out, err=err)

    def on_site(self, *words: str) -> Ran:
        """Run a command on the folder of the site."""
        return self.ran("-C", str(self.folder), *words)

    def done(self, *words: str) -> Ran:
        """Run a command on the folder of the site that has to end well."""
        ran = self.on_site(*words)
        assert ran.code == 0, ran
        return ran

    def decide(self, key: str, body: Mapping[str, Any] | None) -> None:
        self.done("decide", "switches", key, json.dumps(body), "--reason", "it is time")

    @property
    def served(self) -> list[str]:
        """Return the words of `serve` that say what it serves."""
        if not self.is_git:
            return ["-C", str(self.folder), "serve"]
        return ["serve", "--git", str(self.folder), "--work", str(self.root / "work")]

    def once(self, *words: str) -> Any:
        """Run `serve --once` and return its JSON, which follows the schema and has its code."""
        ran = self.ran(*self.served, "--once", "-o", "json", *words)
        data = checked(ran.out)
        assert data["exit_code"] == ran.code, ran
        return data

    def code(self) -> int:
        """Run `serve --once` and return its exit code."""
        found: int = self.once()["exit_code"]
        return found

    def approvals(self) -> Any:
        """Return the JSON of `approvals`, which follows the schema."""
        return checked(self.done("approvals", "-o", "json").out)

    def waiting(self) -> list[Any]:
        """Return the approvals that are not over."""
        states = ("waiting", "invalid", "never", "window")
        return [it for it in self.approvals()["approvals"] if it["state"] in states]

    def only(self, state: str) -> Any:
        """Return the one approval that is in this state."""
        found = [it for it in self.approvals()["approvals"] if it["state"] == state]
        assert len(found) == 1, self.approvals()
        return found[0]

    # Commands in processes of their own

    @contextmanager
    def child(self, *words: str, program: Sequence[str] = ("-m", "cobweb")) -> Iterator[Server]:
        """Run a command in another process, which is killed in the end if it is alive."""
        number = len(list(self.root.glob("*.err")))
        output, errors = self.root / f"{number}.out", self.root / f"{number}.err"
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, *program, *words], stdout=out, stderr=err, cwd=CHECKOUT
            )
        server = Server(process, output, errors)
        try:
            yield server
        finally:
            server.kill()

    def server(self, *words: str) -> Any:
        """Run a server with rounds every second in another process."""
        return self.child(*self.served, "--every", "1s", *words)

    # What was done

    def log(self) -> list[list[Any]]:
        """Return [begin or end, object, text] of each transition in their order."""
        file = self.home / "log"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def ends(self) -> Counter[tuple[str, str | None]]:
        """Return how often each object came to each text, or to none."""
        return Counter((cob, text) for moment, cob, text in self.log() if moment == "end")

    def board_of(self, cob: str) -> str | None:
        """Return what is on the board of an object."""
        file = self._file("boards", cob)
        return file.read_text(encoding="utf-8") if file.exists() else None

    def scribble(self, cob: str, text: str) -> None:
        """Change the board of an object behind Cobweb's back."""
        self._file("boards", cob).write_text(text, encoding="utf-8")

    def hold(self, cob: str) -> None:
        """Have transitions of an object wait."""
        self._file("hold", cob).touch()

    def let_go(self, cob: str) -> None:
        self._file("hold", cob).unlink()

    def fail(self, cob: str) -> None:
        """Have transitions of an object fail."""
        self._file("fail", cob).touch()

    def let_all_go(self) -> None:
        for file in (self.home / "hold").iterdir():
            file.unlink()

    def mend(self, cob: str) -> None:
        self._file("fail", cob).unlink()

    def await_begin(self, cob: str) -> None:
        """Wait until the last transition of an object is at work."""

        def is_at_work() -> bool:
            mine = [moment for moment, of, _ in self.log() if of == cob]
            return bool(mine) and mine[-1] == "begin"

        eventually(is_at_work, f"{cob} begins")

    def done_once(self, cob: str, text: str | None) -> bool:
        """Say whether an object came to a text exactly once, and nothing began that did not end."""
        mine = [moment for moment, of, it in self.log() if (of, it) == (cob, text)]
        return mine == ["begin", "end"]

    def leader(self) -> Any:
        """Return who leads and since when; None if nobody does."""
        return self.approvals()["leader"]

    def documents(self) -> list[Any]:
        """Return all rows of what controllers write: memory, approvals, decisions."""
        engine = create_engine(self.state)
        try:
            with engine.connect() as connection:
                rows = connection.execute(sql_text("SELECT * FROM cobweb_documents"))
                return sorted(repr(row) for row in rows)
        finally:
            engine.dispose()

    def runs(self) -> list[Any]:
        """Return the runs, the newest first."""
        found: list[Any] = self.done("runs", "-o", "json").data["runs"]
        return found

    def outages(self) -> set[str]:
        """Return what goes out by `plan` on the folder as it is now."""
        plan = self.done("plan", "-o", "json").data
        return {*plan["downtime"], *plan["restarts"]}

    def _file(self, folder: str, cob: str) -> Path:
        return self.home / folder / cob.replace("/", "--")


def checked(text: str) -> Any:
    """Return the JSON of `approvals` or `serve --once`, which follows its schema."""
    data = json.loads(text)
    schema = json.loads((data_dir("schemas") / "approvals.schema.json").read_text())
    Draft202012Validator(schema).validate(data)
    return data


def eventually(is_so: Callable[[], object], what: str, wait_s: float = WAIT_S) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + wait_s
    while not is_so():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(_POLL_S)


def git(folder: Path, *words: str) -> str:
    """Run Git in a repository."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", *_GIT, *words], cwd=folder, check=True, capture_output=True, text=True, env=env
    ).stdout


@contextmanager
def before_children(step: Callable[[Sequence[str]], None]) -> Iterator[None]:
    """Have `step` called with the words of each child process before this process starts it."""
    real = subprocess.Popen.__init__

    def started(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        step([args] if isinstance(args, str) else [os.fspath(word) for word in args])
        real(self, args, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", started)
        yield
