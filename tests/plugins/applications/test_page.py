"""The page on command channels: its example works as it stands there."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.plugins.applications.conftest import LOCAL, MakeSite, install

PAGE = Path(__file__).parents[3] / "docs" / "plugins" / "write-a-command-channel.md"
PODMAN = """\
#!/bin/sh
# podman that has one container, `box1`, which is this machine.
[ "$1 $2" = "exec -i" ] || exit 125
[ "$3" = box1 ] || { echo "no container with name \\"$3\\" found" >&2; exit 125; }
shift 3
CONTAINER=box1 exec "$@"
"""


@pytest.fixture
def site(make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a site with containers, for which the plugin of the page is installed."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    install(tmp_path, monkeypatch, code)
    program = tmp_path / "podman"
    program.write_text(PODMAN, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    box = {"ansible_connection": "podman"}
    return make_site({"box1": box, "box2": box, "n1": {}}, LOCAL)


def test_the_channel_of_the_page_reaches_its_hosts_and_no_other(run: Run, site: Path) -> None:
    ran = run("-C", site, "run", "--on", "all", "--", "echo in ${CONTAINER:-none}; cat")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "box1: in box1",
        "n1: in none",
        'box2: podman: no container with name "box2" found:',
        '  stderr: no container with name "box2" found',
    ]
    assert ran.err.strip() == "2 of 3 hosts answered; missing: box2"


def test_exit_codes_and_both_outputs_come_over_the_channel_of_the_page(
    run: Run, site: Path
) -> None:
    ran = run("-C", site, "run", "--on", "box1", "--", "echo a; echo b >&2; exit 4")
    assert (ran.code, ran.out.splitlines()) == (1, ["box1: exit code 4:", "  a", "  stderr: b"])


def test_files_go_over_the_channel_of_the_page(run: Run, site: Path, tmp_path: Path) -> None:
    (tmp_path / "motd").write_text("well met\n")
    there = tmp_path / "there"
    for said in ("was put", "is there"):
        ran = run("-C", site, "put", "--on", "box1", tmp_path / "motd", there)
        assert (ran.code, ran.out) == (0, f"box1: {said}\n")
    assert there.read_text() == "well met\n"
    assert run("-C", site, "get", "--on", "box1", there, tmp_path / "here").code == 0
    assert (tmp_path / "here" / "box1" / "there").read_text() == "well met\n"


def test_the_limit_of_time_holds_for_the_channel_of_the_page(run: Run, site: Path) -> None:
    ran = run("-C", site, "run", "--on", "box1", "--timeout", "0.5s", "--", "exec sleep 1000")
    assert (ran.code, ran.out) == (1, "box1: no answer within 0.5 s\n")
