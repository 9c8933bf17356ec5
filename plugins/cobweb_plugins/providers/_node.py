"""The COB type `node`: a machine of a cluster, made and taken away by a provider (Coopr, planner).

absent -> created -> confirmed -> bootstrapped. What the provider says of the machine is handed on
as results of the host: later tasks find it by them. The rules that keep machines from leaking:

- Before a machine is created the provider is asked for one that an earlier attempt left; it is
  deleted first. One that a failed attempt made is deleted at once, or else at the next attempt.
- A machine that is not confirmed is deleted, and the next attempt makes another one.
- A check asks the provider, never a record alone: what a killed run left is found by its name.

What the catalog says of a provider is shared by all nodes of a site (`CobType.shared`): a host more
in a pool, or another token, is no other content of any node.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.errors import CredentialsError, ProviderError
from cobweb.model import CobType, PythonAction, State, Tasks, Transition
from cobweb.plugin import (
    CobContext,
    Machine,
    NodeProvider,
    NodeRequest,
    data_dir,
    field_problems,
)

if TYPE_CHECKING:
    from cobweb_plugins.providers._secrets import Secrets

_ATTEMPTS = 3
_TIMEOUT_S = 1800.0
_SPARE_S = 60.0
"""By how much a provider is told to be done earlier, so that what failed can still be deleted."""

_TEXT: Mapping[str, Any] = {"type": "string"}
_SPEC: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "provider": {
            "type": "object",
            "properties": {"name": _TEXT, "type": _TEXT},
            "required": ["name", "type"],
            "additionalProperties": False,
        },
        "owner": _TEXT,
        "cluster": _TEXT,
        "tenant": {"type": ["string", "null"]},
        "hardware": {"type": "object"},
        "image": {"type": "object"},
        "number": {"type": "integer", "minimum": 1},
    },
    "required": ["provider", "cluster", "number"],
    "additionalProperties": False,
}

_CONNECTION = (
    "ansible_python_interpreter",
    "ansible_ssh_common_args",
    "ansible_ssh_private_key_file",
)
"""What a provider, which runs here, may say of a connection besides address, port and user."""

OWNER = "provider_owner"
"""The result that says for which cluster a machine was made."""


class Node:
    """A machine that has the name of the COB's host."""

    name: ClassVar[str] = "node"

    @cached_property
    def _secrets(self) -> Secrets:
        """What was decrypted, for as long as this lives."""
        from cobweb_plugins.providers._secrets import Secrets

        return Secrets()

    def cob_type(self) -> CobType:
        """Return the life cycle: absent, created, confirmed, bootstrapped."""
        return CobType(
            name=self.name,
            states=("absent", "created", "confirmed", "bootstrapped"),
            preferred="bootstrapped",
            remove="absent",
            serving=("bootstrapped",),
            connection=_CONNECTION,
            check=_python("check"),
            check_timeout_s=300.0,
            transitions=(
                _step("absent", "created", _python("create")),
                _step("created", "confirmed", _python("confirm")),
                _step("confirmed", "bootstrapped", Tasks(path=_bootstrap())),
                _step("bootstrapped", "absent", _python("delete")),
                _step("confirmed", "absent", _python("delete")),
                _step("created", "absent", _python("delete")),
            ),
            spec_schema=_SPEC,
        )

    def check(self, context: CobContext) -> State:
        """Ask the provider; what was confirmed and bootstrapped is known by the machine's id."""
        with self._asking(context) as (provider, request):
            machine = provider.find(request)
        if machine is None:
            return "absent"
        results = _results(context)
        if not machine.ready or results.get("confirmed") != machine.id:
            return "created"
        return "bootstrapped" if results.get("bootstrapped") == machine.id else "confirmed"

    def create(self, context: CobContext) -> Mapping[str, Any]:
        """Make a machine; whatever an earlier attempt left goes first."""
        with self._asking(context) as (provider, request):
            left = provider.find(request)
            if left is not None and not provider.adopts:
                provider.delete(request, left)
            machine = _create(provider, request)
        return {
            "provider_id": machine.id,
            OWNER: request.owner,
            "confirmed": None,
            "bootstrapped": None,
        }

    def confirm(self, context: CobContext) -> Mapping[str, Any]:
        """Wait for the machine; one that does not answer is deleted, and none is left behind."""
        with self._asking(context) as (provider, request):
            machine = provider.find(request) or _create(provider, request)
            try:
                confirmed = _confirm(provider, request, machine)
            except CredentialsError:
                raise
            except Exception:
                _delete_all_there_is(provider, request)
                raise
        return {**_said_of(confirmed), OWNER: request.owner, "bootstrapped": None}

    def delete(self, context: CobContext) -> Mapping[str, Any]:
        """Take the machine away, and forget what is known of its host."""
        with self._asking(context) as (provider, request):
            machine = provider.find(request)
            if machine is not None:
                provider.delete(request, machine)
            if provider.find(request) is not None:
                raise ProviderError(f"the machine of {request.node} is still there")
        return dict.fromkeys(_results(context))

    @contextmanager
    def _asking(self, context: CobContext) -> Iterator[tuple[_Timed, NodeRequest]]:
        """Yield the provider and what it is asked for; no secret leaves with an error."""
        from cobweb_plugins.providers._secrets import hiding

        _refuse_another_provider(context)
        spec = context.cob["spec"]
        kind = spec["provider"]["type"]
        provider = context.providers.get(kind)
        if provider is None:
            known = ", ".join(sorted(context.providers)) or "none"
            raise ProviderError(f"there is no provider {kind!r}", hint=f"there are: {known}")
        said = (context.shared.get("providers") or {}).get(spec["provider"]["name"]) or {}
        for _, message, hint in field_problems(provider.fields, said):
            raise ProviderError(f"the provider {spec['provider']['name']!r}: {message}", hint=hint)
        fields, secrets = self._secrets.fill_in(provider.fields, said, context.site_dir)
        with hiding(secrets):
            yield _Timed(provider), _request(context, fields)


class _Timed:
    """A provider that is told of the time that is left for a whole transition."""

    name: ClassVar[str] = ""
    fields: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, inner: NodeProvider) -> None:
        self._inner = inner
        # One that adopts finds machines that it has not made: no failed attempt has left them.
        self.adopts: bool = inner.fields.get("x-cobweb") == "adopts"
        self._end = time.monotonic() + _TIMEOUT_S - _SPARE_S

    def find(self, request: NodeRequest) -> Machine | None:
        return self._inner.find(self._now(request))

    def create(self, request: NodeRequest) -> Machine:
        return self._inner.create(self._now(request))

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        return self._inner.confirm(self._now(request), machine)

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        self._inner.delete(self._now(request), machine)

    def _now(self, request: NodeRequest) -> NodeRequest:
        left_s = max(self._end - time.monotonic(), _SPARE_S / 2)
        return dataclasses.replace(request, timeout_s=left_s)


def _python(method: str) -> PythonAction:
    return PythonAction(type_name=Node.name, method=method)


def _bootstrap() -> str:
    return str(data_dir("playbooks") / "node" / "bootstrap.yml")


def _step(source: State, dest: State, action: PythonAction | Tasks) -> Transition:
    return Transition(
        source=source, dest=dest, action=action, timeout_s=_TIMEOUT_S, attempts=_ATTEMPTS
    )


def _results(context: CobContext) -> Mapping[str, Any]:
    return context.cob.get("results") or {}


def _request(context: CobContext, fields: Mapping[str, Any]) -> NodeRequest:
    spec = context.cob["spec"]
    return NodeRequest(
        node=context.host.name,
        owner=_owner(context),
        cluster=spec["cluster"],
        number=spec["number"],
        tenant=spec.get("tenant") or "",
        fields=fields,
        hardware=spec.get("hardware") or {},
        image=spec.get("image") or {},
        site_dir=context.site_dir,
    )


def _owner(context: CobContext) -> str:
    """Return by whom a machine is found: whom the one that is there was made for, if there is one.

    A cluster whose layout was lost, or that was made again before all of it was gone, has another
    id: by that its machines would not be found, and leak.
    """
    said = context.cob["spec"].get("owner") or str(context.site_dir.resolve())
    return str(_results(context).get(OWNER) or said)


def _refuse_another_provider(context: CobContext) -> None:
    """Refuse to look for a machine where it cannot be: the one at the old provider would leak."""
    now = context.cob["spec"]["provider"]
    before = ((context.cob.get("applied") or {}).get("provider")) or now
    held = _results(context).get("provider_id")
    if held and (now["name"], now["type"]) != (before["name"], before["type"]):
        raise ProviderError(
            f"the machine of {context.host.name} is at the provider {before['name']!r},"
            f" and the site now says {now['name']!r}",
            hint="delete the cluster before you change its provider",
        )


def _create(provider: _Timed, request: NodeRequest) -> Machine:
    """Make a machine; whatever came to be in spite of an error is deleted at once."""
    try:
        return provider.create(request)
    except Exception:
        _delete_all_there_is(provider, request)
        raise


def _confirm(provider: _Timed, request: NodeRequest, machine: Machine) -> Machine:
    confirmed = provider.confirm(request, machine)
    if not confirmed.ready:
        raise ProviderError(f"the machine {machine.id} of {request.node} is not ready")
    return confirmed


def _delete_all_there_is(provider: _Timed, request: NodeRequest) -> None:
    """Delete what there is of a machine; if that fails too, the next attempt begins with it."""
    with contextlib.suppress(Exception):
        machine = provider.find(request)
        if machine is not None and not provider.adopts:
            provider.delete(request, machine)


def _said_of(machine: Machine) -> dict[str, Any]:
    """Return the results that later tasks know a machine by."""
    connection = {key: it for key, it in machine.connection.items() if key.startswith("ansible_")}
    address = machine.addresses.get("access_v4") or connection.get("ansible_host")
    return {
        **machine.addresses,
        **connection,
        "address": address,
        "provider_id": machine.id,
        "confirmed": machine.id,
    }
