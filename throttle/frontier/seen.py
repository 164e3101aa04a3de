"""The seen set: how a URL is marked as accepted, exactly or in Bloom filters."""

from dataclasses import dataclass
from hashlib import shake_128

from throttle.urls import digest

_MOST_HASHES = 64
"""More than any filter of the lowest error rate asks for."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What marks URLs: their digests, or with an `error_rate` hashes for Bloom filters.

    The rate is the share of new URLs that are wrongly taken for seen, however many there are.
    A URL that was accepted is never taken for new.
    """

    error_rate: float | None = None

    @property
    def kind(self) -> str:
        """What scripts are told: `exact`, or `bloom` and the error rate."""
        return "exact" if self.error_rate is None else f"bloom {self.error_rate:g}"

    def mark(self, url: str) -> bytes:
        """The bytes that stand for the canonical `url`."""
        if self.error_rate is None:
            return digest(url)
        return shake_128(url.encode("ascii")).digest(4 * _MOST_HASHES)
