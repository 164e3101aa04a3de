"""What one fetch means: whether its URL is finished, comes again or is given up, and why."""

from datetime import datetime

from throttle.model import End, Observation, Outcome
from throttle.retry_after import parse_retry_after

ADDRESS_REFUSED = "address refused"
DISALLOWED = "disallowed"
TOO_LARGE = "too large"
"""How `Observation.error` begins when trying again would end the same way."""

LONGEST_BLOCK_S = 86400.0
"""A site's Retry-After is honoured up to a day."""

_FIRST_BLOCK_S = 60.0
_FIRST_DELAY_S = 30.0
_LONGEST_STEP_S = 3600.0

_FINAL_ERRORS = {ADDRESS_REFUSED: "refused", TOO_LARGE: "refused", DISALLOWED: "disallowed"}
_REFUSED = {401, 403, 451}
_GONE = {404, 410}
_THROTTLED = {429, 503}
_TRANSIENT = {408, 425}


def judge(observation: Observation, *, max_tries: int, now: datetime) -> Outcome:
    """The outcome of `observation`, on the `now` that Retry-After dates are measured from.

    `max_tries` starts may come to nothing before the URL is given up (`End.DEAD`); the host's
    block holds even then. A finished status counts although the body broke off, save for 2xx,
    whose body is what was wanted.
    """
    status = observation.status
    if status is None or (observation.error and 200 <= status < 300):
        return _failed(observation, max_tries)
    named = f"HTTP {status}"
    if 200 <= status < 300:
        return Outcome(End.DONE, "done")
    if status == 304:
        return Outcome(End.DONE, "not modified")
    if 300 <= status < 400:
        return Outcome(End.DONE, "redirect", "" if observation.location else "no Location")
    if status in _REFUSED:
        return Outcome(End.REFUSED, "refused", named)
    if status in _GONE:
        return Outcome(End.DONE, "gone", named)
    if status in _THROTTLED:
        return _throttled(observation, max_tries, now)
    if 400 <= status < 500 and status not in _TRANSIENT:
        return Outcome(End.DONE, "client error", named)
    return _again(observation, max_tries, "transient", named)


def _failed(observation: Observation, max_tries: int) -> Outcome:
    error = observation.error or "no answer"
    for start, name in _FINAL_ERRORS.items():
        if error.startswith(start):
            return Outcome(End.REFUSED, name, error)
    return _again(observation, max_tries, "transient", error)


def _throttled(observation: Observation, max_tries: int, now: datetime) -> Outcome:
    named = f"HTTP {observation.status}"
    asked = observation.retry_after
    wait_s = None if asked is None else parse_retry_after((asked,), now)
    if wait_s is not None:
        return _again(observation, max_tries, "throttled", named, min(wait_s, LONGEST_BLOCK_S))
    if asked is not None:
        named += f", Retry-After {asked[:40]!a} is no time to wait"
    return _again(
        observation, max_tries, "throttled", named, _step(_FIRST_BLOCK_S, observation.tries)
    )


def _again(
    observation: Observation, max_tries: int, name: str, reason: str, block_s: float = 0.0
) -> Outcome:
    if observation.tries + 1 >= max_tries:
        return Outcome(End.DEAD, name, reason, block_s=block_s)
    delay_s = 0.0 if block_s else _step(_FIRST_DELAY_S, observation.tries)
    return Outcome(End.AGAIN, name, reason, delay_s, block_s)


def _step(first_s: float, tries: int) -> float:
    return min(first_s * 2.0 ** min(tries, 30), _LONGEST_STEP_S)
