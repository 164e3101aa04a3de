"""A private RabbitMQ and a private Redis: child processes on free loopback ports, without root."""

import secrets
import subprocess
import time
from pathlib import Path

from throttle.errors import LocalServerError
from throttle.local.child import Child
from throttle.local.directory import LOOPBACK
from throttle.local.private_server import (
    POLL_S,
    READY_S,
    PrivateServer,
    clean_environment,
    exchange,
    find_program,
    listens,
)

_RABBIT_SCRIPTS = (
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "/usr/local/sbin/rabbitmq-server",
    "/opt/homebrew/sbin/rabbitmq-server",
)
_NODE = "throttle@localhost"
_ON_LOOPBACK = "-kernel inet_dist_use_interface {127,0,0,1}"
# Two schedulers that do not spin while idle: this server shares the machine with the crawl.
_ERL_ARGS = f"+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none {_ON_LOOPBACK}"
_CTL_TIMEOUT_S = 60.0


class PrivateRedis(PrivateServer):
    """A Redis that never evicts, and keeps its data in an append-only file if `persistent`.

    `REDIS_SERVER` in the environment names another server program.
    """

    name = "Redis"

    def __init__(self, directory: Path, *, persistent: bool = True) -> None:
        super().__init__(directory)
        self._persistent = persistent

    @property
    def url(self) -> str:
        """Its address with database 0."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def _program(self) -> Path:
        return find_program(self.name, "REDIS_SERVER", ("redis-server", "valkey-server"))

    def _make_child(self, program: Path) -> Child:
        options = {
            "port": str(self.port),
            "bind": LOOPBACK,
            "protected-mode": "yes",
            "daemonize": "no",
            "dir": str(self.directory),
            "appendonly": "yes" if self._persistent else "no",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        argv = [str(program)]
        for name, value in options.items():
            argv += [f"--{name}", value]
        return Child(
            self.name,
            argv,
            log=self.directory / "redis.log",
            env=clean_environment(),
            fds=(self._lock.fd,),
        )

    def _answers(self) -> bool:
        return exchange(self.port, b"PING\r\n").startswith(b"+PONG")


class PrivateRabbit(PrivateServer):
    """A RabbitMQ node with its own name server (epmd), cookie, configuration and user `guest`.

    `RABBITMQ_SERVER` in the environment names another server script; its `rabbitmqctl` must lie
    beside it.
    """

    name = "RabbitMQ"
    _port_names = ("port", "distribution", "epmd", "ctl")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._epmd: Child | None = None

    @property
    def url(self) -> str:
        """Its address with the virtual host `/`, written so that every client reads it alike."""
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}/%2F"

    def ctl(self, *arguments: str) -> str:
        """What `rabbitmqctl` with these arguments prints about this node (about a second).

        Raises `LocalServerError` with its output when it fails.
        """
        program = self._program().resolve().with_name("rabbitmqctl")
        try:
            done = subprocess.run(
                [str(program), *arguments],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_CTL_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LocalServerError(f"rabbitmqctl {arguments[0]}: {error}") from error
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()
            raise LocalServerError(f"rabbitmqctl {arguments[0]} failed: {said}")
        return done.stdout

    def stop(self, timeout_s: float = 30.0) -> None:
        """End the node in order, then its name server."""
        if self._child is not None:
            self._child.stop(timeout_s)
        # After the node, which would start another one for itself.
        if self._epmd is not None:
            self._epmd.stop()
        super().stop(timeout_s)

    def _program(self) -> Path:
        # Not the one on the PATH: on Debian that is a wrapper which insists on the system's user.
        return find_program(self.name, "RABBITMQ_SERVER", _RABBIT_SCRIPTS)

    def _make_child(self, program: Path) -> Child:
        self._write_files()
        self._start_epmd()
        return Child(
            self.name,
            [str(program)],
            log=self.directory / "rabbit.log",
            env=self._environment(),
            fds=(self._lock.fd,),
        )

    def _answers(self) -> bool:
        # A method frame (octet 1) in answer to the protocol header is Connection.Start: the node
        # opens its listeners last of all (AMQP 0-9-1, section 4.2.2).
        return exchange(self.port, b"AMQP\x00\x00\x09\x01").startswith(b"\x01")

    def _start_epmd(self) -> None:
        if self._epmd is None:
            program = find_program("epmd (part of Erlang)", "EPMD", ("epmd",))
            port = str(self._ports["epmd"])
            self._epmd = Child(
                "epmd",
                [str(program), "-port", port, "-address", LOOPBACK],
                log=self.directory / "epmd.log",
                env=clean_environment(),
            )
        self._epmd.start()
        end_s = time.monotonic() + READY_S
        # The node would start a second one, not ours to stop, if it were there first.
        while not listens(self._ports["epmd"]):
            if not self._epmd.alive() or time.monotonic() > end_s:
                raise LocalServerError(
                    "epmd, the name server of RabbitMQ, did not start:\n" + self._epmd.last_lines()
                )
            time.sleep(POLL_S)

    def _write_files(self) -> None:
        home = self.directory / "home"
        home.mkdir(exist_ok=True, mode=0o700)
        cookie = home / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(secrets.token_hex(20), encoding="ascii")
            cookie.chmod(0o400)
        for name in ("enabled_plugins", "advanced.config"):
            (self.directory / name).write_text("[].\n", encoding="ascii")
        (self.directory / "rabbitmq-env.conf").write_text("", encoding="ascii")
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {LOOPBACK}:{self.port}\n"
            "num_acceptors.tcp = 2\n"
            "vm_memory_high_watermark.absolute = 2GB\n"
            "disk_free_limit.absolute = 20MB\n"
            "log.connection.level = warning\n",
            encoding="ascii",
        )

    def _environment(self) -> dict[str, str]:
        if not self._ports:
            raise LocalServerError("RabbitMQ has no port yet; start it first")
        at = self.directory
        return {
            **clean_environment(),
            "HOME": str(at / "home"),
            "ERL_EPMD_PORT": str(self._ports["epmd"]),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_NODENAME": _NODE,
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._ports["distribution"]),
            "RABBITMQ_CTL_DIST_PORT_MIN": str(self._ports["ctl"]),
            "RABBITMQ_CTL_DIST_PORT_MAX": str(self._ports["ctl"] + 50),
            "RABBITMQ_CTL_ERL_ARGS": _ON_LOOPBACK,
            "RABBITMQ_CONF_ENV_FILE": str(at / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(at / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(at / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(at / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(at / "mnesia"),
            "RABBITMQ_LOG_BASE": str(at / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(at / "rabbit.pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERL_ARGS,
            # Makes the script turn into the node instead of waiting beside it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
