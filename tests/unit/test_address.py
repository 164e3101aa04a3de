"""The address guard refuses everything inside our own networks, however it is spelled."""

import ipaddress
import socket
import threading
import time
from pathlib import Path

import pytest

from throttle.crawl.address import Resolver, look_up, refusal
from throttle.errors import AddressRefused, FetchError, SettingsError

REFUSED = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1"],
    "link-local": ["169.254.1.1", "fe80::1", "febf::1", "fe80::1%eth0"],
    "metadata": [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
    ],
    "unspecified": ["0.0.0.0", "::"],
    "this network": ["0.1.2.3"],
    "carrier-grade NAT": ["100.64.0.1", "100.100.100.100", "100.127.255.255"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "broadcast": ["255.255.255.255"],
    "reserved": ["240.0.0.1", "192.0.0.1", "100::1", "4000::1", "2001:20::1", "5f00::1"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "benchmarks": ["198.18.0.1", "198.19.255.255"],
    "6to4": ["192.88.99.1", "2002:7f00:1::", "2002:0808:0808::1"],
    "written as IPv6": [
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "::ffff:a9fe:a9fe",
        "::ffff:8.8.8.8",
        "::169.254.169.254",
        "::7f00:1",
        "::ffff:0:127.0.0.1",
    ],
    "NAT64": ["64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::1"],
    "Teredo": ["2001:0:4136:e378:8000:63bf:3fff:fdd2"],
    "site-local": ["fec0::1"],
    "ISATAP": ["2a00:1::5efe:7f00:1", "2a00:1::200:5efe:808:808"],
}

# Each ends as 127.0.0.1 or 169.254.169.254 or the unspecified address once the system reads it.
SPELLINGS = [
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7F.1",
    "017700000001",
    "0177.0.0.1",
    "0177.0.1",
    "127.1",
    "127.0.1",
    "127.0.0.1.",
    "0",
    "0x0",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "127.0.0.1",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::FFFF:127.0.0.1",
    "\uff11\uff12\uff17.0.0.1",
    "①②⑦.⓪.⓪.①",
    "localhost",
    "LocalHost.",
    "a.localhost",
]


def _no_dns(host: str, port: int) -> list[str]:
    raise AssertionError(f"DNS was asked for {host}:{port}")


@pytest.mark.parametrize(
    ("word", "address"), [(word, a) for word, addresses in REFUSED.items() for a in addresses]
)
def test_an_address_inside_our_networks_is_refused_with_its_reason(word: str, address: str) -> None:
    """No request goes to a private, local, reserved or tunnelled address."""
    assert word in (refusal(ipaddress.ip_address(address)) or "")


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.216.34",
        "172.32.0.1",
        "172.15.255.255",
        "100.63.255.255",
        "100.128.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "126.255.255.255",
        "128.0.0.1",
        "169.253.255.255",
        "192.0.1.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450:4001::1",
        "2400:cb00::1",
        "64:ff9b::8.8.8.8",
    ],
)
def test_a_public_address_may_be_dialled(address: str) -> None:
    """The guard ends exactly where the public networks begin."""
    assert refusal(ipaddress.ip_address(address)) is None


def test_the_operator_opens_networks_one_by_one() -> None:
    """`allow_nets` opens what it names and nothing beside it."""
    nets = [ipaddress.ip_network("127.0.0.2/32"), ipaddress.ip_network("fd00::/8")]
    assert refusal(ipaddress.ip_address("127.0.0.2"), nets) is None
    assert refusal(ipaddress.ip_address("fd00::5"), nets) is None
    assert refusal(ipaddress.ip_address("64:ff9b::127.0.0.2"), nets) is None
    for other in ("127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.2"):
        assert refusal(ipaddress.ip_address(other), nets)


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_of_a_local_address_passes(host: str) -> None:
    """Decimal, hexadecimal, octal, short and full-width spellings are read before judging."""
    with pytest.raises(AddressRefused) as caught:
        Resolver().addresses(host, 80)
    assert not caught.value.sent
    assert caught.value.reason.isprintable()
    assert len(caught.value.reason) <= 200


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_local_address_behind_a_proxy_is_refused_without_dns(host: str) -> None:
    """A proxy cannot be sent to our own networks by a literal address."""
    with pytest.raises(AddressRefused):
        Resolver(lookup=_no_dns).without_dns(host, 80)


def test_a_public_name_behind_a_proxy_needs_no_dns() -> None:
    """Where a proxy resolves, no name is looked up here."""
    assert Resolver(lookup=_no_dns).without_dns("a.example", 80) == []


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["93.184.216.34", "127.0.0.1"],
        ["127.0.0.1", "93.184.216.34"],
        ["2606:4700::1111", "fe80::1"],
        ["93.184.216.34", "::ffff:10.0.0.1"],
    ],
)
def test_one_private_record_refuses_the_whole_answer(answer: list[str]) -> None:
    """A name with public and private records is not fetched from either."""
    with pytest.raises(AddressRefused):
        Resolver(lookup=lambda _host, _port: answer).addresses("mixed.example", 80)


def test_a_second_answer_is_checked_like_the_first() -> None:
    """A name that turns private between two requests is refused at the second."""
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    resolver = Resolver(lookup=lambda _host, _port: answers.pop(0))
    assert resolver.addresses("turning.example", 80) == ["93.184.216.34"]
    with pytest.raises(AddressRefused):
        resolver.addresses("turning.example", 80)


def test_the_hosts_file_comes_before_dns_and_is_guarded(tmp_path: Path) -> None:
    """Names in the hosts file need no DNS, and their addresses are judged like any other."""
    hosts = tmp_path / "hosts"
    hosts.write_text(
        "# our sites\n\n127.0.0.2 a.example B.example. # two\n93.184.216.34\tpublic.example\n"
        "93.184.216.34 mixed.example\n127.0.0.2 mixed.example\n::1 a.example\n"
    )
    opened = Resolver(str(hosts), ("127.0.0.0/8", "::1/128"), lookup=_no_dns)
    assert opened.addresses("A.example", 80) == ["127.0.0.2", "::1"]
    assert opened.addresses("b.example", 80) == ["127.0.0.2"]
    shut = Resolver(str(hosts), lookup=_no_dns)
    assert shut.addresses("public.example", 80) == ["93.184.216.34"]
    for host in ("a.example", "mixed.example"):
        with pytest.raises(AddressRefused):
            shut.addresses(host, 80)


@pytest.mark.parametrize("text", ["127.0.0.1", "one line\nnot an address a.example\n"])
def test_a_hosts_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    """A wrong hosts file stops the start, saying where it is wrong."""
    hosts = tmp_path / "hosts"
    if "\n" in text:
        hosts.write_text(text)
    with pytest.raises(SettingsError, match="hosts_file"):
        Resolver(str(hosts))


def test_a_network_that_is_none_is_named() -> None:
    """A wrong `allow_nets` stops the start instead of opening something else."""
    with pytest.raises(SettingsError, match="allow_nets"):
        Resolver(allow_nets=("127.0.0.1/8",))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (socket.gaierror(socket.EAI_NONAME, "no"), "name does not resolve"),
        (socket.gaierror(socket.EAI_AGAIN, "later"), "DNS does not answer"),
        (UnicodeError("label too long"), "name does not resolve"),
    ],
)
def test_a_name_without_address_fails_in_plain_words(error: Exception, reason: str) -> None:
    """A host that cannot be found is one failed fetch, never a crash."""

    def failing(_host: str, _port: int) -> list[str]:
        raise error

    with pytest.raises(FetchError) as caught:
        Resolver(lookup=failing).addresses("a.example", 80)
    assert caught.value.reason == reason
    with pytest.raises(FetchError, match="does not resolve"):
        Resolver(lookup=lambda _host, _port: []).addresses("a.example", 80)


def test_a_label_that_is_too_long_does_not_resolve() -> None:
    """The system's own resolver is asked, and what it raises is wrapped."""
    with pytest.raises(FetchError, match="does not resolve"):
        Resolver(lookup=look_up).addresses("a" * 64 + ".example", 80)


def test_dns_that_hangs_ends_in_time() -> None:
    """A resolver that never answers costs the time given and no more."""
    release = threading.Event()

    def hanging(_host: str, _port: int) -> list[str]:
        release.wait(30)
        return ["93.184.216.34"]

    began_s = time.monotonic()
    try:
        with pytest.raises(FetchError, match=r"no answer from DNS in 0\.05s"):
            Resolver(lookup=hanging).addresses("slow.example", 80, timeout_s=0.05)
    finally:
        release.set()
    assert 0.04 < time.monotonic() - began_s < 0.6


def test_an_operators_own_proxy_is_not_guarded() -> None:
    """The proxy stands where the operator says, also inside our networks."""
    assert Resolver().unchecked("127.0.0.1", 3128) == ["127.0.0.1"]
