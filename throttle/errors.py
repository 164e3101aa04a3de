"""The family of errors: each names what was wrong, what was got and what to do about it."""


class ThrottleError(Exception):
    """Base of all errors that throttle raises on purpose.

    `exit_code` is what `throttlectl` ends with when the error reaches it.
    """

    exit_code = 1


class SettingsError(ThrottleError):
    """A setting is missing or has a value that cannot be used."""

    exit_code = 2


class UsageError(ThrottleError):
    """A command or a call was given something it does not take."""

    exit_code = 2


class InvalidURL(ThrottleError):
    """A URL cannot be crawled; `reason` says why in a few words, without the URL."""

    exit_code = 2

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url[:200]!r}: {reason}")
        self.url = url
        self.reason = reason


class ServerUnreachable(ThrottleError):
    """RabbitMQ or Redis does not answer, or refuses us."""

    exit_code = 3


class FrontierError(ThrottleError):
    """Redis answered, but not with what the frontier needs (wrong type, no room, wrong version)."""


class Fenced(FrontierError):
    """The lease was lost: another process owns the partition now, so nothing was changed."""


class BrokerError(ThrottleError):
    """RabbitMQ refused one operation (permission, arguments); the connection may still be good.

    `code` is AMQP's reply code (403 no right, 404 no such queue, 406 other arguments), or 0.
    """

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class FetchError(ThrottleError):
    """One request failed; `sent` tells whether any byte of it may have reached the host."""

    def __init__(self, reason: str, *, sent_at_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent_at_s = sent_at_s

    @property
    def sent(self) -> bool:
        """True when the request may have reached the wire, and so costs its token."""
        return self.sent_at_s is not None

    @property
    def told(self) -> str:
        """The reason for people, with the remedy where there is one."""
        return self.reason


class AddressRefused(FetchError):
    """The host's address is private, loopback, link-local or otherwise not to be dialled.

    `remedy` is the setting that would allow it.
    """

    def __init__(self, reason: str, *, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy

    @property
    def told(self) -> str:
        """The reason, and the setting that would allow the address."""
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason


class ArchiveError(ThrottleError):
    """A WARC file could not be written, read or merged."""


class LocalServerError(ThrottleError):
    """A private server or child process could not be started or did not become ready."""

    exit_code = 3


class DirectoryInUse(LocalServerError):
    """Another service works in this data directory, or it cannot be written."""

    exit_code = 2
