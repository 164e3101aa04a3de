"""The frontier in Redis as one process uses it: its parts, built from the settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from throttle.frontier.cases import Cases
from throttle.frontier.census import Census
from throttle.frontier.ends import Ends
from throttle.frontier.generations import Generations
from throttle.frontier.hosts import Hosts
from throttle.frontier.intake import Bounds, Intake
from throttle.frontier.keys import Keys
from throttle.frontier.leases import Leases
from throttle.frontier.process import process_name
from throttle.frontier.rules import RobotsBook
from throttle.frontier.scripts import Scripts, connect
from throttle.frontier.seen import Seen
from throttle.frontier.wake import WakeListener
from throttle.model import HostPolicy
from throttle.pace import Limits
from throttle.settings import Settings


@dataclass(frozen=True)
class Frontier:
    """The frontier in Redis, as one process uses it; its parts are made when first asked for."""

    settings: Settings

    @cached_property
    def scripts(self) -> Scripts:
        """Calls on Redis, which has a default policy from the first call on."""
        scripts = connect(self.settings.redis_url)
        Hosts(scripts, self.keys, self._defaults).publish_defaults(replace=False)
        return scripts

    @cached_property
    def keys(self) -> Keys:
        """Names in Redis."""
        return Keys(self.settings.namespace, self.settings.partitions)

    @cached_property
    def book(self) -> RobotsBook:
        """robots.txt of origins."""
        return RobotsBook(
            self.scripts,
            self.keys,
            self.settings.product,
            crawl_delay_cap_s=self.settings.crawl_delay_cap,
        )

    @cached_property
    def intake(self) -> Intake:
        """Add."""
        return Intake(
            self.scripts,
            self.keys,
            self.book,
            Bounds(
                host_depth=self.settings.host_depth,
                max_pages=self.settings.max_pages,
                max_pages_per_host=self.settings.max_pages_per_host,
                max_depth=self.settings.max_depth,
            ),
            Seen(self.settings.bloom_error_rate if self.settings.seen == "bloom" else None),
        )

    @cached_property
    def hosts(self) -> Hosts:
        """Policies."""
        return Hosts(self.scripts, self.keys, self._defaults)

    @cached_property
    def census(self) -> Census:
        """Counts."""
        return Census(self.scripts, self.keys)

    @cached_property
    def generations(self) -> Generations:
        """What earlier generations came to, and the start of the next."""
        return Generations(self.scripts, self.keys)

    @cached_property
    def cases(self) -> Cases:
        """What a person should look at."""
        return Cases(self.scripts, self.keys)

    @cached_property
    def ends(self) -> Ends:
        """URLs that ended `dead` or `refused`."""
        return Ends(self.scripts, self.keys)

    @property
    def limits(self) -> Limits:
        """The bounds of every host's pace."""
        return Limits(
            backoff_first_s=self.settings.backoff_first,
            backoff_cap_s=self.settings.backoff_cap,
            quiet_s=self.settings.quiet_time,
            forgiving_answers=self.settings.forgiving_answers,
            retry_after_cap_s=self.settings.retry_after_cap,
            breaker_failures=self.settings.breaker_failures,
            breaker_first_s=self.settings.breaker_first,
            breaker_cap_s=self.settings.breaker_cap,
            refusals_in_a_row=self.settings.refusals_in_a_row,
            slow_factor=self.settings.slow_factor,
        )

    @property
    def _defaults(self) -> HostPolicy:
        return HostPolicy(self.settings.interval, self.settings.burst, self.settings.concurrency)

    def leases(self, role: str) -> Leases:
        """Leases of this process in a role."""
        return Leases(
            self.scripts, self.keys, role=role, holder=process_name(), ttl_s=self.settings.lease_ttl
        )

    def listener(self, role: str, on_wake: Callable[[int | None], object]) -> WakeListener:
        """A thread that hears the wake-ups of a role."""
        return WakeListener(self.scripts.client, self.keys, role, on_wake)
