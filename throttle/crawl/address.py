"""The address guard: finds the addresses of a host and refuses those inside our own networks."""

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Any

from throttle.errors import AddressRefused, FetchError, SettingsError

Lookup = Callable[[str, int], list[str]]
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# IANA special-purpose registries (RFC 6890 and its updates), and what clouds put metadata on.
# The first network that holds the address names the reason.
_REFUSED_V4 = tuple(
    (IPv4Network(net), reason)
    for net, reason in (
        ("169.254.169.254/32", "a metadata address"),
        ("169.254.170.2/32", "a metadata address"),
        ("100.100.100.200/32", "a metadata address"),
        ("168.63.129.16/32", "a metadata address"),
        ("192.0.0.192/32", "a metadata address"),
        ("0.0.0.0/32", "the unspecified address"),
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_REFUSED_V6 = tuple(
    (IPv6Network(net), reason)
    for net, reason in (
        ("fd00:ec2::254/128", "a metadata address"),
        ("::/128", "the unspecified address"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an IPv4 address written as IPv6"),
        ("::ffff:0:0:0/96", "an IPv4 address written as IPv6"),
        ("::/96", "an IPv4 address written as IPv6"),
        ("64:ff9b:1::/48", "a local NAT64 address"),
        ("2001::/32", "a Teredo tunnel"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("3fff::/20", "for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_ISATAP = 0x00005EFE

# Lookups that hang keep their thread; more than this many at once wait for one to end.
_LOOKUPS_AT_ONCE = 256


def refusal(address: Address, allow_nets: Sequence[Network] = ()) -> str | None:
    """Why `address` must not be dialled, in a few words, or None when it may be.

    Only public unicast addresses may be dialled, and those in `allow_nets`. An IPv6 address that
    carries an IPv4 address through a translator (NAT64, RFC 6052) is judged by the IPv4 address;
    the other ways of carrying one (mapped, compatible, 6to4, Teredo, ISATAP) are refused whole.
    """
    if any(address.version == net.version and address in net for net in allow_nets):
        return None
    if isinstance(address, IPv4Address):
        return next((reason for net, reason in _REFUSED_V4 if address in net), None)
    if address in _NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
        reason = refusal(inner, allow_nets)
        return f"NAT64 of {inner}, which is {reason}" if reason else None
    listed = next((reason for net, reason in _REFUSED_V6 if address in net), None)
    if listed:
        return listed
    if address not in _GLOBAL_V6:
        return "reserved"
    if (int(address) >> 32) & 0xFDFFFFFF == _ISATAP:
        return "an ISATAP tunnel"
    return None


def remedy(address: Address) -> str:
    """The setting that lets `address` be dialled: the network that is refused, no wider."""
    refused = _REFUSED_V4 if isinstance(address, IPv4Address) else _REFUSED_V6
    alone = ipaddress.ip_network(address)
    net = next((net for net, _ in refused if address in net), alone)
    return f"if it is your own, set THROTTLE_ALLOW_NETS={net}"


def look_up(host: str, port: int) -> list[str]:
    """The addresses that the system's resolver (`getaddrinfo`) gives for `host`, in its order."""
    return _spelled(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


class Resolver:
    """Finds the addresses of a host: the operator's hosts file first, then the system's DNS.

    `hosts_file` is in the format of /etc/hosts (empty: none). `allow_nets` are the networks, such
    as `127.0.0.0/8`, that the operator opens; none by default. `lookup` asks DNS; it may block.
    Raises `SettingsError` for a network or a hosts file that cannot be used.
    """

    def __init__(
        self,
        hosts_file: str = "",
        allow_nets: Sequence[str] = (),
        *,
        lookup: Lookup = look_up,
    ) -> None:
        self._allow_nets = tuple(_network(net) for net in allow_nets)
        self._hosts = _read_hosts(Path(hosts_file)) if hosts_file else {}
        self._lookup = lookup
        self._room = threading.BoundedSemaphore(_LOOKUPS_AT_ONCE)

    def addresses(self, host: str, port: int, *, timeout_s: float | None = None) -> list[str]:
        """The addresses of `host`, all checked: dial one of these, never the name.

        Raises `AddressRefused` when any one is refused, so that a name with a public and a private
        record gets neither; `FetchError` when the name does not resolve within `timeout_s` seconds.
        """
        found = self.without_dns(host, port)
        return found or self._checked(host, self.unchecked(host, port, timeout_s=timeout_s))

    def without_dns(self, host: str, port: int) -> list[str]:
        """The addresses, checked, that `host` has without asking DNS; empty when DNS must tell.

        These are literal addresses in any spelling the system takes, names in the hosts file, and
        `localhost` (RFC 6761). Use it when a proxy is going to resolve the name.
        """
        return self._checked(host, self._without_dns(host, port))

    def unchecked(self, host: str, port: int, *, timeout_s: float | None = None) -> list[str]:
        """The addresses of a host that the operator chose, such as a proxy: nothing is refused."""
        return self._without_dns(host, port) or self._from_dns(host, port, timeout_s)

    def _checked(self, host: str, addresses: list[str]) -> list[str]:
        for address in addresses:
            number = ipaddress.ip_address(address)
            reason = refusal(number, self._allow_nets)
            if reason:
                shown = address if address == host else f"{host[:80]!r} is {address}"
                raise AddressRefused(f"address refused: {shown}, {reason}", remedy=remedy(number))
        return addresses

    def _without_dns(self, host: str, port: int) -> list[str]:
        name = host.lower().rstrip(".")
        try:
            return [str(ipaddress.ip_address(name))]
        except ValueError:
            pass
        if name in self._hosts:
            return list(self._hosts[name])
        if name == "localhost" or name.endswith(".localhost"):
            return ["127.0.0.1"]
        try:
            return _spelled(
                socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            )
        except (OSError, ValueError):
            return []

    def _from_dns(self, host: str, port: int, timeout_s: float | None) -> list[str]:
        if not self._room.acquire(timeout=timeout_s if timeout_s is not None else -1):
            raise FetchError("no answer from DNS: too many names are being asked for")
        answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(self._lookup(host, port))
            except (OSError, ValueError) as error:
                answers.put(error)
            finally:
                self._room.release()

        # A daemon thread of its own: a lookup cannot be stopped, and must not hold up the exit.
        threading.Thread(target=ask, name="dns", daemon=True).start()
        try:
            answer = answers.get(timeout=timeout_s)
        except queue.Empty:
            raise FetchError(f"no answer from DNS in {timeout_s:.3g}s") from None
        if isinstance(answer, Exception):
            again = isinstance(answer, socket.gaierror) and answer.errno == socket.EAI_AGAIN
            reason = "DNS does not answer" if again else "name does not resolve"
            raise FetchError(reason) from answer
        if not answer:
            raise FetchError("name does not resolve")
        return answer


def _spelled(answer: list[tuple[Any, ...]]) -> list[str]:
    """Each address of a `getaddrinfo` answer once, in plain spelling."""
    return list(dict.fromkeys(str(ipaddress.ip_address(row[4][0])) for row in answer))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise SettingsError(f"allow_nets: {error}; write for example 127.0.0.0/8") from error


def _read_hosts(path: Path) -> dict[str, list[str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"hosts_file: cannot read {path}: {error}") from error
    hosts: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        address, *names = line.partition("#")[0].split() or [""]
        if not address:
            continue
        try:
            spelled = str(ipaddress.ip_address(address))
        except ValueError as error:
            raise SettingsError(f"hosts_file: {path} line {number}: {error}") from error
        for name in names:
            hosts.setdefault(name.lower().rstrip("."), []).append(spelled)
    return hosts
