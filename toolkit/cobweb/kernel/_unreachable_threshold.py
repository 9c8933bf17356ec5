"""The stop-all threshold: where too many hosts are silent, the mistake is likelier here than there.

A coordinator that lost its network, or a key that expired, looks like many broken hosts. So a run
holds its transitions back until enough of the hosts that are checked first have answered; one that
loses more hosts than may be begins nothing new.
"""

from __future__ import annotations

from collections.abc import Collection

from cobweb._text import some_of

_SHOWN = 5


class UnreachableThreshold:
    """Counts the hosts that answer; `most` of `hosts` may be unreachable (None: all may).

    A host counts as asked from its first check on, and as heard with the first report of a job on
    it, whatever that says. Which hosts are `lost` the run knows; all of them have been heard.
    """

    def __init__(self, *, hosts: int, most: int | None) -> None:
        self._hosts = hosts
        self._most = most
        self._asked: set[str] = set()
        self._pending: set[str] = set()

    def ask(self, host: str) -> bool:
        """Note that a host is about to be checked; say whether the run has to wait for it.

        That is so for the first check of each host, which should be the first to go.
        """
        if self._most is None or host in self._asked:
            return False
        self._asked.add(host)
        self._pending.add(host)
        return True

    def heard(self, host: str) -> None:
        """Note that a host has answered, or is lost."""
        self._pending.discard(host)

    def lets_go(self, lost: Collection[str]) -> bool:
        """Say whether transitions may begin: not too many are lost, whoever is still silent."""
        return self._most is None or len(self._pending) + len(lost) <= self._most

    def refusal(self, lost: Collection[str]) -> str:
        """Return why nothing new may begin; "" where it may."""
        if self._most is None or len(lost) <= self._most:
            return ""
        return (
            f"{len(lost)} of {self._hosts} hosts cannot be reached "
            f"({some_of(sorted(lost), _SHOWN)}), --max-unreachable allows {self._most}"
        )
