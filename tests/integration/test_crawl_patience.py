"""throttlectl crawl ends by itself when what is left must wait long, and says why."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Command
from throttle.local.origin import Behaviour, Origin

Run = Callable[..., Command]


def _crawl(run: Run, directory: Path, origin: Origin, *arguments: str) -> Command:
    directory.mkdir(parents=True, exist_ok=True)
    names = directory / "hosts"
    names.write_text("127.0.0.1 a.example\n127.0.0.1 b.example\n")
    return run(
        directory,
        "crawl",
        origin.url("a.example"),
        origin.url("b.example"),
        "--interval",
        "50ms",
        "--patience",
        "3s",
        "--json",
        *arguments,
        product="examplebot",
        contact="https://bot.example/",
        allow_nets="127.0.0.0/8",
        hosts_file=str(names),
    )


@pytest.mark.parametrize(
    ("path", "behaviour"),
    [
        ("/robots.txt", Behaviour(status=500)),
        ("/", Behaviour(status=429, headers=(("Retry-After", "600"),))),
    ],
)
def test_crawl_does_not_sit_through_a_long_wait(
    tmp_path: Path, origin: Origin, launch: Run, path: str, behaviour: Behaviour
) -> None:
    """What can be fetched is written; what waits is named with the reason, and the code is 1."""
    origin.set("b.example", path, behaviour)
    command = _crawl(launch, tmp_path / "run", origin, "--data-dir", "kept")
    assert command.end() == 1, command.err
    report = json.loads(command.out)
    (given_up,) = report["gave_up"]
    assert given_up["host"] == "b.example"
    assert any(cause in given_up["waits_for"] for cause in ("robots.txt", "Retry-After"))
    assert "--patience 3s" in command.err
    assert "--data-dir" in command.err
    assert f"b.example: 1 waits, 0 in flight; {given_up['waits_for'][:10]}" in command.err
    assert (report["done"], report["missing"], report["interrupted"]) == (1, 0, False)
    assert not command.left_running()
