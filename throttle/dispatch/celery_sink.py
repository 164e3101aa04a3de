"""Forwards grants as Celery tasks: persistent, mandatory and confirmed messages in one queue."""

from collections.abc import Sequence

from celery import Celery
from kombu.serialization import dumps
from pika import BasicProperties

from throttle.dispatch.sink import Forwarding
from throttle.model import Grant
from throttle.tokens.publisher import Confirm, Message, Publisher

FETCH_TASK = "throttle.fetch"
_SHOWN = 200
"""Characters of a URL in what Celery's monitors show."""

_FORWARDINGS = {
    Confirm.CONFIRMED: Forwarding.FORWARDED,
    Confirm.RETURNED: Forwarding.RETURNED,
    Confirm.REFUSED: Forwarding.RETURNED,
    Confirm.UNKNOWN: Forwarding.UNKNOWN,
}


class CelerySink:
    """A `Sink` whose workers run the Celery task `throttle.fetch`.

    Celery's own `apply_async` confirms one message at a time; this writes the same messages in
    batches.
    """

    def __init__(self, app: Celery, publisher: Publisher, queue: str, timeout_s: float) -> None:
        """Publish to `queue`; a batch may take `timeout_s` seconds until it is UNKNOWN."""
        self._app = app
        self._publisher = publisher
        self._queue = queue
        self._timeout_s = timeout_s

    async def forward(self, grants: Sequence[Grant]) -> list[Forwarding]:
        """Publish one task for each of `grants`; the answers come in the same order."""
        if not grants:
            return []
        messages = [fetch_message(self._app, grant, self._queue) for grant in grants]
        confirms = await self._publisher.publish(messages, self._timeout_s)
        return [_FORWARDINGS[confirm] for confirm in confirms]


def fetch_message(app: Celery, grant: Grant, queue: str) -> Message:
    """The Celery message (task protocol 2) that asks a worker to fetch the URL of `grant`."""
    task = app.amqp.as_task_v2(
        grant.id,
        FETCH_TASK,
        kwargs={
            "grant": grant.id,
            "key": grant.key,
            "url": grant.url,
            "kind": grant.kind.value,
        },
        ignore_result=True,
        argsrepr="()",
        kwargsrepr=f"{grant.kind.value} {grant.url[:_SHOWN]}",
    )
    content_type, content_encoding, body = dumps(task.body, serializer="json")
    properties = BasicProperties(
        content_type=content_type,
        content_encoding=content_encoding,
        headers=task.headers,
        correlation_id=task.properties["correlation_id"],
        message_id=grant.id,
    )
    return Message(queue, body.encode(), properties, persistent=True)
