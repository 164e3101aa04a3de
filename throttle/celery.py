"""The Celery app: `celery -A throttle worker` consumes the crawl queue, `beat` issues tokens."""

import logging
import os
import threading
from functools import cache
from typing import Any

from celery import Celery, Task
from celery.signals import worker_init, worker_process_init, worker_shutdown
from kombu.entity import Queue

from throttle.dispatch.celery_sink import FETCH_TASK
from throttle.errors import FrontierError, ServerUnreachable, ThrottleError
from throttle.frontier.faults import FaultLog
from throttle.settings import Settings, load
from throttle.tokens.topology import crawl_queue_arguments
from throttle.wiring import Worker, worker

_log = logging.getLogger("throttle.worker")

HEARTBEAT_S = 2.0

# What pika logs of a lost connection is said once more, in words, by the link that heals it.
logging.getLogger("pika").setLevel(logging.CRITICAL)


def configured(settings: Settings) -> Celery:
    """A Celery app for these settings: JSON only, late acks, a pool of threads."""
    made = Celery("throttle", broker=settings.broker_url, set_as_current=True)
    made.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_default_queue=settings.crawl_queue,
        task_queues=[
            Queue(
                settings.crawl_queue,
                durable=True,
                queue_arguments=crawl_queue_arguments(settings.crawl_queue),
            )
        ],
        task_create_missing_queues=False,
        worker_pool="threads",
        worker_concurrency=settings.worker_threads,
        worker_prefetch_multiplier=1,
        worker_consumer="throttle.consumer:SoundConsumer",
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        beat_scheduler="throttle.beat:TokenScheduler",
    )
    return made


app = configured(load())


_making = threading.Lock()


def _worker() -> Worker:
    """This process's worker, made at its first use, after any fork."""
    with _making:
        return _made(os.getpid())


@cache
def _made(pid: int) -> Worker:  # noqa: ARG001 - one worker per process: a forked child makes its own
    return worker(load())


@app.task(name=FETCH_TASK, bind=True, acks_late=True, max_retries=0, ignore_result=True)
def fetch(self: Task, *, grant: str, key: str, url: str, kind: str) -> str:  # noqa: ARG001 - url and kind are for monitors: what is fetched comes from the grant
    """Visits the URL of a grant; the answer is a word for the log."""
    redelivered = bool((self.request.delivery_info or {}).get("redelivered"))
    return _worker().visit.run(grant, key, redelivered=redelivered)


@worker_init.connect
def _refuse_to_start(**_: Any) -> None:
    """Without an identity for sites, or the user's code, it ends before its first message."""
    try:
        _worker()
    except ThrottleError as error:
        raise SystemExit(f"throttle: {error}") from error


@worker_init.connect
@worker_process_init.connect
def _begin_heartbeat(**_: Any) -> None:
    threading.Thread(target=_heartbeat, name="heartbeat", daemon=True).start()


def _heartbeat() -> None:
    pause, faults = threading.Event(), FaultLog(_log)
    while True:
        try:
            _worker().census.pulse("worker")
        except (ServerUnreachable, FrontierError) as error:
            faults.tell(f"no heartbeat: {error}")
        faults.look()
        pause.wait(HEARTBEAT_S)


@worker_shutdown.connect
def _close(**_: Any) -> None:
    archive = _worker().archive
    if archive is not None:
        archive.close()
