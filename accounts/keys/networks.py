"""The networks that a key may be used from (D18), stored as a list of CIDR texts."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from django.core.exceptions import ValidationError

from petstore.api.client_ip import Address

Network = IPv4Network | IPv6Network
MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291 section 2.5.5.2.


def normalize(networks: Iterable[str]) -> list[str]:
    """Convert to canonical form. Raises ValidationError for an invalid network."""
    found = []
    for text in networks:
        try:
            found.append(str(unmapped(ip_network(str(text).strip()))))
        except ValueError as error:
            raise ValidationError(f"Not a network in CIDR form: {error}.") from None
    return found


def unmapped(network: Network) -> Network:
    """Unmap an IPv4-mapped IPv6 network, since client addresses are unmapped, too."""
    if isinstance(network, IPv6Network) and network.subnet_of(MAPPED):
        start = network.network_address.ipv4_mapped
        return IPv4Network((int(start or 0), network.prefixlen - MAPPED.prefixlen))
    return network


def is_allowed(address: Address, networks: Iterable[str]) -> bool:
    """Whether the address is in one of the networks. An empty list allows every address."""
    networks = list(networks)
    return not networks or any(address in ip_network(network) for network in networks)


def validate_networks(value: object) -> None:
    """Validate a model field."""
    if not isinstance(value, list) or any(str(text) != str(text).strip() for text in value):
        raise ValidationError("The networks must be a list of CIDR texts, without blanks around them.")
    normalize(value)
