"""The comparison: its page shows the figures beside it, and the files of both tools are sound."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.comparison import _page
from cobweb.plugin import load_plugins
from cobweb.site import load_site

FOLDER = Path(_page.__file__).parent / "database"
HOSTS = {
    "all": {
        "vars": {"max_connections": 200},
        "children": {
            "primary": {"hosts": {"db1": None}},
            "standbys": {"hosts": {"db2": None, "db3": None}},
        },
    }
}


def _copy(folder: Path) -> Path:
    copied = shutil.copytree(FOLDER, folder / "database")
    (copied / "hosts.yml").write_text(json.dumps(HOSTS), encoding="utf-8")
    return copied


def test_the_page_shows_the_figures_that_lie_beside_it() -> None:
    page = _page.PAGE.read_text(encoding="utf-8")
    assert _page.page_of(page, json.loads(_page.DATA.read_text(encoding="utf-8"))) == page


def test_the_site_is_valid(tmp_path: Path) -> None:
    site = load_site(_copy(tmp_path), types=load_plugins().types)
    assert sorted(site.graph().cobs) == [
        "db1/primary-connections",
        "db2/standby-connections",
        "db3/standby-connections",
    ]


def test_the_playbook_is_valid(tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    done = subprocess.run(
        [program, "--syntax-check", "-i", "hosts.yml", "play.yml"],
        cwd=_copy(tmp_path),
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
