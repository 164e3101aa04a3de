"""Shows how far a crawl is: one line redrawn on a terminal, elsewhere a line every few seconds."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from throttle.frontier.census import Totals

_EVERY_S = 5.0
_RATE_OVER_S = 10.0


class CrawlProgress:
    """Used with `with`; writes to standard error, so that results stay apart."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._live.add_task("", total=None, figures="")
        self._said_s = -_EVERY_S
        self._ended: deque[tuple[float, int]] = deque()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within it the line is off the screen: what is printed stands on lines of its own."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def stage(self, text: str) -> None:
        """What is being done now."""
        self._live.update(self._task, description=text, total=None, figures="")
        if not self._console.is_terminal:
            self.note(text)

    def note(self, text: str) -> None:
        """Something that stays on the screen."""
        self._console.print(text, markup=False, soft_wrap=True)

    def show(self, totals: Totals, doing: str = "crawling") -> None:
        """Where the crawl stands."""
        ended = totals.done + totals.refused + totals.dead
        rate = self._rate(ended)
        left = f"waiting {totals.waiting + totals.delayed}  in flight {totals.in_flight}"
        figures = f"{ended}/{totals.accepted}  {left}  {rate:.1f}/s"
        self._live.update(
            self._task,
            description=doing,
            total=max(1, totals.accepted),
            completed=ended,
            figures=figures,
        )
        now_s = time.monotonic()
        if not self._console.is_terminal and now_s - self._said_s >= _EVERY_S:
            self._said_s = now_s
            self.note(f"{doing}: {figures}")

    def _rate(self, ended: int) -> float:
        now_s = time.monotonic()
        self._ended.append((now_s, ended))
        while now_s - self._ended[0][0] > _RATE_OVER_S:
            self._ended.popleft()
        first_s, first = self._ended[0]
        return (ended - first) / (now_s - first_s) if now_s > first_s else 0.0
