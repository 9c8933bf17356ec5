"""What the tests of the built-in types share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest

from cobweb.plugin import data_dir
from tests.support.phases import Phase, opened_phase
from tests.support.tasks import Hand, opened_hand

PLAYBOOKS = Path(str(data_dir("playbooks")))


@pytest.fixture(scope="session")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    """Return the executor that carries out task files, warm for all tests."""
    with opened_hand(tmp_path_factory.mktemp("hand")) as opened:
        yield opened


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Return the folder that stands for the host's file system."""
    folder = tmp_path / "system"
    folder.mkdir()
    return folder


@pytest.fixture
def memory() -> Iterator[Path]:
    """Return a folder like `system`, in memory: no test of many steps waits for a disk."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        made = Path(folder) / "system"
        made.mkdir()
        yield made


@pytest.fixture
def supervision(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the supervisor as the modules do."""
    return _load(monkeypatch, "module_utils/cobweb_supervisor.py")


@pytest.fixture
def host_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import what all modules share."""
    return _load(monkeypatch, "module_utils/cobweb_host.py")


@pytest.fixture
def file_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module of `file`, to call its actions without Ansible around."""
    for name in ("host", "supervisor", "command", "entry", "record", "whole", "lines", "part"):
        _load(monkeypatch, f"module_utils/cobweb_{name}.py")
    return _load(monkeypatch, "library/cobweb_file.py")


@pytest.fixture
def process_module(monkeypatch: pytest.MonkeyPatch, supervision: ModuleType) -> ModuleType:
    """Import the module of `process`."""
    del supervision
    return _module(monkeypatch, "cobweb_process")


@pytest.fixture
def phase_module(monkeypatch: pytest.MonkeyPatch, supervision: ModuleType) -> ModuleType:
    """Import the module of `phase`."""
    del supervision
    _load(monkeypatch, "module_utils/cobweb_phase_supervisor.py")
    return _module(monkeypatch, "cobweb_phase")


@pytest.fixture
def phase(phase_module: ModuleType, system: Path) -> Iterator[Phase]:
    """Return a phase that can be started; in the end nothing of it may be left."""
    with opened_phase(phase_module, system) as opened:
        yield opened


@pytest.fixture
def counted(phase: Phase) -> Phase:
    """Return a phase whose command counts itself how often it was started."""
    phase.spec["run"] = f"echo x >> {phase.system}/count; exec sleep 1000"
    return phase


@pytest.fixture
def script_module(monkeypatch: pytest.MonkeyPatch, supervision: ModuleType) -> ModuleType:
    """Import the module of `script`."""
    del supervision
    return _module(monkeypatch, "cobweb_script")


@pytest.fixture
def service_module(monkeypatch: pytest.MonkeyPatch, system: Path) -> ModuleType:
    """Import the module of `service`, whose units' files it may write."""
    for name in ("host", "supervisor", "command", "entry", "record", "whole"):
        _load(monkeypatch, f"module_utils/cobweb_{name}.py")
    for name in ("systemd", "health", "watched"):
        _load(monkeypatch, f"module_utils/cobweb_{name}.py")
    unit = _load(monkeypatch, "module_utils/cobweb_unit.py")
    monkeypatch.setattr(unit, "UNIT_DIR", system / "units")
    return _load(monkeypatch, "library/cobweb_service.py")


@pytest.fixture
def confirm_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module of the dead-man switch."""
    _load(monkeypatch, "module_utils/cobweb_watcher.py")
    return _module(monkeypatch, "cobweb_confirm")


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import what the tools of packages tell."""
    for name in ("host", "tools"):
        _load(monkeypatch, f"module_utils/cobweb_{name}.py")
    return _load(monkeypatch, "module_utils/cobweb_packages.py")


@pytest.fixture
def tree_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module of `tree`."""
    _load(monkeypatch, "module_utils/cobweb_host.py")
    for part in ("merge", "git", "archive", "disk", "record", "words", "contents"):
        _load(monkeypatch, f"module_utils/cobweb_tree_{part}.py")
    return _load(monkeypatch, "library/cobweb_tree.py")


@pytest.fixture
def postgres_values(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import what reads values of PostgreSQL's parameters."""
    for name in ("cobweb_host", "cobweb_postgres"):
        _load(monkeypatch, f"module_utils/{name}.py")
    return _load(monkeypatch, "module_utils/cobweb_postgres_values.py")


@pytest.fixture
def postgres_module(monkeypatch: pytest.MonkeyPatch, postgres_values: ModuleType) -> ModuleType:
    """Import the module of `postgres-parameter`."""
    utils = sys.modules["ansible.module_utils"]
    monkeypatch.setattr(utils, "cobweb_postgres_values", postgres_values, raising=False)
    _load(monkeypatch, "module_utils/cobweb_entry.py")
    return _load(monkeypatch, "library/cobweb_postgres_parameter.py")


@pytest.fixture
def pacemaker_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import what the modules of the `ha-` types share."""
    for name in ("host", "tools", "cib"):
        _load(monkeypatch, f"module_utils/cobweb_{name}.py")
    return _load(monkeypatch, "module_utils/cobweb_pacemaker.py")


@pytest.fixture
def cib_module(pacemaker_module: ModuleType) -> ModuleType:
    """Import what writes and reads Pacemaker's configuration."""
    del pacemaker_module
    return sys.modules["ansible.module_utils.cobweb_cib"]


@pytest.fixture
def ha_resource_module(monkeypatch: pytest.MonkeyPatch, pacemaker_module: ModuleType) -> ModuleType:
    """Import the module of `ha-resource`."""
    monkeypatch.setattr(
        sys.modules["ansible.module_utils"], "cobweb_pacemaker", pacemaker_module, raising=False
    )
    return _load(monkeypatch, "library/cobweb_ha_resource.py")


@pytest.fixture
def ha_node_module(monkeypatch: pytest.MonkeyPatch, pacemaker_module: ModuleType) -> ModuleType:
    """Import the module of `ha-node`."""
    del pacemaker_module
    return _load(monkeypatch, "library/cobweb_ha_node.py")


@pytest.fixture
def ha_constraint_module(
    monkeypatch: pytest.MonkeyPatch, pacemaker_module: ModuleType
) -> ModuleType:
    """Import the module of `ha-constraint`."""
    del pacemaker_module
    return _load(monkeypatch, "library/cobweb_ha_constraint.py")


@pytest.fixture
def ha_options_module(monkeypatch: pytest.MonkeyPatch, pacemaker_module: ModuleType) -> ModuleType:
    """Import the module of `ha-options`."""
    del pacemaker_module
    return _load(monkeypatch, "library/cobweb_ha_options.py")


@pytest.fixture
def user_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module of `user`."""
    for name in ("host", "tools"):
        _load(monkeypatch, f"module_utils/cobweb_{name}.py")
    return _load(monkeypatch, "library/cobweb_user.py")


@pytest.fixture
def mounts_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import what knows mounts and fstab."""
    for name in ("host", "tools"):
        _load(monkeypatch, f"module_utils/cobweb_{name}.py")
    return _load(monkeypatch, "module_utils/cobweb_mounts.py")


@pytest.fixture
def firewall_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module of `firewall`."""
    for name in ("host", "tools"):
        _load(monkeypatch, f"module_utils/cobweb_{name}.py")
    return _load(monkeypatch, "library/cobweb_firewall.py")


def _module(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    _load(monkeypatch, "module_utils/cobweb_host.py")
    return _load(monkeypatch, f"library/{name}.py")


def _load(monkeypatch: pytest.MonkeyPatch, path: str) -> ModuleType:
    """Import a file under the name that Ansible gives it on a host, for one test."""
    name = f"ansible.module_utils.{Path(path).stem}"
    spec = spec_from_file_location(name, PLAYBOOKS / path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module
