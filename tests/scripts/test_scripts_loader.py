"""Running the verbs: loading, healing, one sending only, and words that agree on both sides."""

import re
import threading
from collections.abc import Callable, Iterator
from importlib.resources import files

import pytest
import redis

from tests.scripts.frontier import Rig, a_case
from throttle.errors import FrontierError, ServerUnreachable
from throttle.frontier.generations import Generations
from throttle.frontier.intake import WORDS
from throttle.frontier.scripts import Call, Scripts, connect, source
from throttle.frontier.startgate import Reply
from throttle.local.servers import PrivateRedis
from throttle.model import Candidate, End, Entry, GrantKind, HostPolicy, Verdict

LUA = files("throttle.frontier") / "lua"
VERBS = sorted(
    path.name.removesuffix(".lua") for path in LUA.iterdir() if path.name.endswith(".lua")
)
PARTS = sorted(path.name.removesuffix(".lua") for path in (LUA / "parts").iterdir())


def head(verb: str) -> str:
    """The comment that a verb begins with."""
    lines = (LUA / f"{verb}.lua").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines[: lines.index("--@include clock")])


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The verbs that were called in this test."""
    verbs: set[str] = set()
    run_many = Scripts.run_many

    def noted(self: Scripts, calls: list[Call]) -> list[object]:
        verbs.update(call.verb for call in calls)
        return run_many(self, calls)

    monkeypatch.setattr(Scripts, "run_many", noted)
    return verbs


def everything(rig: Rig) -> None:
    """Goes once through every method that calls a verb."""
    rig.hosts.set_policy("a.example", HostPolicy(0.001, 2, 2))
    rig.seed("http://a.example/0", "http://a.example/1")
    started = rig.go(rig.claim_one())
    rig.gate.bury("nobody", "a.example", worker="worker")
    assert rig.gate.sent(started, started.now_s)
    rig.finish(started, wire_s=started.now_s)
    rig.refill.postpone(rig.owned_to_issue[0], ["a.example"], 1.0, "reason")
    rig.issue("a.example")
    rig.open_clock("a.example")
    rig.claims.release([(rig.claim_one(), True)])
    rig.claims.recover(rig.owned, own_too=True)
    rig.expire()
    rig.book.chase(Entry("http://b.example/robots.txt", hops=1, origin="http://a.example"))
    rig.hosts.show(["a.example"])
    rig.hosts.remove("a.example")
    rig.census.pulse("worker")
    rig.audited()
    the_pace(rig)
    rig.dispatching.leave()
    rig.intake.add([Candidate(f"http://many.example/{number}") for number in range(200)])


def a_new_generation(rig: Rig) -> None:
    """Begins anew with one host."""
    rig.client.flushall()
    rig.hosts.publish_defaults(replace=True)
    rig.add("http://a.example/")
    generations = Generations(rig.scripts, rig.keys)
    generations.begin(
        rig.census.totals(), "now", rig.hosts.keys(), keep_policies=False, between=lambda: None
    )


def the_pace(rig: Rig) -> None:
    """Goes once through what changes a pace, a case and a dead URL."""
    rig.hosts.set_policy("c.example", HostPolicy(0.001))
    rig.seed("http://c.example/")
    (grant,) = [grant for grant in rig.claim() if grant.key == "c.example"]
    change = rig.change("c.example", block_s=1, refused_us=True, case=a_case(host="c.example"))
    assert rig.answer(rig.go(grant), End.DEAD, change=change).closed
    rig.hosts.block("c.example", for_s=2)
    rig.hosts.unblock("c.example")
    rig.hosts.refresh_robots("c.example")
    rig.cases.close("c.example", "refused", who="me", why="", closed_at="now", resume=True)
    assert rig.ends.retry_dead(["c.example"]) == 1


def test_every_verb_is_called_from_python(called: set[str], rigs: Callable[..., Rig]) -> None:
    """No script lies in the folder that nobody uses, and every method finds its script."""
    everything(rigs(max_pages=100))
    a_new_generation(rigs())
    assert sorted(called) == VERBS


def test_every_part_is_included_somewhere() -> None:
    """A shared part that nobody shares is none."""
    included = {
        name
        for verb in VERBS
        for name in re.findall(
            r"^--@include (\w+)$", (LUA / f"{verb}.lua").read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert sorted(included) == PARTS


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_whole_and_small_in_keys(rig: Rig, verb: str) -> None:
    """Each script compiles with its parts put in, and is given six keys at most."""
    text = source(verb)
    assert "--@include" not in text
    assert rig.client.script_load(text)
    assert not re.search(r"KEYS\[[7-9]\]", text)


def words(text: str) -> set[str]:
    """The reply words in a script: what stands alone in quotes in a returned table or text."""
    return set(re.findall(r"return \{'(\w+)'", text))


def test_the_gate_says_the_same_words_in_both_languages() -> None:
    """A reply that Lua gives is one that Python knows, and the head of the script names it."""
    assert words(source("start")) == {reply.value for reply in Reply}
    assert set(re.findall(r"\{'(\w+)'", head("start"))) == {reply.value for reply in Reply}


def test_add_answers_with_the_words_that_python_knows() -> None:
    """What add answers per URL stands in its head, and each word means a verdict."""
    named = re.search(r"^-- Reply .*: (.*)$", head("add"), re.MULTILINE)
    assert named
    told = set(named[1].split(" | "))
    assert told == set(re.findall(r"return '(\w+)'\n", source("add"))) == WORDS.keys()
    assert WORDS["added"][0] is Verdict.ADDED


def test_finish_takes_the_ends_of_the_model() -> None:
    """Every end that Python may say stands in the head of finish."""
    told = re.search(r"5 end: ([\w |]+)", head("finish"))
    assert told
    assert set(re.findall(r"\w+", told[1])) == {end.value for end in End}


def test_finish_answers_what_its_caller_knows() -> None:
    """The three words of finish stand in its head."""
    assert words(source("finish")) == {"finished", "stale", "conflict"}
    assert set(re.findall(r"\{'(\w+)'", head("finish"))) == {"finished", "stale", "conflict"}


def test_claim_makes_the_kinds_of_the_model() -> None:
    """What a grant is for has one name on both sides."""
    assert set(re.findall(r"return '(\w+)', ", source("claim"))) == {k.value for k in GrantKind}


def test_remove_answers_what_its_caller_knows() -> None:
    """The three words of remove stand in its head."""
    assert words(source("remove")) == {"removed", "busy", "unknown"}
    assert set(re.findall(r"\{'(\w+)'", head("remove"))) == {"removed", "busy", "unknown"}


@pytest.mark.parametrize("verb", ["claim", "expire", "due"])
def test_a_fenced_verb_says_so_in_its_head(verb: str) -> None:
    """Whoever lost the lease reads `fenced`, everyone else `ok`."""
    assert words(source(verb)) == {"fenced", "ok"}
    assert set(re.findall(r"\{'(\w+)'", head(verb))) == {"fenced", "ok"}


def test_a_flushed_script_cache_heals(rigs: Callable[..., Rig]) -> None:
    """After SCRIPT FLUSH, or on a fresh replica, each verb is loaded again by its next call."""
    rig = rigs(partitions=4)
    urls = [f"http://h{number}.example/" for number in range(40)]
    rig.client.script_flush()
    assert rig.add(*urls) == [Verdict.ADDED] * 40
    rig.client.script_flush()
    assert len(rig.issue()) == 40
    assert rig.audited().accepted == 40


def test_a_restarted_redis_heals(own_redis: PrivateRedis, rigs: Callable[..., Rig]) -> None:
    """While Redis is down every call says so; afterwards the same object works, with its data."""
    rig = rigs(own_redis.url)
    rig.add("http://a.example/")
    own_redis.stop()
    with pytest.raises(ServerUnreachable, match="THROTTLE_REDIS_URL"):
        rig.add("http://a.example/")
    with pytest.raises(ServerUnreachable):
        rig.census.totals()
    own_redis.restart()
    assert rig.add("http://a.example/") == [Verdict.SEEN]


@pytest.fixture
def frozen(rigs: Callable[..., Rig]) -> Iterator[tuple[Rig, redis.Redis]]:
    """A frontier that waits 0.2 s for Redis, and a client that froze it for 0.7 s."""
    rig = rigs(timeout_s=0.2)
    rig.census.pulse("worker")
    rig.census.ages()
    with redis.Redis.from_url(_url(rig)) as operator:
        operator.config_resetstat()
        operator.client_pause(700, all=True)
        yield rig, operator


def test_a_frozen_redis_is_unreachable_and_asked_once(frozen: tuple[Rig, redis.Redis]) -> None:
    """No answer in time is an error, not a second sending: the caller decides what to do."""
    rig, operator = frozen

    with pytest.raises(ServerUnreachable, match="budget"):
        rig.scripts.run("budget", ["test:count"], [1, 100])

    # A second sending needs a second connection: the first is closed, its answer may still come.
    assert operator.info("stats")["total_connections_received"] == 0
    assert int(operator.get("test:count") or 0) <= 1
    assert rig.scripts.run("budget", ["test:other"], [1, 100]) == 1


def test_a_frozen_redis_is_not_read_twice(frozen: tuple[Rig, redis.Redis]) -> None:
    """Plain reads, too, are sent once and fail within their time."""
    rig, operator = frozen
    with pytest.raises(ServerUnreachable):
        rig.census.ages()
    assert operator.info("stats")["total_connections_received"] == 0
    assert rig.census.ages().keys() == {"worker"}


def test_a_cut_connection_is_not_used_again(rig: Rig) -> None:
    """A call whose connection breaks fails and is not sent again; the next one has a new one."""
    rig.census.pulse("worker")
    with redis.Redis.from_url(_url(rig)) as operator:
        operator.client_pause(300, all=False)
        waiting = threading.Timer(0.05, _kill_others, [operator])
        waiting.start()
        with pytest.raises(ServerUnreachable):
            rig.scripts.run("budget", ["test:count"], [1, 100])
        waiting.join()
        assert operator.get("test:count") is None
    assert rig.scripts.run("budget", ["test:count"], [1, 100]) == 1


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    """The error tells where nothing answered and which setting to look at, and no secret."""
    scripts = connect("redis://:secret-word@127.0.0.1:1/0", timeout_s=1)
    with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1") as caught:
        scripts.run("pulse", ["key"], ["worker"])
    assert "secret-word" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_refused_call_names_its_verb(rig: Rig) -> None:
    """A wrong type deep in Redis is a FrontierError, never a redis exception."""
    rig.client.set(rig.keys.shared("pulse"), "damaged")
    with pytest.raises(FrontierError, match="refused pulse"):
        rig.census.pulse("worker")
    with pytest.raises(FrontierError, match="refused"):
        rig.census.ages()


def test_no_calls_need_no_server() -> None:
    """An empty batch is answered without a round trip."""
    assert connect("redis://127.0.0.1:1/0").run_many([]) == []


def _kill_others(operator: redis.Redis) -> None:
    own = operator.client_id()
    for client in operator.client_list():
        if int(client["id"]) != own:
            operator.client_kill_filter(_id=client["id"])


def _url(rig: Rig) -> str:
    where = rig.client.connection_pool.connection_kwargs
    return f"redis://{where['host']}:{where['port']}/{where['db']}"
