"""What one Ansible process is given: inventory, playbook, environment, a short folder for sockets.

Settings of ours are defaults: whatever the user's environment or ansible.cfg says wins, but for the
few that Cobweb itself stands on (`FORCED`). Secrets are in files that only their owner reads, never
in arguments or the environment.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from configparser import ConfigParser, Error
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobweb.errors import ExecutorError
from cobweb.plugin import ExecutorSetting, data_dir
from cobweb_plugins.ansible._job_marks import JOB_VARIABLE
from cobweb_plugins.ansible._runner import Command
from cobweb_plugins.ansible._wire import SOCKET_VARIABLE

HERE = Path(__file__).parent
SSH_ARGS = (
    "-C -o ControlMaster=auto -o ControlPersist=60s"
    " -o ServerAliveInterval=3 -o ServerAliveCountMax=2"
)
FRESH_SSH_ARGS = "-o ControlMaster=no -o ControlPath=none"
DEFAULTS = (
    ("ANSIBLE_PYTHON_INTERPRETER", "defaults", "interpreter_python", "auto_silent"),
    ("ANSIBLE_PIPELINING", "connection", "pipelining", "True"),
    ("ANSIBLE_HOST_KEY_CHECKING", "defaults", "host_key_checking", "True"),
    (
        "ANSIBLE_SSH_ARGS",
        "ssh_connection",
        "ssh_args",
        SSH_ARGS,
    ),
)
"""Environment variable, section and key in ansible.cfg, value where neither is set.

The keepalive makes a host that hangs unreachable after some 10 s; without it Ansible waits for ever
on a connection that it shares. ansible-runner switches host key checking off, we switch it back on.
"""

FORCED = {
    "ANSIBLE_INVENTORY_ENABLED": "yaml",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
    "ANSIBLE_CALLBACKS_ENABLED": "awx_display",
    "ANSIBLE_ENABLE_TASK_DEBUGGER": "False",
    "ANSIBLE_NOCOLOR": "True",
    "ANSIBLE_FORCE_COLOR": "False",
    "ANSIBLE_VARS_ENABLED": "cobweb_none",
    "ANSIBLE_ASK_PASS": "False",
    "ANSIBLE_ASK_VAULT_PASS": "False",
    "ANSIBLE_BECOME_ASK_PASS": "False",
    "ANSIBLE_WORKER_SHUTDOWN_POLL_COUNT": "500",
    "ANSIBLE_WORKER_SHUTDOWN_POLL_DELAY": "0.01",
}
"""What Cobweb stands on: the inventory is generated and its variables are merged already.

A worker of ansible-playbook that is still about to end would be ended at once, and with its process
group the ProxyCommand below a shared connection.
"""

TREES_VARIABLE = "cobweb_trees"
"""Tells tasks where the archives of file trees are."""

_KINDS = ("action", "become", "connection", "filter", "inventory", "lookup", "test")
SEARCH_PATHS = (
    ("ANSIBLE_ROLES_PATH", "roles_path", "roles", "roles"),
    ("ANSIBLE_COLLECTIONS_PATH", "collections_path", "collections", "collections"),
    ("ANSIBLE_LIBRARY", "library", "library", "plugins/modules"),
    ("ANSIBLE_MODULE_UTILS", "module_utils", "module_utils", "plugins/module_utils"),
    *(
        (f"ANSIBLE_{kind.upper()}_PLUGINS", f"{kind}_plugins", f"{kind}_plugins", f"plugins/{kind}")
        for kind in _KINDS
    ),
)
"""Environment variable, key in ansible.cfg, the site's folder, and the one in Ansible's homes."""


SOCKET_ROOM = 55
"""Longer folders have no room for sockets: a path has 108 bytes, and ssh adds a suffix."""

SHORT_FOLDER = "/tmp"  # noqa: S108 - folders in it are made private


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The folders of one run: `data` below the run's own, `sockets` with a short path."""

    setting: ExecutorSetting
    data: Path
    sockets: Path

    @classmethod
    def create(cls, setting: ExecutorSetting) -> Workspace:
        """Make the folders and the inventory; ExecutorError where that cannot be done."""
        try:
            data = Path(tempfile.mkdtemp(prefix="ansible-", dir=setting.work_dir))
            sockets = Path(tempfile.mkdtemp(prefix="cobweb-", dir=_folder_of_sockets()))
            _write_private(data / "hosts.yml", json.dumps(_inventory(setting), default=dict))
        except OSError as error:
            raise ExecutorError(f"cannot make the files for Ansible: {error}") from error
        return cls(setting=setting, data=data, sockets=sockets)

    @property
    def inventory(self) -> Path:
        """The generated inventory, readable by its owner only."""
        return self.data / "hosts.yml"

    def playbook(self, name: str, plays: object) -> Path:
        """Write a playbook (JSON is YAML) and return its path."""
        path = self.data / name
        _write_private(path, json.dumps(plays, default=dict))
        return path

    @property
    def socket(self) -> Path:
        """Where the coordinator listens."""
        return self.sockets / "s"

    def command(
        self, number: int, *arguments: str, ident: str, memory: int = 0, mark: str = ""
    ) -> Command:
        """Return the command that runs ansible-playbook under guard `number`.

        It may take at most `memory` bytes; 0 for as much as it likes. What it starts has the job
        mark `mark`, if that is not empty.
        """
        guard = (sys.executable, "-m", "cobweb_plugins.ansible._guard")
        run = (str(self.socket), str(self.data), str(number), str(memory))
        playbook = (ansible_tool("ansible-playbook"), "-i", str(self.inventory), *self._extra())
        return Command(
            arguments=(*guard, *run, *playbook, *arguments),
            environment={
                **self.environment(),
                SOCKET_VARIABLE: str(self.socket),
                JOB_VARIABLE: mark,
            },
            data=self.data,
            cwd=self.setting.site_dir,
            ident=ident,
        )

    def _extra(self) -> tuple[str, str]:
        """Return the arguments for the variables of all jobs."""
        return ("-e", json.dumps({TREES_VARIABLE: str(self.setting.trees)}))

    def environment(self) -> dict[str, str]:
        """Return the variables to add to the inherited environment."""
        config = ansible_config(self.setting.site_dir)
        own = {
            "ANSIBLE_LOCAL_TEMP": str(self.sockets / "tmp"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.sockets / "cp"),
            "ANSIBLE_STRATEGY_PLUGINS": str(HERE / "strategy"),
            "ANSIBLE_VARS_PLUGINS": str(HERE / "vars"),
            **search_paths(self.setting.site_dir, config, self.setting.roles_path),
        }
        if config.file is not None:
            own["ANSIBLE_CONFIG"] = str(config.file)
        return {**config.defaults(), **FORCED, **own}

    def fact_cache(self, folder: Path) -> dict[str, str]:
        """Return the settings by which facts are kept in a folder; none where the user has some."""
        said = ansible_config(self.setting.site_dir).parsed.has_option("defaults", "fact_caching")
        if said or "ANSIBLE_CACHE_PLUGIN" in os.environ:
            return {}
        return {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder)}

    def module_folders(self) -> tuple[list[Path], list[Path]]:
        """Return where Ansible looks for modules, and for what they import, in its order."""
        site_dir = self.setting.site_dir
        found = search_paths(site_dir, ansible_config(site_dir))
        libraries, utilities = found["ANSIBLE_LIBRARY"], found["ANSIBLE_MODULE_UTILS"]
        return _folders(libraries), _folders(utilities)

    def ssh_arguments(self) -> str:
        """Return `ssh_args` of hosts that say nothing of it themselves."""
        parsed = ansible_config(self.setting.site_dir).parsed
        written = parsed.get("ssh_connection", "ssh_args", fallback="")
        return {**os.environ, **self.environment()}.get("ANSIBLE_SSH_ARGS", written)

    def remove(self) -> None:
        """Remove both folders with all that is in them."""
        for path in (self.data, self.sockets):
            shutil.rmtree(path, ignore_errors=True)


def fresh_arguments(arguments: str | None) -> str:
    """Return arguments for ssh with which it shares no connection: of two, the first ones count."""
    return f"{FRESH_SSH_ARGS} {arguments or ''}".strip()


def search_paths(
    site_dir: Path, config: AnsibleConfig, roles: Sequence[Path] = ()
) -> dict[str, str]:
    """Return where Ansible is to look: beside a site first, then where the user or Ansible says.

    Folders in `roles` come before the site's own.
    """
    shipped = Path(str(data_dir("playbooks")))
    more = {
        "ANSIBLE_LIBRARY": [shipped / "library"],
        "ANSIBLE_MODULE_UTILS": [shipped / "module_utils"],
    }
    before = {"ANSIBLE_ROLES_PATH": roles}
    return {
        variable: _path_list(
            *map(str, before.get(variable, ())),
            str(site_dir / folder),
            *map(str, more.get(variable, ())),
            os.environ.get(variable) or config.paths("defaults", key) or _usual(inside),
        )
        for variable, key, folder, inside in SEARCH_PATHS
    }


def _usual(inside: str) -> str:
    """Return where Ansible looks for what is called so where nothing is said."""
    homes = [os.environ.get("ANSIBLE_HOME", "~/.ansible"), "/usr/share/ansible"]
    homes += ["/etc/ansible"] if inside == "roles" else []
    return _path_list(*(f"{home}/{inside}" for home in homes))


def _path_list(*paths: str) -> str:
    return os.pathsep.join(path for path in paths if path)


def _folders(paths: str) -> list[Path]:
    return [Path(path).expanduser() for path in paths.split(os.pathsep)]


def _folder_of_sockets() -> str:
    """Return the user's folder for temporary files, if its name is short enough."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= SOCKET_ROOM else SHORT_FOLDER


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _inventory(setting: ExecutorSetting) -> dict[str, Any]:
    """Return an inventory whose groups have the site's order; what the site lacks comes last.

    The variables of groups are merged into those of the hosts, so each group lists all of its
    hosts and none has children.
    """
    hosts = setting.hosts
    groups = {name: dict.fromkeys(members) for name, members in setting.groups.items()}
    for host in hosts.values():
        for group in ("all", *host.groups):
            groups.setdefault(group, {})[host.name] = None
    sources = {host.source for host in hosts.values()}
    whence = {source: _whence(setting.site_dir / source) for source in sources}
    everyone = groups.pop("all", {})
    groups.pop("ungrouped", None)
    return {
        "all": {
            "hosts": {
                name: {**whence[hosts[name].source], **hosts[name].variables}
                for name in everyone
                if name in hosts
            },
            "children": {
                group: {"hosts": {name: {} for name in members if name in hosts}}
                for group, members in groups.items()
            },
        }
    }


def _whence(source: Path) -> dict[str, str]:
    """Return what Ansible tells a host of the source that names it, in its own variables."""
    file = Path(os.path.normpath(source))
    return {
        "inventory_file": str(file),
        "inventory_dir": str(file if file.is_dir() else file.parent),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsibleConfig:
    """The ansible.cfg in effect, if there is one that can be read."""

    file: Path | None
    parsed: ConfigParser

    def defaults(self) -> dict[str, str]:
        """Return our defaults that neither the environment nor the file sets."""
        return {
            variable: value
            for variable, section, key, value in DEFAULTS
            if variable not in os.environ and not self._sets(section, key)
        } | self._kept()

    def _sets(self, section: str, key: str) -> bool:
        sections = (section, "defaults", "ssh_connection")
        return any(self.parsed.has_option(where, key) for where in sections)

    def _kept(self) -> dict[str, str]:
        """Say what the file says where ansible-runner would put its own word above it."""
        variable = "ANSIBLE_HOST_KEY_CHECKING"
        value = self.parsed.get("defaults", "host_key_checking", fallback="")
        return {variable: value} if value and variable not in os.environ else {}

    def paths(self, section: str, key: str) -> str:
        """Return a list of paths of the file, made absolute by the file's folder."""
        text = self.parsed.get(section, key, fallback="")
        if not text or self.file is None:
            return ""
        here = self.file.parent
        parts = (Path(os.path.expandvars(part)).expanduser() for part in text.split(":"))
        return _path_list(*(str(here / part) for part in parts))


def config_files(site_dir: Path) -> tuple[Path, ...]:
    """Return where an ansible.cfg may be; the first that is there counts, and no other."""
    said = os.environ.get("ANSIBLE_CONFIG")
    usual = (site_dir / "ansible.cfg", Path("~/.ansible.cfg").expanduser())
    return (*([Path(said)] if said else []), *usual, Path("/etc/ansible/ansible.cfg"))


def no_config() -> AnsibleConfig:
    """Return what there is without an ansible.cfg."""
    parsed = ConfigParser(interpolation=None, strict=False, inline_comment_prefixes=(";",))
    return AnsibleConfig(file=None, parsed=parsed)


def ansible_config(site_dir: Path) -> AnsibleConfig:
    """Find the ansible.cfg in effect: $ANSIBLE_CONFIG, the site's, the user's, the system's."""
    parsed = no_config().parsed
    file = next((it for it in config_files(site_dir) if it.is_file()), None)
    if file is not None:
        try:
            parsed.read(file, encoding="utf-8")
        except (OSError, Error, UnicodeDecodeError) as error:
            raise ExecutorError(f"cannot read {file}: {error}") from error
    return AnsibleConfig(file=file, parsed=parsed)


def ansible_tool(name: str) -> str:
    """Return the path of a command of the ansible-core that is installed with Cobweb."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ExecutorError(
            f"{name} is not installed", hint="install Cobweb with its extra `ansible`"
        )
    return found


_GROUP_VARS = tuple(f"{it}host_group_vars" for it in ("", "ansible.builtin.", "ansible.legacy."))
_OUR_VARS = "cobweb_group_vars"


def vars_plugins(config: AnsibleConfig) -> dict[str, str]:
    """Have Ansible read group_vars by our plugin, which lets nothing out of vaulted files."""
    written = config.parsed.get("defaults", "vars_plugins_enabled", fallback="host_group_vars")
    enabled = os.environ.get("ANSIBLE_VARS_ENABLED", written)
    ours = [_OUR_VARS if name.strip() in _GROUP_VARS else name for name in enabled.split(",")]
    folders = os.environ.get("ANSIBLE_VARS_PLUGINS") or config.paths("defaults", "vars_plugins")
    return {
        "ANSIBLE_VARS_ENABLED": ",".join(ours),
        "ANSIBLE_VARS_PLUGINS": _path_list(str(HERE / "vars"), folders or _usual("plugins/vars")),
    }
