"""Names and arguments of every queue: the token queues, the crawl queue and its dead letters."""

import hashlib
import math

from throttle.errors import BrokerError, UsageError
from throttle.tokens.channel import NAME_LIMIT
from throttle.tokens.link import Link

PREFIX = "tokens."
HASHED_PREFIX = "tokens.#"
CRAWL_LENGTH = 100_000

_HOUR_MS = 3_600_000
_LONGEST_MS = 2**32 - 1
_EXPIRES_INTERVALS = 4


def token_queue(key: str) -> str:
    """The queue that holds the tokens of `key`; a name over 255 bytes is replaced by its hash.

    No politeness key begins with "#", so a hashed name never meets a plain one.
    """
    name = PREFIX + key
    if len(name.encode()) <= NAME_LIMIT:
        return name
    return HASHED_PREFIX + hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def token_queue_arguments(burst: int, interval_s: float) -> dict[str, object]:
    """What a token queue is declared with: it holds `burst` tokens and outlives `interval_s`.

    An unused queue goes away after four intervals, rounded up to a power of two of hours, so that
    a small change of pace keeps the queue. Raises `UsageError` for a burst below 1 (RabbitMQ would
    swallow every token without a word) and for an interval that is no positive number of seconds.
    """
    if burst < 1:
        raise UsageError(
            f"a burst of {burst} would let no request pass; give at least 1, "
            "or pause the host to stop it"
        )
    return {
        "x-queue-type": "classic",
        "x-max-length": burst,
        "x-overflow": "drop-head",
        "x-expires": _expires_ms(interval_s),
    }


def queue_shape(burst: int, interval_s: float) -> str:
    """A short text that differs exactly when `token_queue_arguments` differ: "5/3600"."""
    arguments = token_queue_arguments(burst, interval_s)
    return f"{arguments['x-max-length']}/{_expires_ms(interval_s) // 1000}"


def dead_queue(queue: str) -> str:
    """Where messages go that `queue` gives up on."""
    return f"{queue}.dead"


def crawl_queue_arguments(
    queue: str, *, length: int = CRAWL_LENGTH, quorum: bool = False
) -> dict[str, object]:
    """What the crawl queue is declared with: at most `length` messages, refused when full.

    `quorum` is for a cluster. What is dead-lettered goes to `dead_queue`.
    """
    return {
        "x-queue-type": "quorum" if quorum else "classic",
        "x-max-length": length,
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead_queue(queue),
    }


def dead_queue_arguments(*, length: int = CRAWL_LENGTH, quorum: bool = False) -> dict[str, object]:
    """What the dead-letter queue is declared with: the oldest of `length` messages goes first."""
    return {
        "x-queue-type": "quorum" if quorum else "classic",
        "x-max-length": length,
        "x-overflow": "drop-head",
    }


async def declare_crawl(
    link: Link, queue: str, *, length: int = CRAWL_LENGTH, quorum: bool = False
) -> None:
    """Declare the crawl queue `queue` and its dead-letter queue, both durable.

    Raises `BrokerError` when one exists with other arguments (it is never deleted: it may hold
    work), and `ServerUnreachable`.
    """
    wanted = {
        dead_queue(queue): dead_queue_arguments(length=length, quorum=quorum),
        queue: crawl_queue_arguments(queue, length=length, quorum=quorum),
    }
    for name, arguments in wanted.items():
        channel = await link.channel()
        try:
            await channel.declare(name, arguments)
        except BrokerError as error:
            if error.code != 406:
                raise
            raise BrokerError(
                f"{error}; stop the dispatchers, let the workers empty it, delete it "
                f"(rabbitmqctl delete_queue {name}) and start again",
                code=error.code,
            ) from error
        finally:
            channel.discard()


def _expires_ms(interval_s: float) -> int:
    if not (math.isfinite(interval_s) and interval_s > 0):
        raise UsageError(f"an interval is a positive number of seconds, not {interval_s!r}")
    hours = max(1, math.ceil(interval_s * _EXPIRES_INTERVALS / 3600))
    return min(_HOUR_MS << (hours - 1).bit_length(), _LONGEST_MS)
