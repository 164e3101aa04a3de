"""Settings from `THROTTLE_*` and `throttle.toml`: one frozen object, validated once at the edge."""

import difflib
import ipaddress
import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from throttle.durations import parse_duration
from throttle.errors import SettingsError, UsageError

PREFIX = "THROTTLE_"
FILE = "throttle.toml"


def _seconds(value: object) -> object:
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except UsageError as error:
            raise ValueError(str(error)) from error
    return value


def _words(value: object) -> object:
    if isinstance(value, str):
        return tuple(word for word in value.replace(",", " ").split() if word)
    return value


def _server_url(*schemes: str) -> Callable[[str], str]:
    """A check of a server's URL whose messages never repeat it: there may be a password in it."""
    takes = f"takes {schemes[0]}://user:password@host:port/name (or {', '.join(schemes[1:])})"

    def check(value: str) -> str:
        scheme, _, rest = value.partition("://")
        if scheme not in schemes:
            raise ValueError(f"got another kind of URL; {takes}")
        if not _has_an_address(rest):
            raise ValueError(
                f"got no usable host and port; {takes}; write / @ : # ? as %2F and so on"
            )
        return value

    return check


def _has_an_address(rest: str) -> bool:
    """Whether what follows `scheme://` names a host; a raw / or # in a password hides the host."""
    try:
        parts = urlsplit("//" + rest)
        port = parts.port
    except ValueError:
        return False
    hidden = "@" in parts.path + parts.query + parts.fragment
    return not hidden and port != 0 and _HOST.fullmatch(parts.hostname or "") is not None


_PRODUCT = re.compile(r"[A-Za-z_-]{0,64}", re.ASCII)
_CONTACT = re.compile(r"https?://[^/\s]+(/\S*)?|(mailto:)?[^@\s]+@[^@\s]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", re.ASCII)

Seconds = Annotated[float, BeforeValidator(_seconds)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
BrokerUrl = Annotated[str, AfterValidator(_server_url("amqp", "amqps"))]
RedisUrl = Annotated[str, AfterValidator(_server_url("redis", "rediss"))]


class Settings(BaseSettings):
    """Every setting, with its default. Times are seconds, sizes are bytes."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        hide_input_in_errors=True,  # a traceback must not show the password in a URL
    )

    broker_url: BrokerUrl = Field(
        "amqp://guest:guest@127.0.0.1:5672//", description="RabbitMQ", repr=False
    )
    redis_url: RedisUrl = Field("redis://127.0.0.1:6379/0", description="Redis", repr=False)
    namespace: str = Field("throttle", pattern=r"^[a-z0-9-]{1,32}$")
    partitions: int = Field(16, ge=1, le=1024)

    interval: Seconds = Field(2.0, gt=0, le=366 * 86400)
    burst: int = Field(1, ge=1, le=10_000)
    concurrency: int = Field(1, ge=1, le=10_000)
    host_depth: int = Field(50_000, ge=1)
    max_pages: int = Field(0, ge=0, description="accepted URLs in all; 0 is no limit")
    max_pages_per_host: int = Field(0, ge=0, description="accepted URLs of a host; 0 is no limit")
    max_depth: int = Field(0, ge=0, description="links from the seed; 0 is no limit")
    max_hosts_per_page: int = Field(50, ge=1, description="new hosts taken from one page")
    seen: Literal["exact", "bloom"] = "exact"
    bloom_error_rate: float = Field(1e-6, ge=1e-12, le=0.01)
    max_in_flight: int = Field(200, ge=1)
    max_tries: int = Field(5, ge=1, le=1000)
    follow_hosts: bool = False

    crawl_queue: str = Field("crawl", pattern=r"^[!-~]{1,200}$")
    batch: int = Field(200, ge=1, le=10_000)
    channels: int = Field(64, ge=1, le=2000)
    grant_ttl: Seconds = Field(60.0, ge=1, le=86400)
    lease_ttl: Seconds = Field(5.0, ge=0.5, le=3600)

    product: str = Field("", description="robots.txt product token")
    contact: str = Field("", max_length=200, description="URL or e-mail for site operators")
    crawl_delay_cap: Seconds = Field(86400.0, gt=0, le=366 * 86400)
    retry_after_cap: Seconds = Field(86400.0, gt=0, le=366 * 86400)
    backoff_first: Seconds = Field(10.0, gt=0, le=86400)
    backoff_cap: Seconds = Field(86400.0, gt=0, le=366 * 86400)
    quiet_time: Seconds = Field(1800.0, ge=0, le=366 * 86400)
    forgiving_answers: int = Field(10, ge=1, le=1_000_000)
    breaker_failures: int = Field(5, ge=1, le=1000)
    breaker_first: Seconds = Field(60.0, gt=0, le=86400)
    breaker_cap: Seconds = Field(86400.0, gt=0, le=366 * 86400)
    refusals_in_a_row: int = Field(3, ge=1, le=1000)
    slow_factor: float = Field(0.0, ge=0, le=1000)

    fetch_timeout: Seconds = Field(30.0, gt=0, le=3600)
    connect_timeout: Seconds = Field(10.0, gt=0, le=3600)
    body_limit: int = Field(10 * 1024 * 1024, ge=1024)
    robots_ttl: Seconds = Field(86400.0, ge=60, le=86400)
    allow_nets: Words = Field((), validate_default=True)
    hosts_file: str = Field("", description="names to addresses, as /etc/hosts, before DNS")
    on_page: str = Field(
        "",
        pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$",
        description="module:function from page to links and records",
    )
    archive: str = Field("", description="folder for WARC files; empty writes none")
    worker_threads: int = Field(32, ge=1, le=1000)

    @field_validator("allow_nets")
    @classmethod
    def _nets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for net in value:
            try:
                ipaddress.ip_network(net)
            except ValueError as error:
                raise ValueError(f"{error}; takes nets such as 10.0.0.0/8 fd00::/8") from error
        return value

    @field_validator("product")
    @classmethod
    def _a_product_token(cls, value: str) -> str:
        if not _PRODUCT.fullmatch(value):
            raise ValueError(
                "takes one word of at most 64 letters, - and _, as robots.txt files name it (no"
                " digits, no version), for example examplebot"
            )
        return value

    @field_validator("contact")
    @classmethod
    def _fits_a_header(cls, value: str) -> str:
        if not (value.isascii() and value.isprintable()) or any(c in value for c in "()\\"):
            raise ValueError(
                "takes one line of ASCII without ( ) \\, since it goes into User-Agent"
            )
        if value and not _CONTACT.fullmatch(value):
            raise ValueError(
                "takes a URL or an e-mail address, for example https://example.org/bot or"
                " bot@example.org"
            )
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) and info.field_name != "follow_hosts":
            raise ValueError("takes a value, not true or false")
        return value

    @property
    def user_agent(self) -> str:
        """The User-Agent sent: product token and contact."""
        return f"{self.product} (+{self.contact})"

    @property
    def start_ttl(self) -> float:
        """Seconds a started grant lives: the whole fetch and as long again to store it."""
        return 2 * self.fetch_timeout

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Given values first, then the environment; the file is merged in by `load`."""
        return init_settings, env_settings


def load(path: Path | None = None, **given: Any) -> Settings:
    """The settings in force: `given` over the environment over `throttle.toml`.

    `path` names another file (as `THROTTLE_CONFIG` does). Raises `SettingsError` naming each bad
    setting, what it got and what it takes.
    """
    configured = os.environ.get(PREFIX + "CONFIG")
    named = path or (Path(configured) if configured else None)
    from_file = _read(named or Path(FILE), must_exist=named is not None)
    environment = {name.upper() for name, value in os.environ.items() if value}
    _warn_of_unknown(environment)
    kept = {k: v for k, v in from_file.items() if f"{PREFIX}{k}".upper() not in environment}
    values = {**kept, **given}
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsError(_explain(error, values)) from error


def _read(path: Path, *, must_exist: bool) -> dict[str, Any]:
    if not must_exist and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}; mend it or name another") from error


def _explain(error: ValidationError, values: dict[str, Any]) -> str:
    variables = {name.upper(): value for name, value in os.environ.items()}
    lines = []
    for fault in error.errors():
        name = str(fault["loc"][0]) if fault["loc"] else "settings"
        if fault["type"] == "extra_forbidden":
            lines.append(f"{name[:80]} in {FILE}: no such setting{_nearest(name)}")
            continue
        # As written, `2d`, where the fault itself only knows 172800.0.
        got = values.get(name, variables.get(f"{PREFIX}{name.upper()}", fault["input"]))
        # A URL may hold a password: its messages tell enough without it.
        shown = "" if name.endswith("_url") else f", got {str(got)[:80]!r}"
        message = _bound(fault) or fault["msg"].removeprefix("Value error, ")
        lines.append(f"{PREFIX}{name.upper()} ({name} in {FILE}): {message}{shown}")
    return "; ".join(dict.fromkeys(lines))


def _bound(fault: ErrorDetails) -> str:
    """What the bound is that a number broke, or nothing where that is not the fault."""
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    bounds = fault.get("ctx", {})
    return next((f"must be {words[name]} {bounds[name]}" for name in words if name in bounds), "")


def _warn_of_unknown(environment: set[str]) -> None:
    """Says once which variable looks like a setting written wrongly.

    Others are left alone: Kubernetes puts THROTTLE_PORT and the like into the environment of
    whatever runs beside a service named throttle.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in sorted(environment - known - _warned):
        near = difflib.get_close_matches(name, known, n=1, cutoff=_CLOSE)
        if name.startswith(PREFIX) and near and not _INJECTED.fullmatch(name):
            _warned.add(name)
            sys.stderr.write(f"throttle: {name} is no setting; did you mean {near[0]}?\n")


_CLOSE = 0.88
_INJECTED = re.compile(r".*_(SERVICE_(HOST|PORT)|PORT)(_.*)?", re.ASCII)
_warned: set[str] = {PREFIX + "CONFIG"}


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), Settings.model_fields, n=1)
    return f"; did you mean {near[0]}?" if near else ""
