"""WARC files hold whole pages that other tools accept, also after a kill in mid-write."""

import gzip
import json
import subprocess
import sys
import threading
import zlib
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from throttle.crawl.archive import Merged, WarcArchive, file_name, merge, verify
from throttle.errors import ArchiveError, UsageError
from throttle.model import Response

WARCIO = Path(sys.executable).with_name("warcio")
INFO = {"software": "throttle/0.1", "robots": "obeyed\r\nevil: yes"}
ASKED = (("Host", "a.example"), ("User-Agent", "examplebot (+http://bot.example/)"))
PAGE = b"<p>caf\xc3\xa9</p>" * 500


def _response(raw: bytes = PAGE, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(
        url="http://a.example/p?q=1;x",
        status=200,
        reason="OK",
        http_version="HTTP/1.1",
        headers=headers,
        body=PAGE,
        raw_body=raw,
        address="93.184.216.34",
        sent_at_s=1.0,
        elapsed_s=0.5,
    )


def _archive(directory: Path, name: str = "one.warc.gz") -> WarcArchive:
    return WarcArchive(directory, name, INFO, now=lambda: datetime(2026, 1, 2, 3, 4, 5, 6, UTC))


def _records(path: Path) -> list[tuple[str, dict[str, str], bytes]]:
    with path.open("rb") as file:
        return [
            (record.rec_type, dict(record.rec_headers.headers), record.content_stream().read())
            for record in ArchiveIterator(file, no_record_parse=True)
        ]


def _check(path: Path) -> None:
    done = subprocess.run([WARCIO, "check", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("raw", "headers"),
    [
        (PAGE, (("Content-Length", str(len(PAGE))), ("Content-Type", "text/html"))),
        (gzip.compress(PAGE), (("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked"))),
        (b"", ()),
        (PAGE, (("X-Name", "caf\xe9; a=\xe9"), ("X-Name", "again"), ("Empty", ""))),
    ],
    ids=["plain", "gzip in chunks", "empty", "strange headers"],
)
def test_other_tools_accept_what_is_written(
    tmp_path: Path, raw: bytes, headers: tuple[tuple[str, str], ...]
) -> None:
    """`warcio check` finds every digest right, whatever the body's codings and headers were."""
    archive = _archive(tmp_path)
    archive.write(_response(raw, headers), ASKED, records=[{"title": "caf\xe9"}, {"n": [1, 2]}])
    archive.close()
    _check(archive.path)
    assert verify(archive.path) == 5
    kinds = [kind for kind, _, _ in _records(archive.path)]
    assert kinds == ["warcinfo", "response", "request", "metadata", "metadata"]
    with archive.path.open("rb") as file:
        response = next(r for r in ArchiveIterator(file) if r.rec_type == "response")
        assert response.content_stream().read() == (PAGE if raw else b"")


def test_headers_are_stored_as_received_but_for_the_chunks(tmp_path: Path) -> None:
    """Header bytes come back unchanged; what described the chunking is set aside by name."""
    archive = _archive(tmp_path)
    headers = (("X-Name", "caf\xe9"), ("Transfer-Encoding", "chunked"), ("Set-Cookie", "a=b"))
    archive.write(_response(headers=headers), ASKED)
    archive.close()
    _, fields, block = _records(archive.path)[1]
    assert block == (
        b"HTTP/1.1 200 OK\r\nX-Name: caf\xe9\r\nX-Crawler-Transfer-Encoding: chunked\r\n"
        b"Set-Cookie: a=b\r\nContent-Length: " + str(len(PAGE)).encode() + b"\r\n\r\n" + PAGE
    )
    assert fields["WARC-IP-Address"] == "93.184.216.34"
    assert fields["WARC-Date"] == "2026-01-02T03:04:05.000006Z"
    assert fields["WARC-Target-URI"] == "http://a.example/p?q=1;x"


def test_a_page_keeps_its_request_and_its_records_together(tmp_path: Path) -> None:
    """Request and user records name the response they belong to."""
    archive = _archive(tmp_path)
    archive.write(_response(), ASKED, records=[{"title": "caf\xe9"}])
    archive.close()
    _, response, request, metadata = _records(archive.path)
    assert request[2] == (
        b"GET /p?q=1;x HTTP/1.1\r\nHost: a.example\r\n"
        b"User-Agent: examplebot (+http://bot.example/)\r\n\r\n"
    )
    assert json.loads(metadata[2]) == {"title": "caf\xe9"}
    assert metadata[1]["Content-Type"] == "application/json"
    for _, fields, _ in (request, metadata):
        assert fields["WARC-Concurrent-To"] == response[1]["WARC-Record-ID"]
    assert b"evil: yes\r\n" not in _records(archive.path)[0][2].replace(b"obeyed  evil", b"")


@pytest.mark.parametrize("record", [{"a": {1, 2}}, {"a": float("nan")}, {"a": "\ud800"}])
def test_a_record_that_is_not_json_writes_nothing(tmp_path: Path, record: dict[str, Any]) -> None:
    """A user's wrong record is refused before any part of the page is written."""
    archive = _archive(tmp_path)
    with pytest.raises(UsageError, match="not JSON"):
        archive.write(_response(), ASKED, records=[record])
    archive.close()
    assert [kind for kind, _, _ in _records(archive.path)] == ["warcinfo"]


def test_each_page_is_on_disk_when_write_returns(tmp_path: Path) -> None:
    """A process killed after a write loses nothing of it."""
    archive = _archive(tmp_path)
    for pages in range(1, 4):
        archive.write(_response(), ASKED)
        assert verify(archive.path) == 1 + 2 * pages
    archive.close()


def test_many_threads_write_whole_pages(tmp_path: Path) -> None:
    """Pages of different threads never mix."""
    archive = _archive(tmp_path)
    file = archive._file

    class Piecemeal:
        """Takes a few hundred bytes a time, as a slow disk may."""

        def write(self, data: memoryview) -> int | None:
            return file.write(data[:300])

        def close(self) -> None:
            file.close()

    archive._file = Piecemeal()  # type: ignore[assignment]
    threads = [
        threading.Thread(
            target=lambda: [archive.write(_response(), ASKED, records=[{}]) for _ in range(10)]
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    archive.close()
    _check(archive.path)
    kinds = [kind for kind, _, _ in _records(archive.path)]
    assert kinds == ["warcinfo"] + ["response", "request", "metadata"] * 80


def test_a_file_of_another_process_is_never_overwritten(tmp_path: Path) -> None:
    """Names differ by start, process and worker; a name that is taken is refused."""
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    name = file_name(started=moment, pid=42, worker="celery@box/1")
    assert name == "throttle-20260102T030405Z-42-celery-box-1.warc.gz"
    _archive(tmp_path, name).close()
    with pytest.raises(ArchiveError, match="cannot make"):
        _archive(tmp_path, name)


def test_a_full_disk_leaves_no_half_record(tmp_path: Path) -> None:
    """A page that did not fit is taken back, and later pages are whole."""
    archive = _archive(tmp_path)
    whole = archive.path.stat().st_size
    file = archive._file

    class Full:
        """Takes ten bytes, then refuses as a full disk does."""

        closed = False
        took = 0

        def write(self, data: memoryview) -> int:
            if self.took:
                raise OSError(28, "No space left on device")
            self.took = file.write(data[:10]) or 0
            return self.took

        def truncate(self, size: int) -> int:
            return file.truncate(size)

        def seek(self, offset: int) -> int:
            return file.seek(offset)

    archive._file = Full()  # type: ignore[assignment]
    with pytest.raises(ArchiveError, match="No space left"):
        archive.write(_response(), ASKED)
    assert archive.path.stat().st_size == whole
    archive._file = file
    archive.write(_response(), ASKED)
    archive.close()
    _check(archive.path)
    with pytest.raises(ArchiveError, match="closed"):
        archive.write(_response(), ASKED)


KILLED = """
import os, signal, sys
from pathlib import Path
from throttle.crawl import archive
from tests.unit.test_archive import ASKED, INFO, _response

made = archive.WarcArchive(Path(sys.argv[1]), "killed.warc.gz", INFO)
made.write(_response(), ASKED)
file = made._file

class Dying:
    def write(self, data):
        file.write(data[: len(data) // 3])
        os.kill(os.getpid(), signal.SIGKILL)

made._file = Dying()
made.write(_response(), ASKED)
"""


def test_a_worker_killed_in_mid_write_costs_only_the_cut_page(tmp_path: Path) -> None:
    """The merge keeps every whole record and leaves out the cut one."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        check=False,
        cwd=root,
        env={"PYTHONPATH": str(root)},
    )
    assert done.returncode == -9
    cut = tmp_path / "killed.warc.gz"
    with pytest.raises(ArchiveError):
        verify(cut)
    other = _archive(tmp_path)
    other.write(_response(), ASKED)
    other.close()
    target = tmp_path / "all.warc.gz"
    merged = merge([cut, other.path], target)
    _check(target)
    assert merged.left_out_bytes > 0
    assert merged.records == verify(target) == 6
    assert merged.left_out_bytes + target.stat().st_size == sum(
        path.stat().st_size for path in (cut, other.path)
    )


def test_a_merge_of_any_cut_keeps_exactly_the_whole_records(tmp_path: Path) -> None:
    """Wherever a file was cut, no whole record is lost and no half one kept."""
    archive = _archive(tmp_path)
    archive.write(_response(b"x" * 50), ASKED)
    archive.close()
    data = archive.path.read_bytes()
    ends = [0]
    while ends[-1] < len(data):
        member = BytesIO(data[ends[-1] :])
        inflater = zlib.decompressobj(wbits=31)
        inflater.decompress(member.read())
        ends.append(len(data) - len(inflater.unused_data))
    assert len(ends) == 4
    cut, target = tmp_path / "cut.warc.gz", tmp_path / "all.warc.gz"
    for size in range(0, len(data) + 1, 7):
        cut.write_bytes(data[:size])
        whole = sum(1 for end in ends[1:] if end <= size)
        assert merge([cut], target) == Merged(whole, size - ends[whole])
        assert target.read_bytes() == data[: ends[whole]]
        target.unlink()


def test_a_merge_refuses_a_damaged_file_and_a_taken_name(tmp_path: Path) -> None:
    """Damage that no kill explains is told, not skipped; nothing is overwritten."""
    archive = _archive(tmp_path)
    archive.write(_response(), ASKED)
    archive.close()
    data = bytearray(archive.path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    bad, target = tmp_path / "bad.warc.gz", tmp_path / "all.warc.gz"
    bad.write_bytes(bytes(data))
    with pytest.raises(ArchiveError, match="damaged"):
        merge([archive.path, bad], target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.warc.gz", "one.warc.gz"]
    target.write_bytes(b"mine")
    with pytest.raises(ArchiveError, match="exists already"):
        merge([archive.path], target)
    with pytest.raises(ArchiveError, match="cannot merge"):
        merge([tmp_path / "missing.warc.gz"], tmp_path / "other.warc.gz")
    assert target.read_bytes() == b"mine"


def test_verify_names_a_record_whose_digest_is_wrong(tmp_path: Path) -> None:
    """A body that was changed later is found."""
    archive = _archive(tmp_path)
    archive.write(_response(b"before"), ASKED)
    archive.close()
    changed = tmp_path / "changed.warc.gz"
    with archive.path.open("rb") as file:
        text = gzip.decompress(file.read())
    changed.write_bytes(gzip.compress(text.replace(b"before", b"after!")))
    with pytest.raises(ArchiveError):
        verify(changed)
