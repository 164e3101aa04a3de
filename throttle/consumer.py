"""The door of the worker: messages that no task could take go to the dead letters, not to Celery.

Celery acknowledges and drops what it does not understand, and some of it ends the worker.
"""

import logging
from collections.abc import Callable
from typing import Any

from celery.worker.consumer import Consumer
from kombu.exceptions import KombuError

_log = logging.getLogger("throttle.worker")

_ARGUMENTS = {"grant", "key", "url", "kind"}


def fault_of(message: Any, tasks: Any) -> str:
    """Why `message` is not one of ours, in a few words; empty when it is."""
    headers = message.headers or {}
    name = headers.get("task")
    if not isinstance(name, str) or name not in tasks:
        return f"unknown task {name!r:.80}"
    try:
        payload = message.payload
    except (KombuError, ValueError, TypeError, LookupError) as error:
        return f"unreadable body: {type(error).__name__}"
    if not (isinstance(payload, list | tuple) and len(payload) == 3):
        return "its body is not args, kwargs and options"
    arguments, named, options = payload
    if not (isinstance(arguments, list) and isinstance(named, dict) and isinstance(options, dict)):
        return "its body is not args, kwargs and options"
    if name == "throttle.fetch" and (
        arguments
        or named.keys() != _ARGUMENTS
        or not all(isinstance(value, str) for value in named.values())
    ):
        return "its arguments are not those of throttle.fetch"
    return ""


class SoundConsumer(Consumer):
    """Rejects what is not a task of ours; RabbitMQ dead-letters it (`crawl.dead`)."""

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Celery's handler behind a check of each message."""
        handle = super().create_task_handler(*args, **kwargs)

        def guarded(message: Any) -> None:
            fault = fault_of(message, self.app.tasks)
            if fault:
                _log.error("message rejected to the dead letters: %s", fault)
                message.reject_log_error(_log, self.connection_errors)
            else:
                handle(message)

        return guarded
