"""Closing a visit: what came of the URL, and what its answer does to the host's pace."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from throttle.durations import format_duration
from throttle.frontier.cases import ADDRESS
from throttle.frontier.paces import decode_pace
from throttle.frontier.startgate import PaceChange, Started, StartGate
from throttle.model import Case, End, Outcome, Says
from throttle.outcome import ADDRESS_REFUSED
from throttle.pace import Decision, Limits, Pace, Seen, observe

_log = logging.getLogger("throttle.visit")

_MOST_TOLD = 10_000


class Closing:
    """Finishes grants. Thread-safe. `chance` gives numbers in [0, 1), `now` the time of day."""

    def __init__(
        self,
        gate: StartGate,
        limits: Limits,
        *,
        chance: Callable[[], float],
        now: Callable[[], datetime],
        max_tries: int = 5,
    ) -> None:
        self._gate = gate
        self._limits = limits
        self._chance = chance
        self._now = now
        self._max_tries = max_tries
        self._told: set[tuple[str, str]] = set()

    def close(
        self,
        started: Started,
        outcome: Outcome,
        *,
        wire_s: float | None,
        ended_s: float,
    ) -> bool:
        """Finishes the grant, deciding anew when another answer changed the pace meanwhile.

        `wire_s` and `ended_s` are Redis time. False when the grant was over.
        """
        pace = started.pace
        case = self._refused_address(started, outcome)
        while True:
            ending = self._counted(started, outcome, decode_pace(pace))
            change = self._change(started, ending, pace, wire_s, ended_s)
            finished = self._gate.finish(started, ending, wire_s, change, case)
            if finished.conflict is None:
                return finished.closed
            pace = finished.conflict

    def _counted(self, started: Started, outcome: Outcome, pace: Pace) -> Outcome:
        """Being throttled costs a URL a try where it may be the page and not our pace.

        That is where the host has answered others well since, or turns us away time after time
        however long we stay away: then the URL must come to an end.
        """
        if outcome.says is not Says.THROTTLED or outcome.end is not End.BACK:
            return outcome
        if not pace.goods and pace.throttled < self._max_tries:
            return outcome
        is_last = started.entry.tries + 1 >= self._max_tries
        return replace(outcome, end=End.DEAD if is_last else End.AGAIN)

    def _refused_address(self, started: Started, outcome: Outcome) -> Case | None:
        """A case where the guard refused the host's address; it is logged once per address."""
        if not outcome.reason.startswith(f"{ADDRESS_REFUSED}: "):
            return None
        told = (started.key, outcome.reason)
        if told not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(told)
            _log.warning("%s: %s", *told)
        reason = f"{outcome.reason}; then: throttlectl refused retry {started.key}"
        opened_at = self._now().isoformat(timespec="seconds")
        return Case(ADDRESS, started.key, started.entry.url, reason, opened_at)

    def _change(
        self,
        started: Started,
        outcome: Outcome,
        pace: bytes,
        wire_s: float | None,
        ended_s: float,
    ) -> PaceChange | None:
        if outcome.says is None:
            return None
        seen = Seen(
            says=outcome.says,
            started_at_s=started.now_s,
            ended_at_s=ended_s,
            retry_after_s=outcome.retry_after_s,
            elapsed_s=0.0 if wire_s is None else ended_s - wire_s,
        )
        decision = observe(decode_pace(pace), seen, self._limits, self._chance())
        return PaceChange(pace, decision, self._case(started, outcome, decision))

    def _case(self, started: Started, outcome: Outcome, decision: Decision) -> Case | None:
        if decision.refused_us:
            kind = "refused"
            reason = (
                f"{outcome.reason}: the host refuses us; nothing of it is fetched until the case"
                " is closed with --resume"
            )
        elif decision.capped and outcome.says is Says.THROTTLED:
            kind = "retry_after_capped"
            reason = (
                f"Retry-After asks for {format_duration(outcome.retry_after_s or 0.0)}; applied is"
                f" the cap, {format_duration(self._limits.retry_after_cap_s)}"
            )
        else:
            return None
        opened_at = self._now().isoformat(timespec="seconds")
        return Case(kind, started.key, started.entry.url, reason, opened_at)
