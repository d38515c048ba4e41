"""The client's address, as far as trusted proxies report it."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest

Address = IPv4Address | IPv6Address

# The network that limits count for: providers give a customer at least a /64.
IPV4_PREFIX, IPV6_PREFIX = 32, 64
NO_ADDRESS = IPv4Address("0.0.0.0")  # noqa: S104  Never bound to; stands for an unknown peer.
BRACKETED_OR_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([0-9.]+):\d+")
MAX_ADDRESS_LENGTH = 64  # Characters; enough for an IPv6 address with zone index and port.


def parse_address(text: str) -> Address | None:
    """Parse an IP address, ignoring its port and zone index. Returns None for any other text."""
    text = text.strip()
    return _parse_cached(text) if len(text) <= MAX_ADDRESS_LENGTH else None


@lru_cache(maxsize=4096)
def _parse_cached(text: str) -> Address | None:
    if match := BRACKETED_OR_WITH_PORT.fullmatch(text):
        text = match[1] or match[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        address = IPv6Address(int(address))  # Drops the zone index.
        return address.ipv4_mapped or address
    return address


def get_client_address(request: HttpRequest) -> Address:
    """Return the client's address (D25).

    Only the last TRUSTED_PROXY_COUNT elements of X-Forwarded-For count, since the client may have sent the
    others. A malformed element ends the search, and `check_head` rejects the request.
    """
    address = parse_address(request.META.get("REMOTE_ADDR", "")) or NO_ADDRESS
    for hop in get_trusted_hops(request):
        forwarded = parse_address(hop)
        if forwarded is None:
            break
        address = forwarded
    return address


def get_trusted_hops(request: HttpRequest) -> list[str]:
    """Return the elements of X-Forwarded-For that trusted proxies wrote, nearest first."""
    count = settings.TRUSTED_PROXY_COUNT
    hops: list[str] = request.META.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", count)
    return hops[: -count - 1 : -1]


def get_client_network(request: HttpRequest) -> str:
    """Return the network that limits per client address count for: an IPv4 address or an IPv6 /64."""
    return get_network(get_client_address(request))


def get_network(address: Address) -> str:
    if address.version == 4:
        return f"{address}/{IPV4_PREFIX}"
    host_bits = 128 - IPV6_PREFIX
    return f"{IPv6Address(int(address) >> host_bits << host_bits)}/{IPV6_PREFIX}"
