"""throttlectl as an operator meets it: how commands report, refuse and end."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
import redis

from tests.integration.ctl import COUNTS, Ctl, ctl_command, ctl_json, json_lines
from throttle.frontier.bundle import Frontier
from throttle.model import Candidate


@pytest.mark.parametrize(
    "name", ["$(touch x)", "`touch x`", ";touch x", "-rf", "--help", "../../etc", "a\nb", "", "*"]
)
def test_a_name_that_is_no_host_is_only_refused(
    throttlectl: Ctl, name: str, tmp_path: Path
) -> None:
    """No shell, no path and no option is made of what is typed as a host or a URL."""
    throttlectl("add-host", "--", name, ends=2)
    done = throttlectl("add-url", "--json", "--", name, ends=1)
    *_, counts = json_lines(done.stdout)
    assert counts == {**COUNTS, "invalid": 1}
    assert not list(tmp_path.iterdir())


def test_status_counts_and_says_who_is_alive(throttlectl: Ctl, frontier: Frontier) -> None:
    """Every field that the manual names is there, in JSON and for people."""
    empty = ctl_json(throttlectl, "status")
    promised = {"accepted", "waiting", "delayed", "in_flight", "done", "refused", "dead", "hosts"}
    assert promised | {"last_issue_age", "last_dispatch_age", "full", "outcomes"} <= set(empty)
    assert (empty["accepted"], empty["last_issue_age"]) == (0, None)
    frontier.intake.add([Candidate(f"http://a.example/{n}") for n in range(3)])
    frontier.census.pulse("issuer")
    now = ctl_json(throttlectl, "status")
    assert (now["accepted"], now["waiting"], now["hosts"]) == (3, 3, 1)
    assert 0 <= now["last_issue_age"] < 10
    text = throttlectl("status").stdout
    assert "never" in text
    assert "ago" in text


def test_watching_ends_with_ctrl_c(ctl_environment: dict[str, str], tmp_path: Path) -> None:
    """Watching goes on until it is told, and that is a good end."""
    with subprocess.Popen(
        ctl_command("status", "--watch", "--every", "10ms", "--json"),
        env={**ctl_environment, "PYTHONUNBUFFERED": "1"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert all(json.loads(child.stdout.readline())["hosts"] == 0 for _ in range(3))
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=10)
    assert child.returncode == 0


def test_the_audit_fails_when_a_url_is_missing(
    throttlectl: Ctl, frontier: Frontier, redis_url: str
) -> None:
    """A URL that lies nowhere is seen, said and an exit code."""
    frontier.intake.add([Candidate(f"http://a.example/{n}") for n in range(3)])
    good = throttlectl("audit").stdout
    assert good == (
        "3 accepted = 0 done + 0 refused + 0 dead + 3 waiting + 0 delayed + 0 in flight\n"
    )
    with redis.Redis.from_url(redis_url) as client:
        (lane,) = [name for name in client.scan_iter() if name.endswith(b":urls:http://a.example")]
        client.lpop(lane)
    bad = ctl_json(throttlectl, "audit", ends=1)
    assert (bad["missing"], bad["holds"]) == (1, False)
    assert any("a.example waiting: counter 3, counted 2" in fault for fault in bad["faults"])
    assert "missing: 1" in throttlectl("audit", ends=1).stdout


def test_a_server_that_is_not_there_is_exit_3_and_no_password_is_shown(throttlectl: Ctl) -> None:
    """The message names the server, what to look at, and not the secret."""
    closed = "redis://operator:opensesame@127.0.0.1:1/0"
    for arguments in (
        ("status",),
        ("audit",),
        ("list-hosts",),
        ("add-host", "a.example"),
        ("show-host", "a.example"),
        ("add-url", "http://a.example/"),
    ):
        done = throttlectl(*arguments, ends=3, THROTTLE_REDIS_URL=closed)
        last = done.stderr.splitlines()[-1]
        assert last.startswith("throttlectl: Redis at 127.0.0.1:1 does not answer")
        assert "THROTTLE_REDIS_URL" in last
        assert "opensesame" not in done.stdout + done.stderr


def test_other_partitions_than_the_namespace_has_are_refused(throttlectl: Ctl) -> None:
    """A shell with another setting does not look for hosts where they are not."""
    throttlectl("add-host", "a.example")
    error = throttlectl("list-hosts", ends=1, THROTTLE_PARTITIONS="4").stderr
    assert "set THROTTLE_PARTITIONS=16" in error


def test_a_setting_that_cannot_be_used_is_a_usage_error(throttlectl: Ctl, tmp_path: Path) -> None:
    """The message names the setting; --config names another file."""
    assert "THROTTLE_INTERVAL" in throttlectl("status", ends=2, THROTTLE_INTERVAL="soon").stderr
    other = tmp_path / "other.toml"
    other.write_text('interval = "5s"\n')
    assert (
        "every 5s (default)" in throttlectl("--config", str(other), "add-host", "a.example").stdout
    )
    throttlectl("--config", str(tmp_path / "missing.toml"), "status", ends=2)


def test_an_unknown_command_names_the_nearest(throttlectl: Ctl) -> None:
    """A typing error costs a second."""
    assert (
        "no such command: add-hots; did you mean add-host?"
        in throttlectl("add-hots", ends=2).stderr
    )
    assert "no such command: zzz" in throttlectl("zzz", ends=2).stderr
    assert "Usage" in throttlectl("--help").stdout
    assert throttlectl("--version").stdout.startswith("throttlectl ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion_script(throttlectl: Ctl, shell: str) -> None:
    """The script asks throttlectl for its commands."""
    assert "_THROTTLECTL_COMPLETE" in throttlectl("completion", shell).stdout
    asked = {
        "_THROTTLECTL_COMPLETE": "fish_complete",
        "COMP_WORDS": "throttlectl",
        "COMP_CWORD": "add",
    }
    assert "add-host" in throttlectl(**asked).stdout
