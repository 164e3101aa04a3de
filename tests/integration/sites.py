"""Raw HTTP servers on loopback that answer what a test says, and a fetcher that may dial them."""

import datetime as dt
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpcore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from throttle.crawl.address import Resolver
from throttle.crawl.fetcher import Fetcher
from throttle.crawl.proxies import Proxies
from throttle.errors import FetchError
from throttle.model import Response

AGENT = "examplebot (+http://bot.example/)"
LOOPBACK = ("127.0.0.0/8", "::1/128")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMIT = 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\n"

# Made once, since loading the authorities takes long.
TRUST = httpcore.default_ssl_context()

Handler = Callable[[socket.socket], Any]


class Site:
    """A raw listener: gives each connection to `handler` and keeps every byte it received."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.closed = threading.Event()
        self._handler = handler
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(sock,), daemon=True).start()

    def _one(self, sock: socket.socket) -> None:
        sock.settimeout(10)
        try:
            if self._tls:
                sock = self._tls.wrap_socket(sock, server_side=True)
            with sock:
                self._handler(sock)
        except OSError:
            sock.close()

    def close(self) -> None:
        """Stop listening."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


def request_of(sock: socket.socket) -> bytes:
    """The head of one request, as it came."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = sock.recv(65536)
        if not piece:
            break
        data += piece
    return data


def fetcher(**given: Any) -> Fetcher:
    """A fetcher that may dial loopback and knows no proxy, with short timeouts."""
    return Fetcher(
        **{
            "user_agent": AGENT,
            "resolver": Resolver(allow_nets=LOOPBACK),
            "timeout_s": 5.0,
            "connect_timeout_s": 2.0,
            "body_limit": LIMIT,
            "proxies": Proxies({}),
            "ssl_context": TRUST,
            **given,
        }
    )


def get(url: str, **given: Any) -> Response:
    """One fetch that is allowed to send."""
    return fetcher(**given).fetch(url, may_send=lambda: None)


def failure(url: str, **given: Any) -> FetchError:
    """The error of one fetch that must fail; its reason is fit for a log line."""
    with pytest.raises(FetchError) as caught:
        get(url, **given)
    assert caught.value.reason.isprintable()
    assert 0 < len(caught.value.reason) <= 200
    return caught.value


def answered(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def drip(*, head: bytes = b"", piece: bytes, every_s: float = 0.02) -> Handler:
    """Send `head`, then `piece` for ever, slowly."""

    def handle(sock: socket.socket) -> None:
        sock.sendall(head)
        while True:
            sock.sendall(piece)
            time.sleep(every_s)

    return handle


class Certificate:
    """A site's certificate for site.example, made for one run, and who trusts it."""

    def __init__(self, folder: Path, name: str = "site.example") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        names = x509.SubjectAlternativeName(
            [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.2"))]
        )
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        certificate = folder / "site.pem"
        certificate.write_bytes(
            made.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        self.asked_names: list[str | None] = []
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(certificate)
        self.server.sni_callback = lambda _sock, sni, _context: self.asked_names.append(sni)
        self.client = ssl.create_default_context(cafile=str(certificate))
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 site.example other.example\n")
        self.resolver = Resolver(str(hosts), LOOPBACK)
