"""Where webhooks may be sent to (D55).

The URL is parsed here only, and the name is resolved once for each attempt, so that what is judged is what
is connected to.
"""

import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError

from petstore.addresses import DEFAULT_PORTS, split_url

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# `ipaddress.is_global` differs between versions of Python, so the registries of IANA are repeated here.
FORBIDDEN_IPV4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
        "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip
GLOBAL_IPV6 = IPv6Network("2000::/3")
# Protocol assignments with Teredo, documentation, 6to4, and AS112.
FORBIDDEN_IPV6 = [
    IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
]
# Forms that stand for the IPv4 address in their last 32 bits: IPv4-mapped, and NAT64 (RFC 6052).
EMBEDDING_IPV4 = [IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")]
HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|[0-9a-f:]*:[0-9a-f:.]*")
UNSAFE = re.compile(r"[\x00-\x20\x7f\\#]")
RESOLVE_SECONDS = 1.0  # When an endpoint is saved. The forms of other customers wait for this one.


class UnresolvableError(OSError):
    """The host name has no address."""


class ForbiddenError(OSError):
    """The host has an address that webhooks may not be sent to."""


class Target(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str  # With the query.


class ResolvedAddress(NamedTuple):
    family: int
    sockaddr: tuple[Any, ...]

    @property
    def address(self) -> Address:
        return parse_address(self.sockaddr[0])


def parse_address(text: str) -> Address:
    """Parse an address as sockets report it, and unwrap an IPv4 address that it embeds."""
    address = ip_address(text.partition("%")[0])
    if any(address in network for network in EMBEDDING_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def normalize_url(url: str) -> str:
    """Return the URL in ASCII. Raises ValueError, with a message for people, unless it is acceptable."""
    parts = split_url(url)
    if parts is None or UNSAFE.search(url) or not HOST.fullmatch(parts.hostname or ""):
        raise ValueError("Enter a valid URL, such as https://example.com/webhooks, without a fragment.")
    if "@" in parts.netloc:
        raise ValueError("The URL must not contain a user name or password.")
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError("The URL must start with https://.")
    return parts._replace(path=parts.path or "/").geturl()


def parse_url(url: str) -> Target:
    """Split a normalized URL."""
    parts = split_url(normalize_url(url))
    assert parts is not None
    path = parts._replace(scheme="", netloc="").geturl()
    # A path such as //host would be a host for a proxy.
    path = "/" + path.lstrip("/") if path.startswith("//") else path
    return Target(parts.scheme, parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme], path)


@dataclass(frozen=True)
class Policy:
    """The operator's settings for outgoing requests."""

    allowed_networks: tuple[Network, ...] = ()
    proxy: str = ""  # host:port. The proxy resolves and judges host names.
    resolver: Callable[..., Iterable[Any]] = socket.getaddrinfo

    def allows(self, address: Address) -> bool:
        """Return whether the operator allows the address. Local ones need an exact entry."""
        networks = [network for network in self.allowed_networks if address in network]
        if address.is_loopback or address.is_link_local or address.is_unspecified:
            return any(network.num_addresses == 1 for network in networks)
        return bool(networks)

    def permits(self, address: Address, scheme: str) -> bool:
        if self.allows(address):
            return True
        if isinstance(address, IPv4Address):
            is_public = not any(address in network for network in FORBIDDEN_IPV4)
        else:
            is_public = address in GLOBAL_IPV6 and not any(address in network for network in FORBIDDEN_IPV6)
        return is_public and scheme == "https"

    def resolve(self, target: Target, timeout: float) -> list[ResolvedAddress]:
        """Resolve the host, and judge each of its addresses. With a proxy, judge only a literal address.

        Raises ForbiddenError, UnresolvableError, or TimeoutError.
        """
        flags = socket.AI_NUMERICHOST if self.proxy else 0
        resolved = self.look_up(target.host, target.port, timeout, flags)
        if not resolved and not self.proxy:
            raise UnresolvableError
        if not resolved and target.scheme == "http":
            raise ForbiddenError
        if not all(self.permits(each.address, target.scheme) for each in resolved):
            raise ForbiddenError
        return resolved

    def look_up(self, host: str, port: int, timeout: float, flags: int = 0) -> list[ResolvedAddress]:
        """Return the addresses of a host, perhaps none. Raises TimeoutError.

        A thread of its own asks the resolver, since nothing can interrupt it.
        """
        results: SimpleQueue[list[ResolvedAddress]] = SimpleQueue()

        def ask() -> None:
            try:
                found = self.resolver(host, port, type=socket.SOCK_STREAM, flags=flags)
                results.put([ResolvedAddress(family, sockaddr) for family, _, _, _, sockaddr in found])
            except (OSError, UnicodeError):
                results.put([])

        Thread(target=ask, name="webhook name", daemon=True).start()
        try:
            return results.get(timeout=timeout)
        except Empty:
            raise TimeoutError from None


def get_policy() -> Policy:
    """Return the operator's settings for outgoing requests."""
    networks = tuple(map(ip_network, settings.WEBHOOK_ALLOW_NETWORKS))
    return Policy(networks, settings.WEBHOOK_PROXY)


class CheckedURL(str):
    """A URL that `check_url` has accepted, so that a page can check it before it locks the account."""

    __slots__ = ()


def check_url(url: str) -> CheckedURL:
    """Return the URL in its normal form.

    Raises ValidationError if it is malformed, if webhooks may not be sent to one of its addresses, or if it
    has none. Without a proxy, this asks the name servers, for up to RESOLVE_SECONDS.
    """
    if isinstance(url, CheckedURL):
        return url
    try:
        url = normalize_url(url.strip())
        get_policy().resolve(parse_url(url), RESOLVE_SECONDS)
    except ForbiddenError:
        message = "Webhooks can only be sent to public addresses, with https."
        raise ValidationError({"url": message}) from None
    except OSError:
        raise ValidationError({"url": "The host name of this URL can't be resolved."}) from None
    except ValueError as error:
        raise ValidationError({"url": str(error)}) from None
    return CheckedURL(url)
