"""The conformance kit for providers: each broken promise is caught by the check named for it."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from cobweb.errors import CredentialsError, ProviderError
from cobweb.plugin import Machine, NodeProvider, NodeRequest
from cobweb.testing import NamedCheck, ProviderCase, check_provider, provider_checks

Failing = Callable[[Iterable[NamedCheck]], set[str]]

WORD = "open-sesame"
REQUEST = NodeRequest(node="a-1", owner="site", cluster="a", number=1, fields={"word": WORD})


class Cloud:
    """What is outside of all processes: the machines, by whom they are for."""

    def __init__(self) -> None:
        self.machines: dict[tuple[str, str], Machine] = {}
        self.serial = 0
        self.lock = threading.Lock()


class Good:
    """A provider that keeps its promises; those of one class share a cloud."""

    name: ClassVar[str] = "good"
    fields: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"word": {"type": "string", "x-cobweb": "secret"}},
    }

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def key(self, request: NodeRequest) -> tuple[str, str]:
        return request.owner, request.node

    def find(self, request: NodeRequest) -> Machine | None:
        return self.cloud.machines.get(self.key(request))

    def create(self, request: NodeRequest) -> Machine:
        if request.fields["word"] != WORD:
            raise CredentialsError("that is not the word")
        with self.cloud.lock:
            if self.key(request) not in self.cloud.machines:
                self.cloud.machines[self.key(request)] = self.new(request)
            return self.cloud.machines[self.key(request)]

    def new(self, request: NodeRequest) -> Machine:
        del request
        self.cloud.serial += 1
        return Machine(id=f"m{self.cloud.serial}")

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        address = f"192.0.2.{machine.id[1:]}"
        ready = replace(
            machine,
            ready=True,
            addresses={"access_v4": address},
            connection={"ansible_host": address},
        )
        self.cloud.machines[self.key(request)] = ready
        return ready

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        found = self.find(request)
        if found is not None and found.id == machine.id:
            del self.cloud.machines[self.key(request)]


class Inventive(Good):
    def find(self, request: NodeRequest) -> Machine | None:
        return super().find(request) or Machine(id="m0")


class Forgetful(Good):
    def create(self, request: NodeRequest) -> Machine:
        machine = super().create(request)
        del self.cloud.machines[self.key(request)]
        return machine


class Generous(Good):
    def create(self, request: NodeRequest) -> Machine:
        self.cloud.machines.pop(self.key(request), None)
        return super().create(request)


class Sharing(Good):
    def new(self, request: NodeRequest) -> Machine:
        del request
        return Machine(id="m1")


class Hasty(Good):
    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        return replace(super().confirm(request, machine), ready=False)


class Talkative(Good):
    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        confirmed = super().confirm(request, machine)
        secret = {**confirmed.connection, "ansible_password": request.fields["word"]}
        return replace(confirmed, connection=secret)


class Wordy(Good):
    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        confirmed = super().confirm(request, machine)
        return replace(confirmed, connection={**confirmed.connection, "comment": "new"})


class Keeping(Good):
    def delete(self, request: NodeRequest, machine: Machine) -> None:
        """Leave it be."""


class Ruthless(Good):
    def delete(self, request: NodeRequest, machine: Machine) -> None:
        del machine
        self.cloud.machines.pop(self.key(request), None)


class Strict(Good):
    def delete(self, request: NodeRequest, machine: Machine) -> None:
        if self.find(request) is None:
            raise ProviderError("there is no such machine")
        super().delete(request, machine)


class Nosy(Good):
    def key(self, request: NodeRequest) -> tuple[str, str]:
        return "", request.node


class Vague(Good):
    def create(self, request: NodeRequest) -> Machine:
        if request.fields["word"] != WORD:
            raise ProviderError("no")
        return super().create(request)


class Careless(Good):
    def create(self, request: NodeRequest) -> Machine:
        if request.fields["word"] != WORD:
            raise CredentialsError(f"{request.fields['word']} is wrong, it is {WORD}")
        return super().create(request)


class Lacking(Good):
    fields: ClassVar[Any] = {"type": 7}


def case_of(provider: type[Good]) -> ProviderCase:
    cloud = Cloud()

    def make() -> NodeProvider:
        return provider(cloud)

    return ProviderCase(
        make=make,
        request=REQUEST,
        neighbour=replace(REQUEST, node="a-2"),
        refused=replace(REQUEST, fields={"word": "sesame"}),
        secrets=(WORD,),
    )


BROKEN = [
    (Inventive, "what_was_never_made_is_not_found"),
    (Forgetful, "what_is_made_is_found_again"),
    (Generous, "making_twice_makes_one"),
    (Sharing, "two_nodes_have_two_machines"),
    (Sharing, "what_is_deleted_is_gone"),
    (Hasty, "a_confirmed_machine_says_where_it_is"),
    (Talkative, "a_confirmed_machine_says_where_it_is"),
    (Wordy, "a_confirmed_machine_says_where_it_is"),
    (Keeping, "what_is_deleted_is_gone"),
    (Ruthless, "deleting_an_old_machine_spares_the_new_one"),
    (Strict, "what_is_deleted_is_gone"),
    (Nosy, "machines_of_others_are_not_found"),
    (Vague, "bad_credentials_are_told_apart"),
    (Careless, "bad_credentials_are_told_apart"),
    (Lacking, "satisfies_the_protocol"),
]


def test_a_provider_that_keeps_its_promises_passes() -> None:
    check_provider(case_of(Good))


@pytest.mark.parametrize(
    ("provider", "check"), BROKEN, ids=[f"{it.__name__}-{check}" for it, check in BROKEN]
)
def test_a_broken_promise_is_caught(provider: type[Good], check: str, failing: Failing) -> None:
    assert check in failing(provider_checks(case_of(provider)))


def test_without_bad_credentials_their_check_is_left_out() -> None:
    names = {check.name for check in provider_checks(replace(case_of(Good), refused=None))}
    assert "bad_credentials_are_told_apart" not in names
    assert len(names) == 9
