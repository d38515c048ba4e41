"""Who is on the other end of the connection, as far as our own proxies can be believed."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

Address = IPv4Address | IPv6Address

NO_ADDRESS = IPv4Address("0.0.0.0")  # noqa: S104  Not bound to: the peer of a Unix socket has no address.
WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([0-9.]+):\d+")


MAX_LENGTH = 64  # Characters: an IPv6 address with zone index and port is shorter.


def parse(text: str) -> Address | None:
    """Return the address in one X-Forwarded-For element, or None; a port is dropped."""
    text = text.strip()
    return parse_cached(text) if len(text) <= MAX_LENGTH else None


@lru_cache(maxsize=4096)
def parse_cached(text: str) -> Address | None:
    """Return the address in a text without blanks around it, or None."""
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
    """Return the client's address.

    X-Forwarded-For counts only as far as `TRUSTED_PROXY_COUNT` proxies, from the right: what stands
    further left was written by the client (D25). An element that is no address ends the search, and
    the nearest hop that is known stands for the client: `check_head` rejects such a request.
    """
    address = parse(request.META.get("REMOTE_ADDR", "")) or NO_ADDRESS
    for hop in trusted_hops(request):
        forwarded = parse(hop)
        if forwarded is None:
            break
        address = forwarded
    return address


def trusted_hops(request: HttpRequest) -> list[str]:
    """Return what the trusted proxies wrote into X-Forwarded-For, the nearest first."""
    count = settings.TRUSTED_PROXY_COUNT
    hops: list[str] = request.META.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", count)
    return hops[: -count - 1 : -1]


def client_network(request: HttpRequest) -> str:
    """Return what one client without a key is counted by: its IPv4 address or its IPv6 /64."""
    return network_of(client_address(request))


def network_of(address: Address) -> str:
    """Return the network that counts as one client."""
    prefix = 64 if address.version == 6 else 32
    return str(ip_network((address, prefix), strict=False))
