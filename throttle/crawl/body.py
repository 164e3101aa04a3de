"""Takes a response's body off its content coding, within a bound whatever it unpacks to."""

import zlib
from typing import Protocol

from throttle.errors import FetchError

ACCEPT_ENCODING = "gzip, deflate"

_GZIP_MAGIC = b"\x1f\x8b"
# Each member costs a decompressor; a real file has one, or one per 64 KiB block.
_GZIP_MEMBERS = 4096


class _Inflater(Protocol):
    """One content coding: each call unpacks at most `room` bytes."""

    def feed(self, data: bytes, room: int) -> bytes: ...

    @property
    def whole(self) -> bool: ...


class Body:
    """One body as it arrives: `feed` every piece, then take `decoded()` and `raw()`.

    `coding` is the Content-Encoding (RFC 9110 section 8.4); `limit` is in bytes and holds for the
    bytes received and for the bytes unpacked. Every method raises `FetchError` for a body that is
    too large, in a coding we did not ask for, or broken.
    """

    def __init__(self, coding: str, limit: int) -> None:
        self._limit = limit
        self._raw = bytearray()
        self._decoded = bytearray()
        codings = [word for word in coding.lower().replace(",", " ").split() if word != "identity"]
        self._coding = ", ".join(codings)
        self._inflater = _inflater(self._coding)

    def feed(self, data: bytes) -> None:
        """Take the next piece, as received."""
        self._raw += data
        if len(self._raw) > self._limit:
            raise self.too_large()
        if not self._coding or not data:
            return
        if self._inflater is None:
            raise FetchError(f"unsupported content coding {_printable(self._coding)}")
        room = self._limit - len(self._decoded) + 1
        try:
            self._decoded += self._inflater.feed(data, room)
        except zlib.error as error:
            raise FetchError(f"bad {self._coding} body: {_printable(str(error))}") from error
        if len(self._decoded) > self._limit:
            raise self.too_large()

    def too_large(self) -> FetchError:
        """The error of a body over the limit."""
        return FetchError(f"too large: over {self._limit} bytes")

    def decoded(self) -> bytes:
        """The whole body without its content coding."""
        if not self._coding or not self._raw:
            return bytes(self._raw)
        if self._inflater is None or not self._inflater.whole:
            raise FetchError(f"bad {self._coding} body: it ends early")
        return bytes(self._decoded)

    def raw(self) -> bytes:
        """The whole body as received, still in its content coding."""
        return bytes(self._raw)


class _Gzip:
    """gzip (RFC 1952): members one after the other; what follows the last is ignored."""

    def __init__(self) -> None:
        self._members = 0
        self._current = zlib.decompressobj(wbits=31)
        self._between = b""
        self._ended = False

    @property
    def whole(self) -> bool:
        return self._current.eof

    def feed(self, data: bytes, room: int) -> bytes:
        unpacked = bytearray()
        while data and not self._ended:
            if self._current.eof:
                data = self._between + data
                if len(data) < len(_GZIP_MAGIC):
                    self._between = data
                    break
                if not data.startswith(_GZIP_MAGIC):
                    self._ended = True
                    break
                self._begin_member()
            unpacked += self._current.decompress(data, room - len(unpacked))
            if len(unpacked) >= room:
                break
            data = self._current.unused_data
        return bytes(unpacked)

    def _begin_member(self) -> None:
        self._members += 1
        if self._members > _GZIP_MEMBERS:
            raise FetchError(f"bad gzip body: over {_GZIP_MEMBERS} members")
        self._between = b""
        self._current = zlib.decompressobj(wbits=31)


class _Deflate:
    """deflate: with the zlib wrapper as RFC 9110 says, or bare as some servers send it."""

    def __init__(self) -> None:
        self._head = b""
        self._stream: zlib._Decompress | None = None

    @property
    def whole(self) -> bool:
        return self._stream is not None and self._stream.eof

    def feed(self, data: bytes, room: int) -> bytes:
        if self._stream is None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return b""
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._stream = zlib.decompressobj(wbits=15 if wrapped else -15)
        return b"" if self._stream.eof else self._stream.decompress(data, room)


def _inflater(coding: str) -> _Inflater | None:
    if coding in ("gzip", "x-gzip"):
        return _Gzip()
    return _Deflate() if coding == "deflate" else None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:80])
