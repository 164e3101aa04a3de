"""The role of whoever takes over granted URLs and hands them to workers."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from throttle.model import Grant


class Forwarding(StrEnum):
    """What became of one grant.

    FORWARDED: a worker will get it. RETURNED: certainly none will, so the URL can be given back at
    once. UNKNOWN: one may, so the URL is left to the grant's expiry.
    """

    FORWARDED = "forwarded"
    RETURNED = "returned"
    UNKNOWN = "unknown"


class Sink(Protocol):
    """Hands grants to workers."""

    async def forward(self, grants: Sequence[Grant]) -> list[Forwarding]:
        """Forward `grants`; the answers come in the same order. Never raises for one of them."""
        ...
