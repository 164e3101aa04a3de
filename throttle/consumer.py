"""The door of the worker: messages that no task could take go to the dead letters, not to Celery.

Celery acknowledges and drops what it does not understand, and some of it ends the worker.
"""

import logging
from collections.abc import Callable
from typing import Any

from celery.worker.consumer import Consumer
from kombu.exceptions import KombuError

from throttle.dispatch.celery_sink import FETCH_TASK

_log = logging.getLogger("throttle.worker")

_ARGUMENTS = {"grant", "key", "url", "kind"}
_NOT_OF_A_FETCH = ("eta", "expires", "group", "stamps", "stamped_headers")
_LONGEST_ID = 255


def fault_of(message: Any, tasks: Any) -> str:
    """Why `message` is not one of ours, in a few words; empty when it is."""
    headers = message.headers or {}
    name = headers.get("task")
    if not isinstance(name, str) or name not in tasks or name.startswith("celery."):
        return f"unknown task {name!r:.80}"
    fault = _header_fault(headers)
    if fault:
        return fault
    try:
        payload = message.payload
    except (KombuError, ValueError, TypeError, LookupError) as error:
        return f"unreadable body: {type(error).__name__}"
    if not (isinstance(payload, list | tuple) and len(payload) == 3):
        return "its body is not args, kwargs and options"
    arguments, named, options = payload
    if not (isinstance(arguments, list) and isinstance(named, dict) and isinstance(options, dict)):
        return "its body is not args, kwargs and options"
    if name == FETCH_TASK and (
        arguments
        or named.keys() != _ARGUMENTS
        or not all(isinstance(value, str) for value in named.values())
    ):
        return "its arguments are not those of throttle.fetch"
    return ""


def _header_fault(headers: dict[str, Any]) -> str:
    """What of Celery's own headers would end the worker, or hold a fetch back in it."""
    task_id = headers.get("id")
    if not (isinstance(task_id, str) and 0 < len(task_id) <= _LONGEST_ID and task_id.isprintable()):
        return "its id is not one line of text"
    limits = headers.get("timelimit")
    if limits is not None and not (isinstance(limits, list | tuple) and len(limits) == 2):
        return "its timelimit is not a pair"
    if headers["task"] == FETCH_TASK:
        extra = [name for name in _NOT_OF_A_FETCH if headers.get(name)]
        if extra:
            return f"a fetch has no {extra[0]}"
    return ""


class SoundConsumer(Consumer):
    """Rejects what is not a task of ours; RabbitMQ dead-letters it (`crawl.dead`)."""

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Celery's handler behind a check of each message."""
        handle = super().create_task_handler(*args, **kwargs)

        def guarded(message: Any) -> None:
            fault = fault_of(message, self.app.tasks)
            if fault:
                self._reject(message, fault)
                return
            try:
                handle(message)
            except self.connection_errors:
                raise
            except Exception as error:  # noqa: BLE001 - one message must not end the worker
                # Whatever Celery stumbles over in one message must not end the worker.
                _log.exception("Celery cannot take a message")
                self._reject(message, f"{type(error).__name__} in Celery")

        return guarded

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """A body that cannot even be unpacked is a dead letter, too."""
        self._reject(message, f"unreadable: {type(exc).__name__}")

    def _reject(self, message: Any, fault: str) -> None:
        _log.error("message rejected to the dead letters: %s", fault)
        message.reject_log_error(_log, self.connection_errors)
