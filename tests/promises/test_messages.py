"""Messages are no trust boundary: whatever lies in the crawl queue, the crawl goes on."""

import json
import signal
import time
from collections import Counter
from collections.abc import Callable

import pika

from tests.crew import Crew
from tests.promises.test_gap import TOLERANCE_S
from tests.servers import wait_until
from throttle.local.origin import Behaviour
from throttle.local.servers import PrivateRabbit

TASK = {"task": "throttle.fetch", "id": "x", "lang": "py"}
FORGED = {"grant": "nobody", "key": "a.example", "url": "http://a.example/", "kind": "page"}
OPTIONS: dict[str, object] = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}

FOREIGN = {
    "a number": (TASK, "application/json", "5"),
    "an object": (TASK, "application/json", "{}"),
    "null": (TASK, "application/json", "null"),
    "no JSON": (TASK, "application/json", "{{{"),
    "two parts": (TASK, "application/json", "[[], {}]"),
    "no arguments": (TASK, "application/json", json.dumps([[], {}, OPTIONS])),
    "a number as key": (TASK, "application/json", json.dumps([[], {**FORGED, "key": 5}, OPTIONS])),
    "unknown task": ({**TASK, "task": "os.system"}, "application/json", json.dumps([[], {}, {}])),
    "no id": ({"task": "throttle.fetch"}, "application/json", json.dumps([[], FORGED, OPTIONS])),
    "a list as id": ({**TASK, "id": ["x"]}, "application/json", json.dumps([[], FORGED, OPTIONS])),
    "an id of two lines": (
        {**TASK, "id": "x\n\x1b[31m"},
        "application/json",
        json.dumps([[], FORGED, OPTIONS]),
    ),
    "a number as timelimit": (
        {**TASK, "timelimit": 5},
        "application/json",
        json.dumps([[], FORGED, OPTIONS]),
    ),
    "in a year": (
        {**TASK, "eta": "9999-01-01T00:00:00"},
        "application/json",
        json.dumps([[], FORGED, OPTIONS]),
    ),
    "Celery's own task": (
        {**TASK, "task": "celery.map"},
        "application/json",
        json.dumps([[], {}, OPTIONS]),
    ),
    "packed by nobody": (
        {**TASK, "compression": "bogus"},
        "application/json",
        json.dumps([[], FORGED, OPTIONS]),
    ),
    "no headers": (None, "application/json", "[]"),
    "pickle": (TASK, "application/x-python-serialize", "cos\nsystem\n(S'exit 1'\ntR."),
    "yaml": (TASK, "application/x-yaml", "!!python/object/apply:os.abort []"),
}


def test_what_no_task_could_take_goes_to_the_dead_letters(
    crew: Callable[..., Crew], broker_url: str
) -> None:
    """Broken, foreign and hostile messages stop no worker; they lie in `crawl.dead`."""
    made = crew("a.example", interval="50ms")
    made.start_all(workers=1)
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    channel = connection.channel()
    for headers, content_type, body in FOREIGN.values():
        properties = pika.BasicProperties(
            headers=headers, content_type=content_type, content_encoding="utf-8"
        )
        channel.basic_publish("", "crawl", body.encode(), properties)
    made.add("a.example", 10)

    assert made.drained(timeout_s=30).done == 10
    wait_until(
        lambda: (
            channel.queue_declare("crawl.dead", passive=True).method.message_count == len(FOREIGN)
        ),
        "all foreign messages are dead letters",
    )
    connection.close()
    assert made.processes["worker0"].poll() is None


def test_a_forged_message_changes_nothing(crew: Callable[..., Crew], broker_url: str) -> None:
    """A grant nobody made, or made for another host, lets nothing be fetched and loses nothing."""
    made = crew("a.example", "b.example", interval="50ms")
    made.start_all(workers=1)
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    url = made.origin.url("b.example", "/never")
    body = json.dumps([[], {**FORGED, "url": url, "key": "b.example"}, OPTIONS])
    properties = pika.BasicProperties(
        headers=TASK, content_type="application/json", content_encoding="utf-8"
    )
    for _ in range(20):
        connection.channel().basic_publish("", "crawl", body.encode(), properties)
    connection.close()
    made.add("a.example", 10)

    assert made.drained(timeout_s=30).done == 10
    assert made.origin.arrivals("b.example") == []


def test_a_cut_connection_makes_nobody_fetch_twice(
    crew: Callable[..., Crew], rabbit_server: PrivateRabbit
) -> None:
    """Workers cut off in mid-fetch are not dead: their redelivered messages start nothing."""
    hosts = [f"h{number}.example" for number in range(6)]
    made = crew(*hosts, interval="300ms")
    made.origin.set("*", "*", Behaviour(delay_s=1.5))
    made.start_all(workers=2)
    for host in hosts:
        made.add(host, 4)
    wait_until(lambda: len(made.origin.arrivals()) > len(hosts) + 3, "fetches are open", 20)

    rabbit_server.ctl("close_all_connections", "the test cuts them")
    totals = made.drained(timeout_s=60)

    assert totals.done == 24
    seen = Counter((a.host, a.path) for a in made.origin.arrivals())
    assert set(seen.values()) == {1}
    for host in hosts:
        assert made.origin.max_open(host) == 1
        assert min(made.origin.gaps(host)) >= 0.3 - TOLERANCE_S


def test_a_stopped_worker_that_was_cut_off_keeps_its_hosts(
    crew: Callable[..., Crew], rabbit_server: PrivateRabbit
) -> None:
    """SIGSTOP in mid-fetch and a cut connection: nobody else goes to the host meanwhile."""
    made = crew("a.example", interval="300ms", worker_threads="1")
    made.origin.set("a.example", "/0", Behaviour(delay_s=2.0))
    made.start_all(workers=2)
    made.add("a.example", 6)
    wait_until(lambda: any(a.path == "/0" for a in made.origin.arrivals()), "the fetch is open", 20)
    holder = "worker0" if "received" in made.log("worker0").split("ready.")[-1] else "worker1"

    made.signal(holder, signal.SIGSTOP)
    rabbit_server.ctl("close_all_connections", "the test cuts them")
    time.sleep(8.0)  # time itself is under test: longer than any sign of life is waited for
    during = [a.path for a in made.origin.arrivals()]
    made.signal(holder, signal.SIGCONT)
    totals = made.drained(timeout_s=90)

    assert during == ["/robots.txt", "/0"]
    assert totals.done == 6
    assert made.origin.max_open("a.example") == 1
    assert min(made.origin.gaps("a.example")) >= 0.3 - TOLERANCE_S


def test_user_code_that_gives_back_nonsense_ends_its_page_only(
    crew: Callable[..., Crew],
) -> None:
    """None, links that are no text, records that are not JSON and exits: dead, with the reason."""
    made = crew("a.example", interval="50ms", on_page="nonsense:on_page")
    (made.directory / "nonsense.py").write_text(
        "from throttle.crawl.page import Found\n\n\ndef on_page(page):\n"
        "    number = page.url[-1]\n"
        "    if number == '4':\n        raise SystemExit(3)\n"
        "    return {'0': None, '1': Found(links=[None]), '2': Found(records=[{1, 2}]),\n"
        "            '3': Found(records=[object()])}.get(number, Found(links=['next']))\n"
    )
    made.add("a.example", 6)
    made.start_all(workers=1)

    totals = made.drained(timeout_s=30)

    assert (totals.dead, totals.done) == (5, 2)
    assert totals.outcomes["on_page failed"] == 5
    assert "/next" in {a.path for a in made.origin.arrivals()}
