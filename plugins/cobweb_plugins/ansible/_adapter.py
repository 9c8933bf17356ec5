"""The adapter `ansible-inventory`: inventory sources that only Ansible itself can read.

INI files, executable scripts and configurations of inventory plugins are read by what
`ansible-inventory --list` runs. What Ansible says in a warning and forgives is an error here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cobweb.errors import CobwebError, Finding
from cobweb.model import Host
from cobweb.plugin import ActionUse, JsonError, SiteFiles, json_of

TIMEOUT_S = 300.0
PLUGIN_KEY = re.compile(r"^plugin\s*:", re.MULTILINE)
STATIC = (".yml", ".yaml", ".json")
HEAD_BYTES = 1 << 16
READER = "cobweb_plugins.ansible.strategy.cobweb_inventory"
ORDER = "_cobweb_order"
"""The key by which the reader tells the order of hosts and of groups."""
UNVAULTED = "cobweb_plugins.ansible.strategy.cobweb_unvaulted"
VAULT_HEADER = b"$ANSIBLE_VAULT;"
SEE = "see whether `ansible-vault view` opens it"


class AnsibleInventory:
    """Reads hosts of any source that Ansible knows; values are not templated, vault marks stay."""

    name: ClassVar[str] = "ansible-inventory"

    def __init__(self) -> None:
        self._last: tuple[tuple[Path, ...], dict[str, Any]] = ((), {})

    def reads(self, source: Path) -> bool:
        """Say yes to scripts, to plugin configurations, and to files that are no YAML or JSON."""
        if not source.is_file():
            return False
        if os.access(source, os.X_OK) or source.suffix not in STATIC:
            return True
        with source.open(encoding="utf-8", errors="replace") as file:
            return PLUGIN_KEY.search(file.read(HEAD_BYTES)) is not None

    def hosts(self, source: Path) -> Iterable[Host]:
        """Return the hosts in Ansible's order; CobwebError where it cannot read all of it."""
        return self.hosts_after(source, ())

    def hosts_after(self, source: Path, before: Sequence[Path]) -> Iterable[Host]:
        """Return the hosts of all sources with the variables that the last one adds or changes."""
        if not source.exists():
            raise CobwebError(f"no such file: {source}")
        _refuse_vaulted(source)
        sources = (*before, source)
        if not before or self._last[0] != sources[:-1]:  # it is what was read just now, or unknown
            self._last = (sources[:-1], _read(*before) if before else {})
        known, data = self._last[1], _read(*sources)
        self._last = (sources, data)
        groups = _groups_of(data)
        return [
            Host(
                name=name,
                groups=tuple(sorted(groups[name])),
                variables=_added(_variables(known, name), _variables(data, name)),
            )
            for name in data[ORDER]["hosts"]
        ]

    def groups(self, source: Path, before: Sequence[Path]) -> Mapping[str, Sequence[str]]:
        """Return the groups that Ansible has after all sources, of which the hosts were read."""
        assert self._last[0] == (*before, source), "the hosts are asked for first"
        return dict(self._last[1][ORDER]["groups"])

    def look_at(
        self, uses: Sequence[ActionUse], files: SiteFiles
    ) -> tuple[Sequence[Finding], Sequence[Finding]]:
        """Return what is wrong with task files and roles, and what is worth a word."""
        from cobweb_plugins.ansible._actions import look_at  # on demand

        return look_at(uses, files) if uses else ((), ())

    def unvaulted(self, path: Path, site_dir: Path) -> Mapping[str, Any]:
        """Return what is in a vaulted file, opened with the secrets that Ansible finds there.

        It is opened in a process of its own, which vaults each value anew.
        """
        from cobweb_plugins.ansible._results import bounded
        from cobweb_plugins.ansible._workspace import ansible_tool

        ansible_tool("ansible-vault")  # what says how to install it
        command = (sys.executable, "-P", "-m", UNVAULTED, str(path))
        try:
            done = subprocess.run(
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=_environment(site_dir / "site.yml"),
                cwd=site_dir,
                timeout=TIMEOUT_S,
                start_new_session=True,  # without a terminal, on which somebody could be asked
            )
            said = dict(json_of(done.stdout, "its output"))
        except (OSError, subprocess.TimeoutExpired, JsonError) as error:
            cause = type(error).__name__
            raise CobwebError(f"the vaulted file cannot be opened: {cause}", hint=SEE) from error
        if "problem" in said:
            raise CobwebError(bounded(said["problem"]), hint=said["hint"])
        return dict(said["data"])


def _refuse_vaulted(source: Path) -> None:
    """Refuse an inventory that is vaulted itself: Ansible would print it in the clear."""
    for path in source.iterdir() if source.is_dir() else [source]:
        if path.is_file() and os.access(path, os.R_OK):
            with path.open("rb") as file:
                if file.read(len(VAULT_HEADER)) == VAULT_HEADER:
                    hint = "vault its variables, in files of group_vars or one by one"
                    raise CobwebError(f"{path} is an inventory that is vaulted", hint=hint)


def _read(*sources: Path) -> dict[str, Any]:
    """Have Ansible read sources into one inventory, the last one as the strongest."""
    source = sources[-1]
    asked = [word for each in sources for word in ("-i", str(each))]
    from cobweb_plugins.ansible._results import bounded
    from cobweb_plugins.ansible._workspace import ansible_tool

    ansible_tool("ansible-inventory")  # which says what to install where there is none
    command = [sys.executable, "-P", "-m", READER, "--list", *asked]
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=_environment(source),
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CobwebError(f"cannot run ansible-inventory on {source}: {error}") from error
    if done.returncode:
        raise CobwebError(f"cannot read the inventory {source}: {bounded(done.stderr)}")
    try:
        found = json_of(done.stdout, "its output")
    except JsonError as error:
        message = f"ansible-inventory printed no JSON for {source}: {error}"
        raise CobwebError(message) from error
    return dict(found)


def _environment(source: Path) -> dict[str, str]:
    from cobweb_plugins.ansible._workspace import ansible_config, search_paths, vars_plugins

    site = next((it for it in source.parents if (it / "site.yml").is_file()), source.parent)
    beside = (source.parent / "ansible.cfg").is_file()
    config = ansible_config(source.parent if beside else site)
    known = {} if config.file is None else {"ANSIBLE_CONFIG": str(config.file)}
    return {
        **os.environ,
        **known,
        **search_paths(site, config),
        **vars_plugins(config),
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
        "ANSIBLE_NOCOLOR": "True",
        "ANSIBLE_ASK_VAULT_PASS": "False",
    }


def _variables(data: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = data.get("_meta", {}).get("hostvars", {}).get(host, {})
    return found


def _added(known: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that are not known with the same value; `1` and `true` differ."""
    written = {key: json.dumps(it) for key, it in known.items()}
    return {key: it for key, it in now.items() if written.get(key) != json.dumps(it)}


def _groups_of(data: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the groups of each host, direct or by descent, without all and ungrouped."""
    found: dict[str, set[str]] = {name: set() for name in data[ORDER]["hosts"]}
    for group, hosts in data[ORDER]["groups"]:
        for name in hosts if group not in ("all", "ungrouped") else ():
            found[name].add(group)
    return found
