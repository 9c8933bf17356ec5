"""Loading a large site: evaluated as a whole, in part, and again when nothing has changed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._row import Row, cost, peak_mib
from benchmarks._site_plan import plan_rows
from benchmarks._sites import COBS_PER_HOST, host_name, large_graph, write_site
from cobweb._cache import Cache
from cobweb.model import Graph
from cobweb.site import load_site

__all__ = ["measure"]

HOSTS = {"full": 10_000, "small": 100}
ANSIBLE = "ansible-inventory --list (hosts only)"
_BIN = Path(sys.executable).parent
_PEAK_MIB = 2048


@dataclass(frozen=True, slots=True)
class Spent:
    """What a command took."""

    cpu_s: float
    peak_mib: float


def measure(size: str) -> Iterator[Row]:
    """Yield what it costs to evaluate a site, beside Ansible reading its hosts alone."""
    hosts = HOSTS[size]
    with TemporaryDirectory() as name:
        large, tenth = Path(name, "large"), Path(name, "tenth")
        write_site(large, hosts)
        write_site(tenth, hosts // 10)
        # Commands first: a child's peak begins with what this process holds when it is started.
        yield from _as_commands(large, hosts, Path(name, "xdg"))
        yield from plan_rows(_cobweb, large, hosts, Path(name, "plans"))
        yield from _in_process(large, tenth, hosts, Cache(Path(name, "kept")))


def _in_process(large: Path, tenth: Path, hosts: int, cache: Cache) -> Iterator[Row]:
    """Yield the library's own cost: reading, evaluating, checking specs, expanding needs."""
    what = f"{hosts} hosts x {COBS_PER_HOST} objects"
    load_site(tenth).graph()  # imports are a command's cost, not that of a site
    with cost() as of_tenth:
        load_site(tenth).graph()
    gc.collect()
    with cost() as evaluated:
        graph = load_site(large).graph()
    peak = peak_mib()
    yield Row(
        what=f"site: load and evaluate {what}, CPU",
        value=evaluated.cpu_s,
        peer="10 x a tenth of it",
        peer_value=10 * of_tenth.cpu_s,
        target=9,
        note="reading YAML, templates, schema checks, references and needs: all before the plan",
    )
    yield Row(what=f"site: load and evaluate {what}, peak", value=peak, unit="MiB", target=1200)
    _agree(graph, large_graph(hosts))
    load_site(large, cache=cache).graph()
    with cost() as kept:
        again = load_site(large, cache=cache).graph()
    _agree(again, graph)
    yield Row(
        what="site: the same when nothing has changed, CPU",
        value=kept.cpu_s,
        peer="evaluated",
        peer_value=evaluated.cpu_s,
        target=2,
        note="the graph from the cache; equal to the evaluated one and to the one built directly",
    )


def _agree(one: Graph, other: Graph) -> None:
    same = list(one.cobs) == list(other.cobs) and one.needs == other.needs
    if not same:
        raise AssertionError("the site does not evaluate to its graph")


def _as_commands(large: Path, hosts: int, home: Path) -> Iterator[Row]:
    """Yield the cost of whole commands, a process each; nothing is kept but where it says so."""
    host = host_name(hosts // 2)
    plain = {"COBWEB_NO_CACHE": "1"}
    keeping = {"COBWEB_NO_CACHE": "", "XDG_CACHE_HOME": str(home)}
    inventory = _spent("ansible-inventory", "-i", str(large / "hosts.yml"), "--list")
    validate = _cobweb(plain, large, "validate")
    gone = "" if inventory else "ansible-inventory is not installed"
    for unit, target in (("s", None), ("MiB", _PEAK_MIB)):
        yield Row(
            what="site: cobweb validate, " + ("CPU" if unit == "s" else "peak"),
            value=_figure(validate, unit),
            unit=unit,
            peer=ANSIBLE,
            peer_value=_figure(inventory, unit) if inventory else None,
            target=target,
            note=gone,
        )
    _cobweb(keeping, large, "validate")
    yield Row(
        what="site: cobweb validate when nothing has changed, CPU",
        value=_cobweb(keeping, large, "validate").cpu_s,
        peer="the first time",
        peer_value=validate.cpu_s,
        target=3,
    )
    for arguments in (["show", host], ["plan", "--limit", host]):
        part = _cobweb(plain, large, *arguments)
        yield Row(
            what=f"site: cobweb {' '.join(arguments)}, CPU",
            value=part.cpu_s,
            peer="cobweb validate of all",
            peer_value=validate.cpu_s,
            target=1,
            note=f"one host of {hosts}, without the cache; peak {part.peak_mib:.0f} MiB",
        )


def _figure(spent: Spent, unit: str) -> float:
    return spent.cpu_s if unit == "s" else spent.peak_mib


def _cobweb(environment: Mapping[str, str], site: Path, *arguments: str) -> Spent:
    spent = _spent("cobweb", "-C", str(site), *arguments, environment=environment)
    if spent is None:
        raise AssertionError("cobweb is not installed beside this Python")
    return spent


def _spent(
    program: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Spent | None:
    """Run a command to its end; None for a program that is not installed beside this Python."""
    if not (_BIN / program).exists():
        return None
    process = subprocess.Popen(
        [str(_BIN / program), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise AssertionError(f"{program} {arguments} ended with {process.returncode}")
    return Spent(cpu_s=used.ru_utime + used.ru_stime, peak_mib=used.ru_maxrss / 1024)
