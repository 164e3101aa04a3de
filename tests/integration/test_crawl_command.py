"""throttlectl crawl: one command, a WARC file, and nothing left running however it ends."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.processes import Command
from tests.servers import wait_until
from throttle.local.directory import DirectoryLock
from throttle.local.origin import Behaviour, Origin

Run = Callable[..., Command]

PAGES = 12
INTERVAL_S = 0.3
SHORT_OF_IT_S = 0.005


def _link_pages(origin: Origin) -> None:
    """A start page at a.example with links to its pages and to b.example."""
    links = "".join(f'<a href="/p{number}">page</a>' for number in range(PAGES))
    other = f'<a href="{origin.url("b.example")}">another host</a>'
    origin.set("a.example", "/", Behaviour(body=f"<html>{links}{other}".encode()))


def _crawl(
    run: Run,
    directory: Path,
    origin: Origin,
    *arguments: str,
    as_json: bool = True,
    **settings: str,
) -> Command:
    directory.mkdir(parents=True, exist_ok=True)
    names = directory / "hosts"
    names.write_text("127.0.0.1 a.example\n127.0.0.1 b.example\n")
    return run(
        directory,
        "crawl",
        origin.url("a.example"),
        "--interval",
        f"{INTERVAL_S}s",
        *(("--json",) if as_json else ()),
        *arguments,
        **{
            "product": "examplebot",
            "contact": "https://bot.example/",
            "allow_nets": "127.0.0.0/8",
            "hosts_file": str(names),
            **settings,
        },
    )


def _pages(warc: Path) -> list[str]:
    """The paths in a WARC file, which `warcio check` accepts."""
    warcio = Path(sys.executable).with_name("warcio")
    subprocess.run([warcio, "check", str(warc)], check=True)
    with warc.open("rb") as stream:
        urls = [
            record.rec_headers.get_header("WARC-Target-URI")
            for record in ArchiveIterator(stream)
            if record.rec_type == "response"
        ]
    return sorted("/" + url.split("/", 3)[3] for url in urls)


def _seen(origin: Origin, host: str = "a.example") -> list[str]:
    return sorted(a.path for a in origin.arrivals(host) if a.path != "/robots.txt")


ALL = sorted(["/", *(f"/p{number}" for number in range(PAGES))])


def test_crawl_writes_every_page_and_leaves_nothing_running(
    tmp_path: Path, origin: Origin, launch: Run
) -> None:
    """One command crawls a host at its pace into a WARC file; only that file stays."""
    _link_pages(origin)
    command = _crawl(launch, tmp_path / "run", origin)
    assert command.end() == 0, command.err
    report = json.loads(command.out)
    assert (report["accepted"], report["done"], report["missing"]) == (len(ALL), len(ALL), 0)
    assert _pages(tmp_path / "run" / "pages.warc.gz") == ALL == _seen(origin)
    assert min(origin.gaps("a.example")) >= INTERVAL_S - SHORT_OF_IT_S
    assert not origin.arrivals("b.example")
    assert len(command.look()) > 5
    assert not command.left_running()
    assert not list(command.temporary.iterdir())


def test_max_pages_bounds_a_crawl_that_follows_other_hosts(
    tmp_path: Path, origin: Origin, launch: Run
) -> None:
    """--follow-hosts takes in the hosts that pages link to, --max-pages holds for all of them."""
    origin.set(
        "a.example", "/", Behaviour(body=f'<a href="{origin.url("b.example")}">b</a>'.encode())
    )
    links = "".join(f'<a href="/p{number}">page</a>' for number in range(PAGES))
    origin.set("b.example", "/", Behaviour(body=links.encode()))
    command = _crawl(launch, tmp_path / "run", origin, "--follow-hosts", "--max-pages", "5")
    assert command.end() == 0, command.err
    assert json.loads(command.out)["done"] == 5
    assert len(_seen(origin)) == 1
    assert len(_seen(origin, "b.example")) == 4


def test_a_stopped_crawl_goes_on_later_without_fetching_a_page_twice(
    tmp_path: Path, origin: Origin, launch: Run
) -> None:
    """Ctrl-C writes what is there; the same command goes on, and its output holds all pages."""
    _link_pages(origin)
    output = tmp_path / "run" / "pages.warc.gz"
    command = _crawl(launch, tmp_path / "run", origin, "--data-dir", "kept")
    wait_until(lambda: len(_seen(origin)) >= 3, "the crawl is under way", timeout_s=60)
    command.send(signal.SIGINT)
    assert command.end() == 130, command.err
    assert not command.left_running()
    fetched = _pages(output)
    assert 3 <= len(fetched) < len(ALL)
    assert fetched == _seen(origin)
    assert json.loads(command.out)["in_flight"] == 0

    command = _crawl(launch, tmp_path / "run", origin, "--data-dir", "kept")
    assert command.end() == 0, command.err
    assert not command.left_running()
    assert _pages(output) == ALL == _seen(origin)


def test_a_second_ctrl_c_ends_at_once_and_keeps_what_is_complete(
    tmp_path: Path, origin: Origin, launch: Run
) -> None:
    """Somebody in a hurry need not wait for a slow site, and loses no page that was complete."""
    _link_pages(origin)
    origin.set("a.example", "/p1", Behaviour(delay_s=600))
    command = _crawl(launch, tmp_path / "run", origin)
    wait_until(lambda: "/p1" in _seen(origin), "a slow page is open", timeout_s=60)
    command.send(signal.SIGINT)
    wait_until(lambda: "Ctrl-C again" in command.err, "the first Ctrl-C was heard")
    command.send(signal.SIGINT)
    assert command.end(timeout_s=8) == 130, command.err
    assert not command.left_running()
    assert not list(command.temporary.iterdir())
    assert _pages(tmp_path / "run" / "pages.warc.gz") == ["/", "/p0"]


def test_nothing_outlives_a_killed_crawl(tmp_path: Path, origin: Origin, launch: Run) -> None:
    """`kill -9` of the command takes its servers and workers with it."""
    _link_pages(origin)
    command = _crawl(launch, tmp_path / "run", origin)
    wait_until(lambda: _seen(origin), "the crawl is under way", timeout_s=60)
    command.send(signal.SIGKILL)
    assert command.end() == -signal.SIGKILL
    wait_until(lambda: not command.left_running(), "all its processes are gone", timeout_s=10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_outlives_a_crawl_stopped_while_it_starts(
    tmp_path: Path, origin: Origin, launch: Run, number: signal.Signals
) -> None:
    """A stop request, or a terminal that closes, is heard during the start of the servers too."""
    command = _crawl(launch, tmp_path / "run", origin)
    wait_until(lambda: "RabbitMQ" in command.err, "RabbitMQ is starting", timeout_s=30)
    wait_until(lambda: len(command.look()) >= 3, "its processes are there", timeout_s=30)
    command.send(number)
    assert command.end(timeout_s=20) == 130, command.err
    assert not command.left_running()
    assert not list(command.temporary.iterdir())


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (("ftp://a.example/",), {}, "not an http or https URL"),
        (("http://a.example/",), {"product": ""}, "--product and --contact"),
        (("http://a.example/", "--output", "hosts"), {}, "exists already"),
        (("http://a.example/", "--output", "no/such.warc.gz"), {}, "there is no folder"),
        (("http://a.example/", "--interval", "soon"), {}, "not a duration"),
        (("http://a.example/", "--interval", "0"), {}, "--interval must be above 0"),
        (("http://a.example/", "--burst", "0"), {}, "--burst must be at least 1"),
        (("http://a.example/", "--max-pages", "-1"), {}, "--max-pages must be at least 0"),
        (("http://a.example/", "--contact", "foo"), {}, "--contact takes a URL or an e-mail"),
        (("http://a.example/", "--product", "my bot"), {}, "--product takes one word of at most"),
        (("http://a.example/",), {"on_page": "no_such:function"}, "THROTTLE_ON_PAGE: cannot load"),
        (("http://a.example/",), {"on_page": "json:nothing"}, "has no attribute 'nothing'"),
        ((), {}, "Missing argument"),
    ],
)
def test_crawl_refuses_what_it_cannot_do_before_anything_starts(
    tmp_path: Path,
    launch: Run,
    arguments: tuple[str, ...],
    settings: dict[str, str],
    said: str,
) -> None:
    """A wrong argument is told at once, with exit code 2."""
    (tmp_path / "hosts").touch()
    given = {"product": "examplebot", "contact": "https://bot.example/", **settings}
    command = launch(tmp_path, "crawl", *arguments, **given)
    assert command.end(timeout_s=10) == 2
    assert said in command.err
    assert not command.look()


def test_a_crawl_whose_on_page_fails_says_so(tmp_path: Path, origin: Origin, launch: Run) -> None:
    """Exit code 1, the first reason, and where the logs are; not that nothing was fetched."""
    (tmp_path / "run").mkdir()
    code = "def page(page):\n    raise ValueError('as an example')\n"
    (tmp_path / "run" / "mine.py").write_text(code)
    command = _crawl(launch, tmp_path / "run", origin, on_page="mine:page", as_json=False)
    assert command.end() == 1, command.err
    reason = (
        f"on_page failed; the first reason: {origin.url('a.example')}: ValueError: as an example"
    )
    assert reason in command.out
    assert "nothing was fetched" not in command.out + command.err
    (line,) = [line for line in command.err.splitlines() if "the logs of its processes" in line]
    assert (Path(line.rpartition(" ")[2]) / "worker1.log").is_file()


def test_a_crawl_of_ones_own_machine_says_what_it_needs(
    tmp_path: Path, origin: Origin, launch: Run
) -> None:
    """Nothing comes out without THROTTLE_ALLOW_NETS: exit code 1, with the remedy."""
    command = _crawl(launch, tmp_path / "run", origin, allow_nets="", as_json=False)
    assert command.end() == 1, command.err
    assert "nothing came out; the first reason" in command.out
    assert "1 URL accepted" in command.out
    assert not origin.arrivals()


def test_a_crawl_ended_by_its_timeout_says_what_is_left(
    tmp_path: Path, origin: Origin, launch: Run
) -> None:
    """Per host the reason, and nothing of a Ctrl-C that nobody pressed."""
    _link_pages(origin)
    origin.set("a.example", "/robots.txt", Behaviour(body=b"User-agent: *\nCrawl-delay: 40"))
    command = _crawl(launch, tmp_path / "run", origin, "--timeout", "3s")
    assert command.end() == 1, command.err
    assert "--timeout 3s is over" in command.err
    assert "Ctrl-C" not in command.err
    (one,) = json.loads(command.out)["gave_up"]
    assert one["host"] == "a.example"
    assert "a.example: " in command.err


def test_a_data_directory_in_use_is_told_at_once(
    tmp_path: Path, origin: Origin, launch: Run
) -> None:
    """Exit code 2, and nothing of the other's crawl is written."""
    held = DirectoryLock(tmp_path / "run" / "kept")
    held.acquire()
    try:
        command = _crawl(launch, tmp_path / "run", origin, "--data-dir", "kept")
        assert command.end(timeout_s=20) == 2
    finally:
        held.release()
    assert "is in use by process" in command.err
    assert "writing the output" not in command.err
    assert not (tmp_path / "run" / "pages.warc.gz").exists()
