"""The provider `metal`: nodes that run on machines of the boot server, as the site has decided.

It chooses nothing: a node's spec says which machine it is on and under which name and address. The
object of the machine has it run so; the provider finds it there, and takes it away by its power.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.errors import ProviderError
from cobweb.plugin import Machine, NodeRequest

if TYPE_CHECKING:
    from cobweb_plugins.metal._client import Client, View

_PATIENCE_S = 20.0
"""How long a boot server that does not answer is asked: its supervisor starts it again."""

_CONFIRM_S = 120.0
_PROBE_S, _CONNECT_S = 0.2, 5.0
_SAME = ("name", "address", "vcluster")


class Metal:
    """Finds a node on its machine once the machine is active as that node."""

    name: ClassVar[str] = "metal"
    fields: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "x-cobweb": "adopts",
        "properties": {
            "url": {"type": "string", "description": "Where the boot server listens."},
            "folder": {"type": "string", "description": "Its folder, which has its key."},
            "power": {"type": "object", "description": "How each machine is switched, by its id."},
        },
        "required": ["url", "folder"],
        "additionalProperties": False,
    }

    def find(self, request: NodeRequest) -> Machine | None:
        """Return the machine while it is active as this node; each priming gives another id."""
        from cobweb_plugins.metal._client import NoAnswerError
        from cobweb_plugins.metal.server import kept_machine

        client, name = _asked(request, patience_s=0.0)
        try:
            view = client.machine(name)
        except NoAnswerError:  # its book has the last word, as of the machine itself
            view = kept_machine(Path(request.fields["folder"]), name)
        return _found(request, view)

    def create(self, request: NodeRequest) -> Machine:
        """Return the machine that there is; ProviderError says what it runs instead."""
        client, name = _asked(request)
        view = client.machine(name)
        if found := _found(request, view):
            return found
        raise _refusal(name, f"does not run {request.node}", view)

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        """Wait until the machine accepts connections."""
        place = (machine.connection["ansible_host"], machine.connection["ansible_port"])
        # The machine is active: what answers at `ready` is there, and SSH is soon, or never.
        end = time.monotonic() + min(_CONFIRM_S, request.timeout_s)
        while True:
            try:
                with socket.create_connection(place, _CONNECT_S):
                    return machine
            except OSError as error:
                if time.monotonic() > end:
                    message = f"no connection to {place[0]} port {place[1]}"
                    raise ProviderError(f"{message}: {error}") from error
                time.sleep(_PROBE_S)

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        """Switch the machine off, if it still runs what it did, and wait until it is."""
        from cobweb_plugins.metal._client import LONG_POLL_S

        if (found := self.find(request)) is None or found.id != machine.id:
            return
        client, name = _asked(request)
        end = time.monotonic() + request.timeout_s
        power = request.fields.get("power", {}).get(name)
        view: View | None = client.power(name, "off", power)
        while view and not view["over"] and (left_s := end - time.monotonic()) > 0:
            view = client.machine(name, wait_s=min(LONG_POLL_S, int(left_s) + 1))
        if view and view["phase"] != "off":
            raise _refusal(name, "is not off", view)


def _refusal(name: str, lack: str, view: View | None) -> ProviderError:
    said = [view["phase"], view["failure"] or view["asks"]] if view else ["not known"]
    message = f"{name} {lack}: it is {', '.join(it for it in said if it)}"
    return ProviderError(message, hint=f"`cobweb metal show {name}` says more")


def _asked(request: NodeRequest, patience_s: float = _PATIENCE_S) -> tuple[Client, str]:
    """Return the boot server, and which machine a node is on."""
    from cobweb_plugins.metal._client import Client

    if "machine" not in request.image:
        hint = "no catalog can have the provider `metal`: the section `metal` makes it"
        raise ProviderError(f"{request.node} has no machine", hint=hint)
    place = {key: request.fields[key] for key in ("url", "folder")}
    return Client(**place, patience_s=patience_s), request.image["machine"]


def _found(request: NodeRequest, view: View | None) -> Machine | None:
    """Return the machine that the boot server shows, if it is active as the node."""
    image = request.image
    if view is None or view["phase"] != "active" or any(view[it] != image[it] for it in _SAME):
        return None
    address, user = image["address"], image["user"]
    said = {"ansible_host": address, "ansible_port": image["port"], "ansible_user": user}
    said |= {"ansible_ssh_private_key_file": image["key"]} if image.get("key") else {}
    addresses = {"access_v4": address, "bind_v4": address}
    id_ = f"{image['machine']}@{view['disk']['written']}"
    return Machine(id=id_, addresses=addresses, connection=said, ready=True)
