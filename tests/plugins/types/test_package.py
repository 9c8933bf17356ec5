"""What the type `package` reads from its tools, and what it decides, dnf's part too.

There is no host with dnf here: its tools are played from what they print.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Scripted = Callable[[dict[str, str]], list[tuple[str, ...]]]

DPKG = """\
whole\tinstall\tinstalled\tok\t1.0-1
held\thold\tinstalled\tok\t2:1.0
half\tinstall\thalf-configured\tok\t1.0
torn\tinstall\thalf-installed\treinstreq\t1.0
gone\tdeinstall\tconfig-files\tok\t1.0
never\tunknown\tnot-installed\tok\t
"""

LOCKED = """\
Last metadata expiration check: 0:00:01 ago
bash-0:5.1.8-6.el9.*
python3-0:3.9.18-1.el9.*
"""


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, packages: ModuleType) -> Scripted:
    """Return what lets tools print, by the begin of their command line, and notes all calls."""
    done = packages.attempt.__globals__["Done"]

    def script(answers: dict[str, str]) -> list[tuple[str, ...]]:
        calls: list[tuple[str, ...]] = []

        def attempt(*argv: str, **_: Any) -> Any:
            calls.append(argv)
            line = " ".join(argv)
            out = next((text for begin, text in answers.items() if line.startswith(begin)), "")
            return done(0, out, "")

        monkeypatch.setattr(packages, "attempt", attempt)
        monkeypatch.setattr(packages, "call", lambda *argv, **more: attempt(*argv, **more).out)
        return calls

    return script


def test_dpkg_tells_whole_held_half_installed_and_gone(packages: ModuleType) -> None:
    """Where only configuration is left, there is no version; what was purged is not there."""
    package = packages.Package
    assert packages.parse_dpkg(DPKG) == {
        "whole": package("1.0-1"),
        "held": package("2:1.0", held=True),
        "half": package("1.0", whole=False),
        "torn": package("1.0", whole=False),
        "gone": package(None),
    }


def test_rpm_tells_versions_and_dnf_tells_holds(packages: ModuleType, scripted: Scripted) -> None:
    """What rpm does not know, it says in a line without a tab."""
    rpm = "bash\t5.1.8-6.el9\npackage nothing is not installed\nzsh\t5.8-9.el9\n"
    scripted({"rpm -q": rpm, "dnf -q versionlock list": LOCKED})
    package = packages.Package
    assert packages.Dnf().look(["bash", "nothing", "zsh"]) == {
        "bash": package("5.1.8-6.el9", held=True),
        "zsh": package("5.8-9.el9"),
    }


def test_a_lock_of_dnf_is_of_a_whole_name(packages: ModuleType) -> None:
    """Not of a package whose name begins so."""
    names = ["bash", "python3", "python", "as"]
    assert [name for name in names if packages.is_locked(name, LOCKED)] == ["bash", "python3"]


FITTING = (
    ("1.0", None),
    ("1.0", "1.0"),
    ("1.0-2", "1.0"),
    ("1.10", "1.1*"),
    ("2:1.10-1", "2:1.*"),
    ("1.24.0-1.el9", "1.24.?"),
)
OTHERS = ((None, None), (None, "1.*"), ("1.0-2", "1.0-1"), ("1.10", "1.1"), ("1.10-1", "2:1.*"))


@pytest.mark.parametrize(("version", "wanted"), FITTING)
def test_a_version_fits(packages: ModuleType, version: str, wanted: str | None) -> None:
    """Exact or as a glob, with or without the distribution's revision."""
    assert packages.fits(version, wanted)


@pytest.mark.parametrize(("version", "wanted"), OTHERS)
def test_another_version_does_not(
    packages: ModuleType, version: str | None, wanted: str | None
) -> None:
    """None is that of a package that is not there."""
    assert not packages.fits(version, wanted)


def test_a_simulation_says_what_comes_and_goes(packages: ModuleType) -> None:
    """New, upgraded, of another architecture; removed and purged."""
    said = (
        "Reading package lists...\nInst new (1.0 Debian [all])\nInst old [1.0] (2.0 Debian)\n"
        "Inst lib:i386 (1.0 Debian)\nRemv rival [1.0]\nPurg torn [1.0]\nConf new (1.0 Debian)\n"
    )
    steps = packages.parse_simulation(said)
    assert steps == ({"new", "old", "lib"}, {"rival", "torn"})


SCRIPT = """\
Setting up it (1.0) ...
dpkg: error processing package it (--configure):
 installed it package post-installation script subprocess returned error exit status 1
Errors were encountered while processing:
 it
E: Sub-process /usr/bin/dpkg returned an error code (1)
"""
SCRIPT_TOLD = """\
dpkg: error processing package it (--configure): installed it package post-installation \
script subprocess returned error exit status 1
E: Sub-process /usr/bin/dpkg returned an error code (1)"""
TOLD = {
    "apt": ("Reading...\nE: Unable to locate package nope\n", "E: Unable to locate package nope"),
    "script": (SCRIPT, SCRIPT_TOLD),
    "dnf": ("Last check: now\nError: Unable to find a match\n", "Error: Unable to find a match"),
    "nothing": ("all is well\n", ""),
}


@pytest.mark.parametrize("tool", TOLD)
def test_of_an_output_the_cause_is_told(packages: ModuleType, tool: str) -> None:
    """First what a package says, then what the tool makes of it."""
    said, told = TOLD[tool]
    assert packages.told(said) == told


def test_dnf_is_asked_in_its_own_words(packages: ModuleType, scripted: Scripted) -> None:
    """Versions come oldest first, a repository is a .repo file, a hold is a lock."""
    calls = scripted({"dnf -q repoquery": "1.0-1\n1.1-1\n2.0-1\n"})
    dnf = packages.Dnf()
    assert dnf.candidates("it") == ["2.0-1", "1.1-1", "1.0-1"]
    assert dnf.pin("it", "1.1-1") == "it-1.1-1"
    assert dnf.source_file("r", "[r]\n") == Path("/etc/yum.repos.d/r.repo")
    dnf.hold(["it"], held=True)
    dnf.hold(["it"], held=False)
    assert calls[-2:] == [
        ("dnf", "-q", "versionlock", "add", "it"),
        ("dnf", "-q", "versionlock", "delete", "it"),
    ]
    assert dnf.simulate(["install", "it"], change_held=False) == (set(), set())


@pytest.mark.parametrize(
    ("there", "name"), [({"apt-get", "dnf"}, "apt"), ({"dnf"}, "dnf"), (set(), None)]
)
def test_the_manager_is_the_one_of_the_host(
    packages: ModuleType, monkeypatch: pytest.MonkeyPatch, there: set[str], name: str | None
) -> None:
    monkeypatch.setattr(packages.shutil, "which", lambda tool: tool if tool in there else None)
    if name is not None:
        assert packages.manager().name == name
        return
    with pytest.raises(packages.Failed, match="neither apt nor dnf"):
        packages.manager()
