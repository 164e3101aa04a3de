"""Settings: where they come from, what is refused, and that no message shows a password."""

import os
import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from throttle.errors import SettingsError
from throttle.settings import Settings, load


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.upper().startswith("THROTTLE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def _refusal(**given: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load(**given)
    return str(caught.value)


def test_every_setting_has_a_usable_default() -> None:
    """With nothing set, the settings load; the crawler's name is empty until someone gives it."""
    settings = load()
    assert settings.interval == 2.0
    assert settings.product == ""
    assert settings.allow_nets == ()


def test_given_values_win_over_the_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command's option beats `THROTTLE_*`, that beats `throttle.toml`, that beats the default."""
    Path("throttle.toml").write_text("interval = '5s'\nburst = 5\nconcurrency = 5\n")
    monkeypatch.setenv("THROTTLE_BURST", "4")
    monkeypatch.setenv("throttle_concurrency", "4")
    settings = load(concurrency=3)
    assert (settings.interval, settings.burst, settings.concurrency) == (5.0, 4, 3)
    assert settings.host_depth == 50_000


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """`THROTTLE_INTERVAL=` in a compose file leaves the value of `throttle.toml` in force."""
    Path("throttle.toml").write_text("interval = 7\n")
    monkeypatch.setenv("THROTTLE_INTERVAL", "")
    monkeypatch.setenv("THROTTLE_CONFIG", "")
    assert load().interval == 7.0


def test_throttle_config_names_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """`THROTTLE_CONFIG` is read in place of `throttle.toml`, and must then be there."""
    Path("other.toml").write_text("allow_nets = ['10.0.0.0/8', 'fd00::/8']\n")
    monkeypatch.setenv("THROTTLE_CONFIG", "other.toml")
    assert load().allow_nets == ("10.0.0.0/8", "fd00::/8")
    monkeypatch.setenv("THROTTLE_CONFIG", "absent.toml")
    assert "absent.toml" in _refusal()


@pytest.mark.parametrize(
    "content", [b"interval = ", b"interval = 2s", b"\xff\xfe", b"burst = 1\nburst = 2"]
)
def test_a_broken_file_is_refused_by_name(content: bytes) -> None:
    """A file that is not TOML stops the start and is named."""
    Path("throttle.toml").write_bytes(content)
    assert "throttle.toml" in _refusal()


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("interval", "30/m", 2.0),
        ("interval", "500ms", 0.5),
        ("interval", 1, 1.0),
        ("fetch_timeout", "1m", 60.0),
        ("follow_hosts", "true", True),
        ("allow_nets", "127.0.0.0/8, ::1/128", ("127.0.0.0/8", "::1/128")),
        ("allow_nets", "", ()),
        ("broker_url", "amqps://u:p%2Fw@[::1]:5671/v", "amqps://u:p%2Fw@[::1]:5671/v"),
        ("broker_url", "amqp://rabbit", "amqp://rabbit"),
        (
            "redis_url",
            "rediss://:p%40w@redis.example:6380/1",
            "rediss://:p%40w@redis.example:6380/1",
        ),
        ("product", "Example-Bot", "Example-Bot"),
        ("contact", "https://example.org/bot?a=b", "https://example.org/bot?a=b"),
        ("on_page", "my_site.pages:take", "my_site.pages:take"),
    ],
)
def test_good_values_are_read(name: str, value: object, read: object) -> None:
    """Each form that the README shows is taken."""
    assert getattr(load(**{name: value}), name) == read


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("interval", "soon", "30/m"),
        ("interval", "0s", "must be above 0"),
        ("interval", -1, "must be above 0"),
        ("interval", "400d", "366d"),
        ("interval", float("nan"), "must be at most"),
        ("interval", float("inf"), "must be at most"),
        ("interval", True, "not true or false"),
        ("interval", [2], "valid number"),
        ("burst", "0", "must be at least 1"),
        ("burst", "many", "valid integer"),
        ("burst", True, "not true or false"),
        ("concurrency", "1.5", "valid integer"),
        ("partitions", "1025", "must be at most 1024"),
        ("max_pages", "-1", "must be at least 0"),
        ("lease_ttl", "1ms", "must be at least 0.5"),
        ("robots_ttl", "2d", "must be at most 86400"),
        ("follow_hosts", "perhaps", "boolean"),
        ("namespace", "My Crawl", "a-z0-9-"),
        ("namespace", "a}b", "a-z0-9-"),
        ("crawl_queue", "two words", "pattern"),
        ("crawl_queue", "\u00fc" * 200, "pattern"),
        ("product", "Bot/1.0", "64 letters"),
        ("product", "Bot\n", "64 letters"),
        ("contact", "me@example.org\r\nX-Evil: 1", "one line of ASCII"),
        ("contact", "j\u00fcrgen@example.org", "one line of ASCII"),
        ("contact", "me) (you", "one line of ASCII"),
        ("contact", "foo", "a URL or an e-mail address"),
        ("contact", "https://", "a URL or an e-mail address"),
        ("on_page", "my_site", "pattern"),
        ("on_page", "import os; os:system", "pattern"),
        ("allow_nets", "localhost", "10.0.0.0/8"),
        ("allow_nets", "10.0.0.1/8", "10.0.0.0/8"),
        ("body_limit", "10MB", "valid integer"),
    ],
)
def test_a_bad_value_is_refused_by_name_with_what_it_got_and_what_it_takes(
    name: str, value: object, takes: str
) -> None:
    """The message alone is enough to mend the setting, in the environment or in the file."""
    message = _refusal(**{name: value})
    assert f"THROTTLE_{name.upper()}" in message
    assert f"{name} in throttle.toml" in message
    assert takes in message
    assert f"got {str(value)[:80]!r}" in message
    assert "Value error" not in message


@pytest.mark.parametrize("value", ["10MB", "seven"])
def test_a_bad_variable_is_refused_like_a_bad_file(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """The same words, whichever place the value came from."""
    Path("throttle.toml").write_text(f"body_limit = '{value}'\n")
    from_file = _refusal()
    Path("throttle.toml").unlink()
    monkeypatch.setenv("THROTTLE_BODY_LIMIT", value)
    assert _refusal() == from_file


def test_every_bad_setting_is_named_at_once() -> None:
    """Two mistakes need one start to be seen, not two."""
    message = _refusal(burst=0, interval="x")
    assert "THROTTLE_BURST" in message
    assert "THROTTLE_INTERVAL" in message


def test_an_unknown_setting_in_the_file_is_refused_with_the_nearest_name() -> None:
    """A typing error never leaves the default silently in force, nor shows the value."""
    Path("throttle.toml").write_text("broker_ulr = 'amqp://u:hunter2@rabbit//'\n")
    message = _refusal()
    assert "broker_ulr" in message
    assert "did you mean broker_url?" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("name", ["broker_url", "redis_url"])
@pytest.mark.parametrize(
    "value",
    [
        "http://u:hunter2@host/",
        "u:hunter2@host",
        "hunter2",
        "{scheme}://u:hunter2@",
        "{scheme}://u:hunter2@/",
        "{scheme}://u:hunter2@host:port/",
        "{scheme}://u:hunter2@host:0/",
        "{scheme}://u:hunter2@host:99999/",
        "{scheme}://u:hunter2@[::1/",
        "{scheme}://u:hunter2@ho st/",
        "{scheme}://u:hunter2/x@host/",
        "{scheme}://u:12/hunter2@host/",
        "{scheme}://u:12#hunter2@host/",
        "{scheme}://u:12?hunter2@host/",
        "{scheme}://u:hunter2@a:5672;{scheme}://u:hunter2@b:5672",
    ],
)
def test_a_bad_server_url_is_refused_and_its_password_shown_nowhere(name: str, value: str) -> None:
    """Neither the message nor the traceback of a bad URL holds any part of it."""
    schemes = {"broker_url": "amqp", "redis_url": "redis"}
    url = value.replace("{scheme}", schemes[name])
    with pytest.raises(SettingsError) as caught:
        load(**{name: url})
    message = str(caught.value)
    assert f"THROTTLE_{name.upper()}" in message
    assert f"takes {schemes[name]}://" in message
    # The traceback quotes source lines, never values: only the causes' own words could leak.
    causes = "".join(traceback.format_exception_only(caught.value.__cause__))
    assert isinstance(caught.value.__cause__, ValidationError)
    assert "hunter2" not in message + causes


def test_a_password_is_not_in_the_text_form_of_the_settings() -> None:
    """Settings that end up in a log line show no server URL."""
    settings = load(broker_url="amqp://u:hunter2@rabbit//", redis_url="redis://:hunter2@redis/0")
    assert "hunter2" not in f"{settings!r} {settings}"


def test_settings_cannot_be_changed_after_the_start() -> None:
    """What was validated stays what is in force."""
    with pytest.raises(ValidationError):
        Settings().interval = 0.1  # type: ignore[misc]


def test_the_user_agent_names_the_crawler_and_whom_to_ask() -> None:
    """Operators of a site find both in each request."""
    settings = load(product="Example-Bot", contact="https://example.org/bot")
    assert settings.user_agent == "Example-Bot (+https://example.org/bot)"


def test_a_setting_written_wrongly_is_told_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person learns of the typing error; what Kubernetes injects is left alone."""
    monkeypatch.setenv("THROTTLE_INTERVALL", "5s")
    for name in ("REDIS_PORT", "REDIS_URL_PORT", "SERVICE_HOST", "PORT_80_TCP_ADDR", "COLOUR"):
        monkeypatch.setenv(f"THROTTLE_{name}", "10.0.0.1")
    monkeypatch.setenv("THROTTLE_CONFIG", "")
    assert load().interval == load().interval == 2.0
    said = capsys.readouterr().err
    assert said == "throttle: THROTTLE_INTERVALL is no setting; did you mean THROTTLE_INTERVAL?\n"


@pytest.mark.parametrize("contact", ["https://a.example/bot", "b@a.example", "mailto:b@a.example"])
def test_a_contact_is_a_url_or_an_address(contact: str) -> None:
    """Whatever leads an operator to a person is taken."""
    assert load(contact=contact).contact == contact
