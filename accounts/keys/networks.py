"""The networks that a key may be used from (D18), stored as a list of CIDR texts."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from django.core.exceptions import ValidationError

from petstore.api.client_ip import Address

Network = IPv4Network | IPv6Network
MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291 section 2.5.5.2.


def normalise(networks: Iterable[str]) -> list[str]:
    """Return each network in its canonical form. Raises ValidationError for one that is none."""
    found = []
    for text in networks:
        try:
            found.append(str(unmapped(ip_network(str(text).strip()))))
        except ValueError as error:
            raise ValidationError(f"Not a network in CIDR form: {error}.") from None
    return found


def unmapped(network: Network) -> Network:
    """Return the IPv4 network that an IPv4-mapped IPv6 one stands for: addresses come unmapped, too."""
    if isinstance(network, IPv6Network) and network.subnet_of(MAPPED):
        start = network.network_address.ipv4_mapped
        return IPv4Network((int(start or 0), network.prefixlen - MAPPED.prefixlen))
    return network


def allowed(address: Address, networks: Iterable[str]) -> bool:
    """Tell whether the address lies in one of the networks; no network at all allows every one."""
    networks = list(networks)
    return not networks or any(address in ip_network(network) for network in networks)


def validate_networks(value: object) -> None:
    """Refuse what is no list of CIDR texts; a model field's validator."""
    if not isinstance(value, list) or any(str(text) != str(text).strip() for text in value):
        raise ValidationError("The networks must be a list of CIDR texts, without blanks around them.")
    normalise(value)
