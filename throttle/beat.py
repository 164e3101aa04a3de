"""The beat scheduler that issues tokens: `celery -A throttle beat` is the issuer."""

import asyncio
from typing import Any

from celery.beat import Scheduler

from throttle.errors import ThrottleError
from throttle.frontier.bundle import Frontier
from throttle.settings import load
from throttle.wiring import issuer

_TICK_S = 1.0


class TokenScheduler(Scheduler):
    """Runs the issuer between the ordinary periodic tasks, which it leaves to Celery.

    It keeps no schedule file: when a token is due stands in Redis. A periodic task counts its
    first period from the start of beat. A `lazy` one, which Celery makes
    first for its banner, only tries whether both servers answer.
    """

    def __init__(self, *args: Any, lazy: bool = False, **kwargs: Any) -> None:
        self._loop = asyncio.new_event_loop()
        settings = load()
        frontier = Frontier(settings)
        try:
            self._issuer = issuer(settings, frontier)
            self._loop.run_until_complete(self._issuer.begin())
        except ThrottleError as error:
            # Celery would print a traceback of any other exception.
            raise SystemExit(f"throttle: {error}") from None
        self._listener = frontier.listener(
            "issue", lambda part: self._loop.call_soon_threadsafe(self._issuer.agenda.ring, part)
        )
        if lazy:
            self._loop.run_until_complete(self._issuer.leave())
        else:
            self._listener.start()
        super().__init__(*args, lazy=lazy, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """One round of Celery's schedule, then tokens until its next task is due."""
        wait_s = super().tick(*args, **kwargs)
        self._loop.run_until_complete(self._issuer.run_for(min(wait_s, _TICK_S)))
        return 0.0

    def close(self) -> None:
        """Gives up the leases, so that a standby beat takes over at once."""
        super().close()
        if not self._loop.is_closed() and not self._loop.is_running():
            self._listener.stop()
            self._loop.run_until_complete(self._issuer.leave())
            self._loop.close()
