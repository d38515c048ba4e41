"""The networks that a key may be used from (D18), stored as a list in CIDR notation."""

from collections.abc import Collection, Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from django.core.exceptions import ValidationError

from petstore.api.client_ip import Address

Network = IPv4Network | IPv6Network
IPV4_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291 section 2.5.5.2.


def normalize(networks: Iterable[str]) -> list[str]:
    """Convert networks to their canonical form. Raises ValidationError for an invalid network."""
    try:
        return [str(unmap(ip_network(str(network).strip()))) for network in networks]
    except ValueError as error:
        raise ValidationError(f"Not a network in CIDR form: {error}.") from None


def unmap(network: Network) -> Network:
    """Convert an IPv4-mapped IPv6 network to IPv4, like client addresses."""
    if isinstance(network, IPv6Network) and network.subnet_of(IPV4_MAPPED):
        address = network.network_address.ipv4_mapped
        return IPv4Network((int(address or 0), network.prefixlen - IPV4_MAPPED.prefixlen))
    return network


def is_allowed(address: Address, networks: Collection[str]) -> bool:
    """Whether the address is in one of the networks. An empty collection allows every address."""
    return not networks or any(address in ip_network(network) for network in networks)


def validate_networks(value: object) -> None:
    if not isinstance(value, list) or any(str(network) != str(network).strip() for network in value):
        raise ValidationError("Enter a list of networks in CIDR form, without surrounding spaces.")
    normalize(value)
