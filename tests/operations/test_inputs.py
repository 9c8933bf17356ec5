"""A run of an earlier generation is given the variables of then, for what its objects read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.operations import Caller, Desired, Orders, apply_site, desired_again, desired_of
from cobweb.plugin import ExecutorSetting
from cobweb.site import load_site
from cobweb.store import RunInfo, Store, open_store
from cobweb_plugins.simulate import SimulateExecutor
from tests.operations.test_two_generations import plugins

SITE = """
cobweb: 1
inventory: {all: {hosts: {w1: , w2: }}}
types:
  web:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: {role: nginx}, up -> down: , outdated -> up: {role: nginx}}
cobs: {page: {type: web, on: all}}
"""


class Recording(SimulateExecutor):
    """Keeps the variables that hosts had in the last run."""

    variables: dict[str, Mapping[str, Any]] = {}  # noqa: RUF012  # the run makes the executor

    def open(self, setting: ExecutorSetting) -> None:
        """Open as ever."""
        self.variables.clear()
        self.variables.update({name: it.variables for name, it in setting.hosts.items()})
        super().open(setting)


class Place:
    """A site of two hosts whose variables change, and its state."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store, self.runs = folder, store, 0
        self.write("site.yml", SITE)
        self.write("check.yml", "[]\n")
        self.write("roles/nginx/tasks/main.yml", "- debug: {msg: '{{ nginx_port }} {{ other }}'}\n")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def desired(self, variables: str) -> Desired:
        """Return what the site says with these variables of all hosts."""
        self.write("group_vars/all.yml", variables)
        return desired_of(load_site(self.folder))

    def seen(self, desired: Desired) -> Mapping[str, Any]:
        """Bring it about, and return the variables that the executor has of a host."""
        self.runs += 1
        said = {"started": 1.0, "user": "u", "host": "h", "pid": 1}
        info = RunInfo(id=f"r{self.runs}", command="apply", **said)  # type: ignore[arg-type]
        known = replace(plugins(), executors={"simulate": Recording})
        result = apply_site(desired, known, self.store, ORDERS, Caller(), info=info)
        assert result.exit_code == 0
        return Recording.variables["w1"]

    def again(self, generation: int) -> Mapping[str, Any]:
        """Go back to a generation; as `seen`."""
        site = load_site(self.folder)
        return self.seen(desired_again(site, plugins(), self.store, generation))


ORDERS = Orders(executor="simulate")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    store = open_store("sqlite:///state.db", tmp_path)
    yield Place(tmp_path, store)
    store.close()


def test_variables_that_are_content_are_those_of_then(place: Place) -> None:
    first = {"nginx_port": 80, "nginx_unnamed": 1, "other": 1}
    assert place.seen(place.desired("nginx_port: 80\nnginx_unnamed: 1\nother: 1\n")) == first
    second = {"nginx_port": 81, "nginx_new": 2, "other": 2, "more": 3}
    variables = "nginx_port: 81\nnginx_new: 2\nother: 2\nmore: 3\n"
    assert place.seen(place.desired(variables)) == second
    assert place.again(1) == {**first, "more": 3}
    assert place.again(2) == second


def test_a_spec_with_a_vaulted_variable_is_the_one_that_was_applied(place: Place) -> None:
    """So a check may compare the two; tasks have the variable itself."""
    desired = place.desired("nginx_port: 80\nnginx_token: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n")
    assert place.seen(desired)["nginx_token"].keys() == {"__ansible_vault"}
    for cob, record in place.store.states().items():
        assert record.applied == desired.graph.cobs[cob].spec
        assert record.applied["inputs"].keys() == {"nginx_port", "nginx_token"}


def test_what_is_going_has_its_variables_as_they_are_now(place: Place) -> None:
    """Of an object that goes, one that is content of no other is left."""
    place.seen(place.desired("nginx_port: 80\n"))
    two = SITE.replace("{page:", "{site: {type: web, on: w1}, page:").replace("on: all", "on: w2")
    place.write("site.yml", two)
    variables = {"nginx_port": 80, "nginx_new": 2}
    assert place.seen(place.desired("nginx_port: 80\nnginx_new: 2\n")) == variables
    assert place.again(1) == variables
    assert Recording.variables["w2"] == {"nginx_port": 80}
