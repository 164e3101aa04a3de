"""Keeps fetched pages as WARC/1.1 files, and joins the files of many workers into one."""

import json
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed
from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.utils import Digester
from warcio.warcwriter import WARCWriter

from throttle.errors import ArchiveError, UsageError
from throttle.model import Response

_VERSION = "WARC/1.1"
_PIECE = 1024 * 1024


def utc_now() -> datetime:
    """The time of day, in UTC."""
    return datetime.now(UTC)


def new_record_id() -> str:
    """A name for a WARC record that nobody else gives."""
    return f"<urn:uuid:{uuid4()}>"


class WarcArchive:
    """One WARC file of one process; safe to use from many threads.

    The file is `directory`/`name`, where `file_name` makes a name that no other process takes.
    `info` goes into the warcinfo record (`software`, `operator`, `robots` and so on). Each record
    is a gzip member of its own and each page is written in one go, so a process that is killed
    leaves whole records and at most one cut one at the end. Raises `ArchiveError` when the disk
    refuses.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        info: Mapping[str, str],
        *,
        now: Callable[[], datetime] = utc_now,
        new_id: Callable[[], str] = new_record_id,
    ) -> None:
        self.path = directory / name
        self._now = now
        self._new_id = new_id
        self._lock = threading.Lock()
        self._end = 0
        fields = {"format": "WARC File Format 1.1", **info}
        text = "".join(f"{key}: {_one_line(value)}\r\n" for key, value in fields.items())
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            raise ArchiveError(
                f"cannot make {self.path}: {error}; see the setting archive"
            ) from error
        self._append(
            self._packed(
                "warcinfo",
                text.encode(),
                {"WARC-Filename": name, "Content-Type": "application/warc-fields"},
            )
        )

    def write(
        self,
        response: Response,
        request_headers: Sequence[tuple[str, str]],
        *,
        records: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Append one page: its response, its request, and each of `records` as JSON metadata.

        The body is stored as received, before its content coding was taken off. Raises `UsageError`
        when a record is not JSON; then nothing is written.
        """
        texts = [_json(record) for record in records]
        about = {"WARC-Target-URI": response.url, "WARC-Date": _date(self._now())}
        reply = self._new_id()
        head, body = _response_head(response), response.raw_body
        at = {"WARC-IP-Address": response.address} if response.address else {}
        packed = [
            self._packed(
                "response",
                head + body,
                {
                    **about,
                    **at,
                    "WARC-Record-ID": reply,
                    "WARC-Payload-Digest": _digest(body),
                    "Content-Type": "application/http; msgtype=response",
                },
            ),
            self._packed(
                "request",
                _request_head(response.url, request_headers),
                {
                    **about,
                    "WARC-Concurrent-To": reply,
                    "WARC-Payload-Digest": _digest(b""),
                    "Content-Type": "application/http; msgtype=request",
                },
            ),
        ]
        packed += [
            self._packed(
                "metadata",
                text,
                {**about, "WARC-Concurrent-To": reply, "Content-Type": "application/json"},
            )
            for text in texts
        ]
        self._append(b"".join(packed))

    def close(self) -> None:
        """Close the file; writing afterwards raises `ArchiveError`."""
        with self._lock:
            self._file.close()

    def _packed(self, kind: str, block: bytes, headers: dict[str, str]) -> bytes:
        """One record as a gzip member."""
        headers.setdefault("WARC-Record-ID", self._new_id())
        headers.setdefault("WARC-Date", _date(self._now()))
        content_type = headers.pop("Content-Type")
        fields = StatusAndHeaders("", [("WARC-Type", kind), *headers.items()], protocol=_VERSION)
        # Given as a plain block, since warcio rewrites HTTP headers that are not ASCII.
        record = ArcWarcRecord("warc", kind, fields, BytesIO(block), None, content_type, len(block))
        record.payload_length = len(block)
        out = BytesIO()
        WARCWriter(out, gzip=True, warc_version=_VERSION).write_record(record)
        return out.getvalue()

    def _append(self, data: bytes) -> None:
        with self._lock:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[self._file.write(rest) :]
            except (OSError, ValueError) as error:
                self._take_back()
                raise ArchiveError(f"cannot write to {self.path}: {error}") from error
            self._end += len(data)

    def _take_back(self) -> None:
        """Leave no half record before what is written next."""
        if self._file.closed:
            return
        try:
            self._file.truncate(self._end)
            self._file.seek(self._end)
        except OSError as error:
            self._file.close()
            raise ArchiveError(f"cannot mend {self.path}: {error}; it is closed") from error


def file_name(*, started: datetime, pid: int, worker: str) -> str:
    """The name of one process's file: when it started, its process id and its worker's id."""
    safe = "".join(c if c.isascii() and c.isalnum() else "-" for c in worker)[:64]
    return f"throttle-{started.astimezone(UTC):%Y%m%dT%H%M%SZ}-{pid}-{safe}.warc.gz"


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of a merge: records in the target, and bytes of cut records left out."""

    records: int
    left_out_bytes: int


def merge(files: Sequence[Path], target: Path) -> Merged:
    """Join WARC files into `target`, leaving out a record that was cut at the end of a file.

    The target is read back and its digests checked before it gets its name. Raises `ArchiveError`
    when a file is damaged elsewhere than at its end, or when `target` exists.
    """
    if target.exists():
        raise ArchiveError(f"{target} exists already; move it away or name another file")
    partial = target.with_name(target.name + ".partial")
    left_out = 0
    try:
        with partial.open("wb") as out:
            for path in files:
                with path.open("rb") as source:
                    left_out += _copy_whole(path, source, out)
            out.flush()
            os.fsync(out.fileno())
        records = verify(partial)
        partial.replace(target)
    except OSError as error:
        raise ArchiveError(f"cannot merge into {target}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return Merged(records, left_out)


def verify(path: Path) -> int:
    """The number of records in a WARC file, all read whole and their digests right.

    Raises `ArchiveError` naming the first record that is not.
    """
    count = 0
    try:
        with path.open("rb") as source:
            # warcio ends quietly at a cut member, so the members are walked first.
            if max(_member_ends(path, source), default=0) < source.seek(0, os.SEEK_END):
                raise ArchiveError(f"{path}: its last record is cut; merge it to leave that out")
            source.seek(0)
            for record in ArchiveIterator(source, check_digests=True):
                while record.raw_stream.read(_PIECE):
                    pass
                if record.digest_checker.passed is False:
                    name = record.rec_headers.get_header("WARC-Record-ID")
                    raise ArchiveError(
                        f"{path}: record {name}: {record.digest_checker.problems[0]}"
                    )
                count += 1
    except (OSError, ArchiveLoadFailed) as error:
        raise ArchiveError(f"{path}: after {count} records: {error}") from error
    return count


def _copy_whole(path: Path, source: BinaryIO, out: BinaryIO) -> int:
    """Copy every whole record of `source`; return how many bytes at its end are not one."""
    end = max(_member_ends(path, source), default=0)
    total = source.seek(0, os.SEEK_END)
    source.seek(0)
    left = end
    while left:
        piece = source.read(min(left, _PIECE))
        if not piece:
            raise ArchiveError(f"{path} became shorter while it was read")
        out.write(piece)
        left -= len(piece)
    return total - end


def _member_ends(path: Path, source: BinaryIO) -> Iterator[int]:
    """Where each whole gzip member of `source` ends, in bytes from its start."""
    read = 0
    data = b""
    member = zlib.decompressobj(wbits=31)
    while True:
        if not data:
            data = source.read(_PIECE)
            read += len(data)
        if not data:
            return
        try:
            # What comes out is not needed; a bound keeps it small.
            member.decompress(data, _PIECE)
        except zlib.error as error:
            raise ArchiveError(
                f"{path} is damaged before byte {read}: {error}; take it out of the merge"
            ) from error
        data = member.unused_data if member.eof else member.unconsumed_tail
        if member.eof:
            yield read - len(data)
            member = zlib.decompressobj(wbits=31)


def _response_head(response: Response) -> bytes:
    """The head as received, but for what no longer fits the body: it is not chunked any more."""
    lines = [f"{response.http_version} {response.status} {response.reason}".rstrip()]
    length = str(len(response.raw_body))
    has_length = False
    for name, value in response.headers:
        is_length = name.lower() == "content-length"
        fits = value == length if is_length else name.lower() != "transfer-encoding"
        lines.append(f"{name}: {value}" if fits else f"X-Crawler-{name}: {value}")
        has_length = has_length or (is_length and fits)
    if not has_length:
        lines.append(f"Content-Length: {length}")
    return _head(lines)


def _request_head(url: str, headers: Sequence[tuple[str, str]]) -> bytes:
    target = "/" + url.partition("://")[2].partition("/")[2]
    return _head([f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)])


def _head(lines: Sequence[str]) -> bytes:
    return "".join(f"{_one_line(line)}\r\n" for line in (*lines, "")).encode("latin-1", "replace")


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _digest(data: bytes) -> str:
    digester = Digester("sha1")
    digester.update(data)
    return str(digester)


def _date(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _json(record: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(dict(record), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise UsageError(f"a page's record is not JSON: {error}") from error
