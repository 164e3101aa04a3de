"""throttlectl demo: the main job on real pages, judged by the site that was crawled."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.processes import Command


def test_demo_proves_its_promises_and_leaves_nothing_running(
    tmp_path: Path, launch: Callable[..., Command]
) -> None:
    """A newcomer's first command crawls at least 200 real pages politely, and says so."""
    command = launch(tmp_path, "demo", "--json", interval="1h", follow_hosts="false")
    assert command.end(timeout_s=110) == 0, command.out + command.err
    report = json.loads(command.out)
    assert report["held"]
    assert len(report["promises"]) == 6
    assert all(promise["held"] for promise in report["promises"])
    assert len(report["hosts"]) >= 8
    assert sum(host["pages"] for host in report["hosts"]) >= 200
    assert all(host["slack_s"] >= -0.005 for host in report["hosts"])
    assert len({host["interval_s"] for host in report["hosts"]}) > 4
    assert not command.left_running()
    assert not list(command.temporary.iterdir())
