"""Direct jobs: those whose tasks do nothing but call one module of Cobweb's own with `cob`.

Nearly all checks and transitions of the built-in types are of that form. Once the way to a host is
known, a lane hands such a call to the host's module server as it is, without a play of Ansible and
without Ansible's library on the host. It is the same module with the same answer; tasks of any
other form, and modules of the same name in the site, are for Ansible.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import marshal
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cobweb.plugin import data_dir
from cobweb_plugins.ansible._results import MESSAGE_FACT, STATE_FACT
from cobweb_plugins.ansible._workspace import TREES_VARIABLE

PREFIX = "cobweb_"
COB = "{{ cob }}"
SET_FACT = ("set_fact", "ansible.builtin.set_fact")
UTILS = "ansible.module_utils"
IMPORT = re.compile(rf"^ *from {re.escape(UTILS)}(?:\.(\w+))? import (.+)", re.MULTILINE)
BY_ANSIBLE = "basic"
"""What a module imports where Ansible calls it, and there alone."""
PACKAGES = ("ansible", "ansible/module_utils")
PYC_HEAD = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""What a file of bytecode begins with that is not compared with its source (PEP 552)."""
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RecursionError,
    yaml.YAMLError,
)
"""What the look at a file ends with that is no list of tasks in the form of a direct job."""
STAMP = (1980, 1, 1, 0, 0, 0)
"""The time of all files in a zip, so that the same files have the same digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectTasks:
    """The tasks of a direct job: a module, packed, the action asked of it, and the tasks' names.

    `says` are the facts that a check sets, each with the key of the module's answer that it has
    (and whether it may be missing); without a check they are empty.
    """

    name: str
    module: str
    action: str
    says_name: str
    says: Mapping[str, tuple[str, bool]]
    code: bytes
    digest: str

    def message(self) -> dict[str, Any]:
        """Return what a lane is told of them, but for the code."""
        return {
            "name": self.name,
            "module": self.module,
            "action": self.action,
            "says_name": self.says_name,
            "says": self.says,
            "digest": self.digest,
        }


class _Source(NamedTuple):
    """The text of a file, and the names of those of ours that it imports."""

    text: str
    imports: Sequence[str]


class DirectFiles:
    """Looks at task files, at each once: what is edited while a run goes on counts for the next.

    `libraries` and `utilities` are the folders in which Ansible looks for modules and for what they
    import, in its order; those of Cobweb are in the folder `own`.
    """

    def __init__(
        self, libraries: Sequence[Path], utilities: Sequence[Path], *, own: Path | None = None
    ) -> None:
        own = own or Path(str(data_dir("playbooks")))
        self._library, self._utilities = own / "library", own / "module_utils"
        before = (*_before(self._library, libraries), *_before(self._utilities, utilities))
        self._others = frozenset(name for folder in before for name in _names_in(folder))
        self._known: dict[str, DirectTasks | None] = {}
        self._packed: dict[str, bytes | None] = {}
        self._sources: dict[Path, _Source | None] = {}

    def tasks(self, path: str) -> DirectTasks | None:
        """Return the tasks of a file; None where it has others than those of a direct job."""
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: str) -> DirectTasks | None:
        try:
            call, *rest = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
            (module,) = call.keys() - {"name", "register"}
            arguments = call[module]
            action = arguments["action"]
            says = _says(rest, call.get("register"))
            names = [task.get("name", "") for task in (call, *rest)]
        except UNREADABLE:
            return None
        texts = (module, action, *names)
        if not all(isinstance(text, str) and "{" not in text for text in texts):
            return None
        if says is None or arguments != {"action": action, "cob": COB} or not _is_ours(module):
            return None
        code = self._pack(module)
        if code is None:
            return None
        return DirectTasks(
            name=names[0] or module,
            module=module,
            action=action,
            says_name=names[-1] or next(iter(rest[-1].keys() - {"name"})) if rest else "",
            says=says,
            code=base64.b64encode(code),
            digest=hashlib.sha256(code).hexdigest()[:32],
        )

    def _pack(self, module: str) -> bytes | None:
        if module not in self._packed:
            self._packed[module] = self._zip(module)
        return self._packed[module]

    def _zip(self, module: str) -> bytes | None:
        """Return a zip of a module and all that it imports; None where not all of it is ours."""
        wanted = [self._library / f"{module}.py"]
        sources: dict[str, _Source] = {}
        while wanted:
            path = wanted.pop()
            where = "" if path.parent == self._library else f"{PACKAGES[-1]}/"
            if path.stem in self._others or (source := self._source(path)) is None:
                return None
            sources[f"{where}{path.name}"] = source
            new = [name for name in source.imports if f"{PACKAGES[-1]}/{name}.py" not in sources]
            wanted += [self._utilities / f"{name}.py" for name in new]
        return _zipped(sources)

    def _source(self, path: Path) -> _Source | None:
        """Return a file as it was when it was first asked for: servers count on that."""
        if path not in self._sources:
            text = path.read_text(encoding="utf-8") if path.is_file() else None
            self._sources[path] = None if text is None else _Source(text, tuple(_imports(text)))
        return self._sources[path]


def _zipped(sources: Mapping[str, _Source]) -> bytes:
    """Return a zip of files, each also as bytecode for a host with the same Python as ours."""
    files: dict[str, str | bytes] = {f"{name}/__init__.py": "" for name in PACKAGES}
    for file, source in sorted(sources.items()):
        code = compile(source.text, file, "exec", dont_inherit=True)
        files |= {file: source.text, f"{file}c": PYC_HEAD + marshal.dumps(code)}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for file, content in files.items():
            packed.writestr(zipfile.ZipInfo(file, STAMP), content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def has_templates(variables: Mapping[str, Any]) -> bool:
    """Say whether variables of a connection are templates: they may mean another host each time."""
    words = (str(value) for name, value in variables.items() if name.startswith("ansible_"))
    return any(mark in word for word in words for mark in ("{{", "{%", "{#"))


def _before(own: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders in which Ansible looks before it looks into our `own`."""
    for folder in folders:
        if folder == own:
            return
        yield folder


def _names_in(folder: Path) -> Iterator[str]:
    """Yield the names of files that may stand for ours, also below links, as Ansible looks."""
    seen = set()
    for path, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(path)
        if real in seen:
            folders.clear()
        seen.add(real)
        yield from (Path(file).stem for file in (*folders, *files) if file.startswith(PREFIX))


def _is_name(register: object) -> bool:
    """Say whether Ansible would register under that name, so that it is seen there."""
    is_name = isinstance(register, str) and register.isidentifier() and not iskeyword(register)
    return is_name and register not in ("cob", TREES_VARIABLE)


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX) and name.isidentifier()


def _says(tasks: Sequence[Any], register: object) -> dict[str, tuple[str, bool]] | None:
    """Return the facts that the task after the module sets; None where it is another task."""
    if not tasks:
        return {}
    (task,) = tasks
    (name,) = task.keys() - {"name"}
    plain = {
        f"{{{{ {register}.state }}}}": ("state", False),
        f"{{{{ {register}.message | default('') }}}}": ("message", True),
    }
    facts = task[name]
    if name not in SET_FACT or not _is_name(register):
        return None
    if not {STATE_FACT} <= facts.keys() <= {STATE_FACT, MESSAGE_FACT}:
        return None
    return {fact: plain[text] for fact, text in facts.items()}


def _imports(text: str) -> Iterator[str]:
    """Yield the names below `ansible.module_utils` that a file of ours imports, but for `basic`."""
    for module, names in IMPORT.findall(text):
        if module:
            yield from () if module == BY_ANSIBLE else (module,)
        else:
            yield from (name.split()[0] for name in names.split(","))
