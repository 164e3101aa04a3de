"""A Celery app for a worker of its own process: `throttle.fetch` only writes down what it got."""

import json
import os
from pathlib import Path

from celery import Celery
from kombu import Queue

app = Celery("recording", broker=os.environ.get("RECORDING_BROKER", "amqp://127.0.0.1:1//"))
app.conf.task_queues = [Queue("crawl", no_declare=True)]


@app.task(name="throttle.fetch", bind=True, ignore_result=True)
def fetch(self, **arguments):
    """Append the task's id and arguments to the file that the test reads."""
    with Path(os.environ["RECORDING_FILE"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([self.request.id, arguments]) + "\n")
