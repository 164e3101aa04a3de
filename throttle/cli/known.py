"""The frontier for a command that works on one host, which it must know."""

from throttle.errors import FrontierError
from throttle.frontier.bundle import Frontier
from throttle.settings import load


def knowing(host: str) -> Frontier:
    """The frontier, if it knows `host`; raises `FrontierError`."""
    frontier = Frontier(load())
    if not frontier.hosts.exists(host):
        raise FrontierError(
            f"{host} is not known; throttlectl add-host {host} makes it known, throttlectl"
            " list-hosts shows those that are"
        )
    return frontier
