"""add-url: every URL gets its answer, whatever the file holds and however it ends."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.ctl import COUNTS, Ctl, ctl_command, json_lines
from tests.servers import wait_until
from throttle.frontier.bundle import Frontier


def test_urls_are_counted_by_answer(throttlectl: Ctl, frontier: Frontier) -> None:
    """What became of each URL is told, and adding again is safe."""
    urls = ("http://a.example/", "HTTP://A.Example:80/#x", "ftp://a.example/", "http://[::1")
    done = throttlectl("add-url", *urls)
    assert done.stdout == "added 1, seen 1, full 0, disallowed 0, invalid 2\n"
    assert "invalid: ftp://a.example/: not an http or https URL" in done.stderr
    again = throttlectl("add-url", *urls, "--json")
    *told, counts = json_lines(again.stdout)
    assert counts == {**COUNTS, "seen": 2, "invalid": 2}
    assert [(line["url"], line["answer"]) for line in told] == [
        ("http://a.example/", "seen"),
        ("http://a.example/", "seen"),
        ("ftp://a.example/", "invalid"),
        ("http://[::1", "invalid"),
    ]
    assert all(line["reason"] for line in told)
    assert throttlectl("add-url", "http://b.example/").returncode == 0
    frontier.book.store(
        "http://b.example", "ok", 600, version="1", body=b"User-agent: *\nDisallow: /x"
    )
    (line, counts) = json_lines(throttlectl("add-url", "http://b.example/x", "--json").stdout)
    assert (line["answer"], counts["disallowed"]) == ("disallowed", 1)
    full = throttlectl("add-url", "http://a.example/1", "--json", THROTTLE_HOST_DEPTH="1").stdout
    assert json_lines(full)[-1] == {**COUNTS, "full": 1}


def test_a_file_of_seeds_may_hold_anything(throttlectl: Ctl, tmp_path: Path) -> None:
    """Comments, blank lines, Windows line ends, a byte order mark, binary and endless lines."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_bytes(
        b"\xef\xbb\xbfhttp://a.example/1\r\n"
        b"# a comment\n\n   \n"
        b"  http://a.example/2  \n"
        b"http://a.example/\xff\xfe\n"
        b"http://b.example/\x1b[2J\n"
        b"$(touch x)\n"
        b"http://a.example/" + b"x" * 300_000 + b"\n"
        b"http://a.example/last"
    )
    for arguments in (("--file", str(seeds)), ("-",), ("--file", "-")):
        done = throttlectl("add-url", *arguments, "--json", stdin=seeds.read_bytes())
        *told, counts = json_lines(done.stdout)
        assert counts["added"] + counts["seen"] == 4
        assert counts["invalid"] == 3
        assert done.stdout.isascii()
        reasons = {line["reason"] for line in told if line["answer"] == "invalid"}
        assert {"not UTF-8 text", "longer than 8,192 characters"} <= reasons
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seeds.txt"]


def test_add_url_takes_its_urls_from_one_place(throttlectl: Ctl, tmp_path: Path) -> None:
    """Nothing, two sources, or a file that is not there is a usage error."""
    throttlectl("add-url", ends=2)
    throttlectl("add-url", "http://a.example/", "--file", "-", ends=2)
    throttlectl("add-url", "--file", str(tmp_path / "missing"), ends=2)
    throttlectl("add-url", "--file", str(tmp_path), ends=2)
    assert throttlectl("add-url", "-", stdin="").stdout.startswith("added 0")


# The peak of this process alone: what getrusage tells includes the process it was forked from.
_WITH_PEAK = """
import atexit, pathlib, sys
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: print(status.read_text().split("VmHWM:")[1].split()[0], file=sys.stderr))
from throttle.cli.main import main
main()
"""


def test_a_long_file_takes_no_more_memory_than_a_short_one(
    ctl_environment: dict[str, str], tmp_path: Path, frontier: Frontier
) -> None:
    """A hundred thousand lines, and one that has no end, cost a few megabytes, not the file."""

    def peak_kib(lines: int, last_line: int) -> int:
        seeds = tmp_path / f"{lines}.txt"
        rest = "x" * 100
        with seeds.open("w") as out:
            out.writelines(f"http://h{n % 50}.example/{n}/{rest}\n" for n in range(lines))
            out.write("x" * last_line)
        done = subprocess.run(
            [sys.executable, "-c", _WITH_PEAK, "add-url", "--file", str(seeds), "--json"],
            env=ctl_environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stderr.splitlines()[-1])

    short, long = peak_kib(2_000, 10), peak_kib(100_000, 20_000_000)
    assert frontier.census.totals().accepted == 100_000
    assert long - short < 4 * 1024


def test_ctrl_c_keeps_what_was_added(
    ctl_environment: dict[str, str], tmp_path: Path, frontier: Frontier
) -> None:
    """The counts up to then are printed, and Redis agrees with them."""
    with subprocess.Popen(
        ctl_command("add-url", "-"),
        env=ctl_environment,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        for n in range(2_500):
            child.stdin.write(f"http://a.example/{n}\n")
        child.stdin.flush()
        wait_until(lambda: frontier.census.totals().accepted >= 2_000, "two batches are added")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=10)
    assert child.returncode == 1
    assert out == "added 2,000, seen 0, full 0, disallowed 0, invalid 0\n"
    assert "interrupted" in err
    assert "Traceback" not in err
