"""The networks that a key may be used from (D18), stored as a list in CIDR notation."""

from collections.abc import Collection, Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

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
    """Return whether the address is in one of the networks. An empty collection allows every address."""
    return not networks or any(address in ip_network(network) for network in networks)


def narrow(current: Collection[str], new: Iterable[str]) -> list[str]:
    """Normalize the new networks. Raises ValidationError if one is invalid, or if they allow more."""
    narrowed = list(dict.fromkeys(normalize(new)))
    if current and not narrowed:
        raise ValidationError("An empty list would allow every address. Name at least one network.")
    for inner in map(ip_network, narrowed):
        outer: Iterable[Any] = map(ip_network, current)  # subnet_of raises TypeError for another version.
        if current and not any(inner.version == net.version and inner.subnet_of(net) for net in outer):
            raise ValidationError(f"{inner} is not within the allowed networks: {', '.join(current)}.")
    return list(current) if set(narrowed) == set(current) else narrowed


def validate_networks(value: object) -> None:
    if not isinstance(value, list) or any(str(network) != str(network).strip() for network in value):
        raise ValidationError("Enter a list of networks in CIDR form, without surrounding spaces.")
    normalize(value)
