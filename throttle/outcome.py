"""What one fetch means: whether its URL is finished, comes again or is given up, and why."""

from datetime import datetime

from throttle.model import End, Observation, Outcome, Says
from throttle.retry_after import parse_retry_after

ADDRESS_REFUSED = "address refused"
DISALLOWED = "disallowed"
TOO_LARGE = "too large"
"""How `Observation.error` begins when trying again would end the same way."""

_FIRST_DELAY_S = 30.0
_LONGEST_STEP_S = 3600.0

_FINAL_ERRORS = {ADDRESS_REFUSED: "refused", TOO_LARGE: "refused", DISALLOWED: "disallowed"}
_REFUSED = {401, 403, 451}
_GONE = {404, 410}
_THROTTLED = {429, 503}
_TRANSIENT = {408, 425}


def judge(observation: Observation, *, max_tries: int, now: datetime) -> Outcome:
    """The outcome of `observation`, on the `now` that Retry-After dates are measured from.

    `max_tries` starts may come to nothing before the URL is given up (`End.DEAD`). Being throttled
    is the host's word and not the URL's fault: it goes back without a try being counted. A
    finished status counts although the body broke off, save for 2xx, whose body is what was wanted.
    """
    status = observation.status
    if status is None or (observation.error and 200 <= status < 300):
        return _failed(observation, max_tries)
    named = f"HTTP {status}"
    if 200 <= status < 300:
        return Outcome(End.DONE, "done", says=Says.GOOD)
    if status == 304:
        return Outcome(End.DONE, "not modified", says=Says.GOOD)
    if 300 <= status < 400:
        reason = "" if observation.location else "no Location"
        return Outcome(End.DONE, "redirect", reason, says=Says.GOOD)
    if status in _REFUSED:
        return Outcome(End.REFUSED, "refused", named, says=Says.REFUSED)
    if status in _GONE:
        return Outcome(End.DONE, "gone", named, says=Says.GOOD)
    if status in _THROTTLED:
        return _throttled(observation, now)
    if 400 <= status < 500 and status not in _TRANSIENT:
        return Outcome(End.DONE, "client error", named, says=Says.GOOD)
    return _again(observation, max_tries, named)


def _failed(observation: Observation, max_tries: int) -> Outcome:
    error = observation.error or "no answer"
    for start, name in _FINAL_ERRORS.items():
        if error.startswith(start):
            return Outcome(End.REFUSED, name, error)
    return _again(observation, max_tries, error)


def _throttled(observation: Observation, now: datetime) -> Outcome:
    named = f"HTTP {observation.status}"
    wait_s = parse_retry_after(observation.retry_after, now)
    if wait_s is None and observation.retry_after:
        named += f", Retry-After {observation.retry_after[0][:40]!a} is no time to wait"
    return Outcome(End.BACK, "throttled", named, says=Says.THROTTLED, retry_after_s=wait_s)


def _again(observation: Observation, max_tries: int, reason: str) -> Outcome:
    if observation.tries + 1 >= max_tries:
        return Outcome(End.DEAD, "transient", reason, says=Says.FAILED)
    delay_s = min(_FIRST_DELAY_S * 2.0 ** min(observation.tries, 30), _LONGEST_STEP_S)
    return Outcome(End.AGAIN, "transient", reason, delay_s, says=Says.FAILED)
