"""The standard proxy variables: which proxy, if any, a request goes through."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit
from urllib.request import (  # type: ignore[attr-defined]  # typeshed lacks the second
    getproxies_environment,
    proxy_bypass_environment,
)

from throttle.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where a proxy listens, and what it wants to know."""

    host: str
    port: int
    login: tuple[str, str] | None = None


class Proxies:
    """The proxies for `http` and `https` URLs, and the hosts in `no` that are reached directly.

    `variables` is what `from_environment` reads: URLs under `http` and `https`, and the list under
    `no`. Raises `SettingsError` for a proxy that is not an `http://` URL.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._by_scheme = {
            scheme: _parse(scheme, variables[scheme])
            for scheme in ("http", "https")
            if variables.get(scheme)
        }
        self._variables = dict(variables)

    @classmethod
    def from_environment(cls) -> "Proxies":
        """`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, in either case.

        `HTTP_PROXY` in capitals is ignored where `REQUEST_METHOD` is set: there a client's `Proxy`
        header could have set it.
        """
        return cls(getproxies_environment())

    def chosen(self, scheme: str, host: str, port: int) -> Proxy | None:
        """The proxy for a request, or None to dial the host itself."""
        proxy = self._by_scheme.get(scheme)
        if proxy and proxy_bypass_environment(f"{host}:{port}", self._variables):
            return None
        return proxy


def _parse(scheme: str, text: str) -> Proxy:
    # The value may hold a password, so no message shows it.
    name = f"{scheme.upper()}_PROXY"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port or 80
    except ValueError as error:
        raise SettingsError(f"{name} is not a URL; write for example http://proxy:3128") from error
    if parts.scheme != "http" or not parts.hostname:
        raise SettingsError(f"{name} must be an http:// URL; write for example http://proxy:3128")
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return Proxy(parts.hostname, port, login)
