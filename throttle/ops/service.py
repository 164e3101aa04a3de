"""The whole service on this machine: private servers, beat, dispatcher and workers as children."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from throttle.errors import LocalServerError, ServerUnreachable
from throttle.frontier.bundle import Frontier
from throttle.local.child import Child, last_lines
from throttle.local.directory import DirectoryLock
from throttle.local.servers import PrivateRabbit, PrivateRedis
from throttle.local.supervisor import Supervisor
from throttle.settings import PREFIX, Settings

_ROOT = Path(__file__).parents[2]
_LOGS = {"issuer": "beat", "dispatcher": "dispatcher", "worker": "worker1"}
_READY_S = 60.0
_FRESH_S = 3.0
_POLL_S = 0.05
_CELERY = (sys.executable, "-m", "celery", "-A", "throttle")


class Service:
    """Private RabbitMQ and Redis in `directory`, and the processes of a crawl; logs in `logs`.

    The children get exactly these `settings` (with the private servers' URLs), whatever
    `environ` and `throttle.toml` say; the rest of `environ`, proxies for example, is handed on.
    They end with this process, however it ends.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        *,
        workers: int = 1,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.logs = self.directory / "logs"
        self._given = settings
        self._workers = workers
        self._environ = environ
        self._lock = DirectoryLock(self.directory)
        self._redis = PrivateRedis(self.directory / "redis")
        self._rabbit = PrivateRabbit(self.directory / "rabbit")
        self._supervisor = Supervisor(self.logs)
        self._dispatcher: Child | None = None
        self._restarting = True

    @cached_property
    def settings(self) -> Settings:
        """The settings in force, with the private servers' URLs; known once it is started."""
        urls = {"broker_url": self._rabbit.url, "redis_url": self._redis.url}
        return self._given.model_copy(update=urls)

    @cached_property
    def frontier(self) -> Frontier:
        """The frontier of this service."""
        return Frontier(self.settings)

    def start(self, tell: Callable[[str], None]) -> None:
        """Start everything, `tell` what is under way, and return when all of it works.

        Raises `LocalServerError` with the last log lines of what did not start; nothing is left
        running then.
        """
        self._lock.acquire()
        try:
            tell("starting Redis")
            self._supervisor.adopt(self._redis)
            tell("starting RabbitMQ")
            self._supervisor.adopt(self._rabbit)
            tell("starting beat, dispatcher and " + _count(self._workers, "worker"))
            self.frontier.hosts.publish_defaults(replace=True)
            for child in self._children():
                self._supervisor.adopt(child)
            self._await_pulses()
        except BaseException:
            self.stop(timeout_s=0)
            raise

    def check(self) -> list[str]:
        """Start those that died again; returns their names.

        Raises `LocalServerError` with the last log lines of one that dies too often.
        """
        return self._supervisor.check() if self._restarting else []

    def stop_dispatching(self, timeout_s: float = 10.0) -> None:
        """Let nothing new start from now on; what is under way may finish. Ends `check` too."""
        self._restarting = False
        if self._dispatcher is not None:
            self._dispatcher.stop(timeout_s)

    def stop(self, timeout_s: float = 20.0) -> None:
        """End all, the servers last; each by SIGKILL when it still runs after `timeout_s`."""
        self._restarting = False
        if "frontier" in self.__dict__:
            self.frontier.scripts.client.close()
        self._supervisor.stop(timeout_s)
        # An interrupted start leaves a server that is not adopted yet; a second stop is harmless.
        self._rabbit.stop(timeout_s)
        self._redis.stop(timeout_s)
        self._lock.release()

    def _children(self) -> Iterator[Child]:
        environment = {**without_settings(self._environ), **as_environment(self.settings)}
        dispatch = (sys.executable, "-m", "throttle.cli.main", "dispatch")
        beat = (*_CELERY, "beat", "--loglevel", "INFO")
        worker = (*_CELERY, "worker", "--loglevel", "WARNING", "--without-gossip")
        commands = {"beat": beat, "dispatcher": dispatch}
        for number in range(1, self._workers + 1):
            commands[f"worker{number}"] = (*worker, "--hostname", f"worker{number}@%h")
        for name, argv in commands.items():
            child = Child(name, argv, log=self.logs / f"{name}.log", env=environment)
            if name == "dispatcher":
                self._dispatcher = child
            yield child

    def _await_pulses(self) -> None:
        end_s = time.monotonic() + _READY_S
        missing = list(_LOGS)
        while missing:
            if time.monotonic() > end_s:
                raise LocalServerError(self._silence(missing))
            self._supervisor.check()
            time.sleep(_POLL_S)
            with suppress(ServerUnreachable):
                ages = self.frontier.census.ages()
                missing = [role for role in _LOGS if ages.get(role, _FRESH_S) >= _FRESH_S]

    def _silence(self, roles: list[str]) -> str:
        logs = (self.logs / f"{_LOGS[role]}.log" for role in roles)
        said = "\n".join(f"{log}:\n{last_lines(log)}" for log in logs)
        return f"no sign of life from {', '.join(roles)} after {_READY_S:g} s; {said}"


def as_environment(settings: Settings) -> dict[str, str]:
    """The variables that give another process exactly these settings."""
    variables = {
        PREFIX + name.upper(): _as_text(value) for name, value in settings.model_dump().items()
    }
    # An empty variable counts as not set, and then a throttle.toml would be asked.
    return {**variables, PREFIX + "CONFIG": os.devnull}


def for_another_process(settings: Settings) -> dict[str, str]:
    """The variables that one more process on this machine needs: what is not the default.

    The servers and who crawls are always among them; paths are whole, for any folder.
    """
    fields = type(settings).model_fields
    always = ("redis_url", "broker_url", "product", "contact")
    given = {n: v for n, v in settings.model_dump().items() if v != fields[n].default}
    wanted = {name: getattr(settings, name) for name in always} | given
    for name in {"hosts_file", "archive"} & wanted.keys():
        wanted[name] = str(Path(wanted[name]).absolute())
    return {PREFIX + name.upper(): _as_text(value) for name, value in wanted.items()}


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without our variables, for a child that finds this package."""
    kept = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
    path = kept.get("PYTHONPATH")
    kept["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)
    return kept


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12f}".rstrip("0").rstrip(".")
    if isinstance(value, tuple):
        return " ".join(value)
    return str(value)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
