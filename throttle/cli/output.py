"""The WARC file a crawl leaves: checked before it starts, written whole or not at all."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from throttle.crawl.archive import merge
from throttle.errors import UsageError

_WRITTEN = "written.json"


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: `path` is None when there was nothing to write."""

    path: Path | None
    records: int = 0
    left_out_bytes: int = 0

    def __str__(self) -> str:
        if self.path is None:
            return "no page came out: no output written"
        return f"{self.records} records in {self.path}"


NOTHING = Written(None)


class Output:
    """The file `path`; a crawl that keeps a `data_dir` may replace what it wrote there before."""

    def __init__(self, path: Path, data_dir: Path | None) -> None:
        self._path = path.absolute()
        self._note = None if data_dir is None else data_dir.absolute() / _WRITTEN

    def check(self) -> None:
        """Raises `UsageError` when the file could not be written at the end."""
        folder = self._path.parent
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder} for the output; make it first")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"the folder {folder} of the output cannot be written")
        if self._path.exists() and self._state() != self._known():
            raise UsageError(
                f"{self._path} exists already, and is not what this --data-dir wrote; move it away"
                " or name another --output"
            )

    def write(self, files: Sequence[Path]) -> Written:
        """Join `files` into it, if they hold a page. Raises `ArchiveError`, nothing written."""
        if not files:
            return NOTHING
        fresh = self._path.with_name(f".{self._path.name}.new")
        fresh.unlink(missing_ok=True)
        merged = merge(files, fresh)
        # Each file begins with one record about itself.
        if merged.records <= len(files):
            fresh.unlink()
            return NOTHING
        fresh.replace(self._path)
        if self._note is not None:
            self._note.write_text(json.dumps(self._state()), encoding="utf-8")
        return Written(self._path, merged.records, merged.left_out_bytes)

    def _state(self) -> list[object]:
        found = self._path.stat()
        return [str(self._path), found.st_size, found.st_mtime_ns]

    def _known(self) -> object:
        if self._note is None or not self._note.exists():
            return None
        try:
            return json.loads(self._note.read_text(encoding="utf-8"))
        except ValueError:
            return None
