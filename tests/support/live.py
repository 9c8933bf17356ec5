"""Built-in types on hosts of a fabric: by the kit, step by step, and as their pages say."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cobweb.model import Host, Job, Report
from cobweb.plugin import Executor, ExecutorSetting, load_plugins
from cobweb.testing import TypeCase, check_type
from tests.support.fabric import Fabric, FabricHost
from tests.support.fabric._system import Namespace, enter_namespace
from tests.support.operator import Operator
from tests.support.tasks import OneCob, built_in, registered

__all__ = ["Live", "live_on", "run_page_example"]

_Result = TypeVar("_Result")

_TIMEOUT_S = 180.0
_PAGES = Path(__file__).parents[2] / "docs" / "types"
_EXAMPLE = re.compile(r"^```yaml\n(cobs:\n.*?)^```$", re.MULTILINE | re.DOTALL)
_HEAD = "cobweb: 1\nname: example\ninventory: hosts.yml\n"


@dataclass(slots=True)
class Live:
    """An executor that works on the hosts of a fabric, in the fabric's network.

    `trees` is where it finds archives of file trees.
    """

    executor: Executor
    hosts: Mapping[str, Host]
    numbers: Iterator[int]
    thread: ThreadPoolExecutor
    trees: Path

    def carry_out(self, job: Mapping[str, Any]) -> Report:
        """Run one job, given all of it but its number, and return its report."""
        return self.within(lambda: self._carry_out(job))

    def within(self, work: Callable[[], _Result]) -> _Result:
        """Return what `work` returns in the fabric's network."""
        return self.thread.submit(work).result()

    def cob(self, kind: str, host: FabricHost, spec: Mapping[str, Any], name: str = "it") -> OneCob:
        """Return an object of a built-in type, to be moved step by step."""
        return OneCob(built_in(kind), self, spec, host=host.name, name=name)

    def check_type(
        self,
        kind: str,
        host: FabricHost,
        spec: Mapping[str, Any],
        changed_spec: Mapping[str, Any] | None = None,
    ) -> None:
        """Run the whole conformance kit for a built-in type on a host."""
        case = TypeCase(
            make=registered(kind),
            spec=spec,
            changed_spec=changed_spec,
            host=self.hosts[host.name],
            executor=self.executor,
            numbers=self.numbers,
        )
        self.within(lambda: check_type(case))

    def _carry_out(self, job: Mapping[str, Any]) -> Report:
        self.executor.submit(Job(number=next(self.numbers), **job))
        (report,) = self.executor.wait(None)
        return report


@contextmanager
def live_on(fabric: Fabric, folder: Path, **variables: Any) -> Iterator[Live]:
    """Open the executor for all hosts of a fabric; `folder` is new and empty.

    `variables` are further ones of all hosts.
    """
    site, work = folder / "site", folder / "work"
    site.mkdir()
    work.mkdir()
    hosts = {
        host.name: Host(
            name=host.name,
            variables={**fabric.connection, "ansible_host": host.address, **variables},
        )
        for host in fabric.hosts
    }
    executor = load_plugins().executors["ansible"]()
    setting = ExecutorSetting(
        hosts=hosts, site_dir=site, work_dir=work, parallel=2, timeout_s=_TIMEOUT_S
    )
    with ThreadPoolExecutor(1, "live") as thread:
        thread.submit(enter_namespace, fabric.network, Namespace.NETWORK).result()
        live = Live(executor, hosts, itertools.count(), thread, setting.trees)
        live.within(lambda: executor.open(setting))
        try:
            yield live
        finally:
            live.within(executor.close)


def run_page_example(
    fabric: Fabric,
    host: FabricHost,
    folder: Path,
    kind: str | tuple[str, ...],
    files: Mapping[str, str] | None = None,
) -> None:
    """Apply the first example on the page of a type to a host, twice, and take it away again.

    `folder` is new and empty; `files` are those of the site that the example names. The host is
    called app01 on the page. The second apply must change nothing, and removal must end well.
    The examples of several types, whose objects have different names, are applied as one site.
    """
    example = "cobs:\n" + "".join(map(_objects, (kind,) if isinstance(kind, str) else kind))
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    operator = Operator(fabric, folder)
    operator.write_inventory({"app01": [host]})
    site = folder / "site.yml"
    site.write_text(_HEAD + example, encoding="utf-8")
    first = operator.apply()
    assert first.code == 0, first.out + first.err
    assert first.transitions()
    again = operator.apply()
    assert (again.code, again.transitions()) == (0, []), again.out + again.err
    site.write_text(_HEAD + "cobs: {}\n", encoding="utf-8")
    gone = operator.apply()
    assert gone.code == 0, gone.out + gone.err
    assert {cob for cob, _ in gone.transitions()} == {cob for cob, _ in first.transitions()}


def _objects(kind: str) -> str:
    """Return what the first example on the page of a type has below `cobs:`."""
    found = _EXAMPLE.search((_PAGES / f"{kind}.md").read_text(encoding="utf-8"))
    assert found is not None, f"docs/types/{kind}.md has no example that begins with `cobs:`"
    return found[1].removeprefix("cobs:\n")
