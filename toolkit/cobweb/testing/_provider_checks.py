"""Conformance checks for providers of nodes: none leaks a machine or makes one twice."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from cobweb.errors import CredentialsError
from cobweb.plugin import Kind, Machine, NodeProvider, NodeRequest
from cobweb.plugin._contracts import item_problems, schema_problems
from cobweb.testing._checks import Kit, begun, bounded, expect, refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCase:
    """What the kit needs to try a provider; it makes real machines and takes them all away.

    `request` and `neighbour` are two nodes that there can be at the same time, `refused` one with
    credentials that are no good, `secrets` texts of the fields that nobody may see.
    """

    make: Callable[[], NodeProvider]
    request: NodeRequest
    neighbour: NodeRequest
    refused: NodeRequest | None = None
    secrets: tuple[str, ...] = ()


def satisfies_the_protocol(case: ProviderCase) -> None:
    """The class has a name, fields by schema, and the methods of the protocol."""
    provider = case.make()
    problems = [*item_problems(Kind.ADAPTERS, type(provider)), *schema_problems(provider.fields)]
    expect(not problems, "; ".join(problems))


def what_was_never_made_is_not_found(case: ProviderCase) -> None:
    """find() is None for a node without a machine, and makes none."""
    provider = case.make()
    for _ in range(2):
        expect(provider.find(case.request) is None, "find() found what nobody has made")


def what_is_made_is_found_again(case: ProviderCase) -> None:
    """Another instance, as in another process, finds the machine by its node's name."""
    with _made(case) as machine:
        found = case.make().find(case.request)
        expect(found is not None and found.id == machine.id, f"{machine.id} is found as {found}")


def making_twice_makes_one(case: ProviderCase) -> None:
    """create() of a node that has a machine returns this one, also when two call at once."""
    with _made(case) as machine:
        again = bounded("create", lambda: case.make().create(case.request))
        expect(again.id == machine.id, f"create() made {again.id} beside {machine.id}")
    with _clean(case):
        ids = _at_once([lambda: case.make().create(case.request).id] * 2)
        expect(len(set(ids)) == 1, f"two calls of create() at once made {sorted(set(ids))}")


def two_nodes_have_two_machines(case: ProviderCase) -> None:
    """Two nodes that are made at once have machines and addresses of their own."""
    with _clean(case):
        requests = (case.request, case.neighbour)
        made = _at_once([partial(case.make().create, request) for request in requests])
        ids = [machine.id for machine in made]
        expect(len(set(ids)) == len(ids), f"two nodes have one machine: {ids}")
        confirmed = [
            case.make().confirm(*pair)
            for pair in zip(requests, _found(case, requests), strict=True)
        ]
        ways = [
            (it.connection.get("ansible_host"), it.connection.get("ansible_port", 22))
            for it in confirmed
        ]
        expect(len(set(ways)) == len(ways), f"two machines are reached the same way: {ways}")


def a_confirmed_machine_says_where_it_is(case: ProviderCase) -> None:
    """A confirmed machine is ready, has an address and a connection, and holds no secret."""
    with _made(case) as machine:
        provider = case.make()
        confirmed = bounded("confirm", lambda: provider.confirm(case.request, machine))
        expect(confirmed.ready, "a confirmed machine is not ready")
        expect(confirmed.id == machine.id, f"{machine.id} is {confirmed.id} once it is confirmed")
        expect("access_v4" in confirmed.addresses, "it has no address access_v4")
        expect(confirmed.connection.get("ansible_host"), "its connection has no ansible_host")
        odd = [key for key in confirmed.connection if not key.startswith("ansible_")]
        expect(not odd, f"its connection has what is no variable of Ansible's: {odd}")
        text = json.dumps(dataclasses.asdict(confirmed), default=str)
        expect(not any(secret in text for secret in case.secrets), "the machine holds a secret")
        found = provider.find(case.request)
        expect(found is not None and found.ready, "find() says that a confirmed one is not ready")


def what_is_deleted_is_gone(case: ProviderCase) -> None:
    """After delete() nothing is found, delete() again is harmless, and no id comes again."""
    first, second = _made_and_deleted(case), _made_and_deleted(case)
    expect(first != second, f"the id {first} is used again")


def _made_and_deleted(case: ProviderCase) -> str:
    with _made(case) as machine:
        provider = case.make()
        bounded("delete", lambda: provider.delete(case.request, machine))
        expect(provider.find(case.request) is None, f"{machine.id} is there after delete()")
        bounded("delete of what is gone", lambda: provider.delete(case.request, machine))
    return machine.id


def deleting_an_old_machine_spares_the_new_one(case: ProviderCase) -> None:
    """delete() of a machine that is gone leaves the one alone that the node has now."""
    with _made(case) as old:
        provider = case.make()
        provider.delete(case.request, old)
        new = provider.create(case.request)
        provider.delete(case.request, old)
        found = provider.find(case.request)
        expect(found is not None and found.id == new.id, f"delete({old.id}) took {new.id} away")


def machines_of_others_are_not_found(case: ProviderCase) -> None:
    """A machine is not found for another owner, nor for another node."""
    with _made(case):
        stranger = dataclasses.replace(case.request, owner=f"not {case.request.owner}")
        for request, whose in ((stranger, "another owner"), (case.neighbour, "another node")):
            expect(case.make().find(request) is None, f"it is found for {whose}")


def bad_credentials_are_told_apart(case: ProviderCase, refused: NodeRequest) -> None:
    """A call with credentials that are no good raises CredentialsError, without the secret."""
    error = refusal(CredentialsError, lambda: case.make().create(refused))
    expect(not any(it in str(error) for it in case.secrets), "the error holds a secret")


_KIT = Kit(
    always=[
        satisfies_the_protocol,
        what_was_never_made_is_not_found,
        what_is_made_is_found_again,
        making_twice_makes_one,
        two_nodes_have_two_machines,
        a_confirmed_machine_says_where_it_is,
        what_is_deleted_is_gone,
        deleting_an_old_machine_spares_the_new_one,
        machines_of_others_are_not_found,
    ],
    given={"refused": [bad_credentials_are_told_apart]},
)
provider_checks, check_provider = _KIT.checks, _KIT.check


@contextlib.contextmanager
def _made(case: ProviderCase) -> Iterator[Machine]:
    with _clean(case):
        yield bounded("create", lambda: case.make().create(case.request))


@contextlib.contextmanager
def _clean(case: ProviderCase) -> Iterator[None]:
    """Take away all that was made, however it ends; the node must be free to begin with."""
    requests = (case.request, case.neighbour)
    taken = [request.node for request in requests if case.make().find(request) is not None]
    expect(not taken, f"{taken} have machines before the kit made any")
    try:
        yield
    finally:
        provider = case.make()
        for request in requests:
            machine = provider.find(request)
            if machine is not None:
                provider.delete(request, machine)


def _found(case: ProviderCase, requests: tuple[NodeRequest, ...]) -> list[Machine]:
    machines = [case.make().find(request) for request in requests]
    expect(all(machines), "what was made is not found")
    return [machine for machine in machines if machine is not None]


def _at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Return what the calls return, all begun at the same time."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        return call()

    ends = [begun("create", partial(run, call)) for call in calls]
    return [end() for end in ends]
