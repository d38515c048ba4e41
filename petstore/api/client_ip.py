"""The client's address, as far as trusted proxies report it."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

Address = IPv4Address | IPv6Address

NO_ADDRESS = IPv4Address("0.0.0.0")  # noqa: S104  Never bound to: stands for the peer of a Unix socket.
WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([0-9.]+):\d+")


MAX_LENGTH = 64  # Characters; enough for an IPv6 address with zone index and port.


def parse(text: str) -> Address | None:
    """Parse one X-Forwarded-For element, ignoring a port. Returns None if it is not an address."""
    text = text.strip()
    return parse_cached(text) if len(text) <= MAX_LENGTH else None


@lru_cache(maxsize=4096)
def parse_cached(text: str) -> Address | None:
    if match := WITH_PORT.fullmatch(text):
        text = match[1] or match[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        address = IPv6Address(int(address))  # Without a zone index.
        return address.ipv4_mapped or address
    return address


def client_address(request: HttpRequest) -> Address:
    """Return the client's address (D25).

    Only the last TRUSTED_PROXY_COUNT elements of X-Forwarded-For count; the rest is client input. At a
    malformed element the search stops, and the nearest known hop is used: `check_head` rejects such
    requests.
    """
    address = parse(request.META.get("REMOTE_ADDR", "")) or NO_ADDRESS
    for hop in trusted_hops(request):
        forwarded = parse(hop)
        if forwarded is None:
            break
        address = forwarded
    return address


def trusted_hops(request: HttpRequest) -> list[str]:
    """Return the elements of X-Forwarded-For that trusted proxies wrote, nearest first."""
    count = settings.TRUSTED_PROXY_COUNT
    hops: list[str] = request.META.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", count)
    return hops[: -count - 1 : -1]


def client_network(request: HttpRequest) -> str:
    """Return the network of the anonymous limit: an IPv4 address or an IPv6 /64."""
    return network_of(client_address(request))


def network_of(address: Address) -> str:
    prefix = 64 if address.version == 6 else 32
    return str(ip_network((address, prefix), strict=False))
