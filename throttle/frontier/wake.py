"""Hearing the frontier's wake-ups: a thread that listens, so that sleepers need not poll."""

import logging
import threading
from collections.abc import Callable

import redis
from redis.exceptions import RedisError

from throttle.frontier.faults import FaultLog
from throttle.frontier.keys import Keys

_log = logging.getLogger("throttle.wake")
_PAUSE_S = 0.5


class WakeListener:
    """Calls `on_wake(partition)` for each wake-up of a role (`dispatch` or `issue`).

    After a lost connection it calls `on_wake(None)`: wake-ups may have been missed, so look
    everywhere. Runs in a thread of its own between `start` and `stop`.
    """

    def __init__(
        self, client: redis.Redis, keys: Keys, role: str, on_wake: Callable[[int | None], object]
    ) -> None:
        self._client = client
        self._keys = keys
        self._pattern = keys.wake_pattern(role)
        self._on_wake = on_wake
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"wake-{role}", daemon=True)

    def start(self) -> None:
        """Begins to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Ends within a second."""
        self._stopping.set()
        self._thread.join(timeout=3)

    def _listen(self) -> None:
        faults = FaultLog(_log)
        while not self._stopping.is_set():
            try:
                self._hear()
            except (RedisError, OSError) as error:
                faults.tell(f"no wake-ups from Redis for now ({error}); trying again")
                self._stopping.wait(_PAUSE_S)

    def _hear(self) -> None:
        with self._client.pubsub() as subscription:
            subscription.psubscribe(self._pattern)
            while not self._stopping.is_set():
                message = subscription.get_message(timeout=1.0)
                if message is None:
                    continue
                if message["type"] == "psubscribe":
                    self._on_wake(None)
                elif message["type"] == "pmessage":
                    self._on_wake(self._keys.partition_in(message["channel"].decode()))
