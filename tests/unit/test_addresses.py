"""The client's address behind proxies (D25)."""

from contextlib import nullcontext
from ipaddress import ip_address
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from petstore.api.client_ip import NO_ADDRESS, get_client_address, get_client_network, parse_address
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.request_headers import UNREADABLE, check_head


def request(peer: str, forwarded: str | None = None) -> HttpRequest:
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    return RequestFactory().get("/", REMOTE_ADDR=peer, headers=headers)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "client"),
    [
        (0, None, "10.0.0.9"), (0, "192.0.2.1", "10.0.0.9"), (1, None, "10.0.0.9"), (1, "", "10.0.0.9"),
        (1, "192.0.2.1", "192.0.2.1"), (1, "192.0.2.1, 192.0.2.2", "192.0.2.2"),
        (2, "192.0.2.9, 192.0.2.1, 192.0.2.2", "192.0.2.1"), (2, "192.0.2.2", "192.0.2.2"),
        (2, "unknown, 192.0.2.2", "192.0.2.2"), (2, "192.0.2.1, unknown", "10.0.0.9"),
        (1, "192.0.2.1 192.0.2.2", "10.0.0.9"),
    ],
)  # fmt: skip
def test_only_addresses_of_trusted_proxies_count(
    settings: Any, proxies: int, forwarded: str | None, client: str
) -> None:
    settings.TRUSTED_PROXY_COUNT = proxies
    assert get_client_address(request("10.0.0.9", forwarded)) == ip_address(client)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "is_valid"),
    [
        (0, UNREADABLE, True), (0, "unknown", True), (2, None, True), (1, "[2001:db8::1]:4711", True),
        (1, "\xe9, 192.0.2.1", True), (1, "unknown, , 192.0.2.1", True),
        (2, "unknown, 192.0.2.1, 192.0.2.2", True),
        (1, UNREADABLE, False), (1, "", False), (1, "unknown", False), (1, "192.0.2.1,", False),
        (2, "192.0.2.1", False), (2, "192.0.2.1, unknown", False), (2, ", 192.0.2.1", False),
        (3, "192.0.2.1, 192.0.2.2", False),
    ],
)  # fmt: skip
def test_head_needs_one_forwarded_address_per_trusted_proxy(
    settings: Any, proxies: int, forwarded: str | None, is_valid: bool
) -> None:
    settings.TRUSTED_PROXY_COUNT = proxies
    with nullcontext() if is_valid else pytest.raises(ApiError) as raised:
        check_head(request("10.0.0.9", forwarded))
    assert raised is None or raised.value.code is ErrorCode.INVALID_PARAMETER


def test_unix_socket_peer_has_no_address() -> None:
    for peer in ("", "unix:", "not an address"):
        assert get_client_address(request(peer)) == NO_ADDRESS


def test_address_is_parsed_in_every_proxy_format() -> None:
    formats = {
        "192.0.2.1": [
            "192.0.2.1",
            "  192.0.2.1\t",
            "192.0.2.1:4711",
            "::ffff:192.0.2.1",
            "[::ffff:192.0.2.1]:1",
        ],
        "2001:db8::1": ["2001:db8::1", "[2001:db8::1]:4711"],
        "fe80::1": ["fe80::1%eth0", "[fe80::1%eth0]:4711"],
    }
    for address, texts in formats.items():
        assert {parse_address(text) for text in texts} == {ip_address(address)}


def test_invalid_address_is_none() -> None:
    for text in (
        "", "unknown", "192.0.2", "192.0.2.1:", "192.0.2.1/24", "192.0.2.01", "3221225985", "١٩٢.0.2.1",
        "[2001:db8::1", "2001:db8::1]:80", "192.0.2.1\0", "[]", "9" * 10_000,
    ):  # fmt: skip
        assert parse_address(text) is None, text[:50]


def test_client_network_is_an_ipv4_address_or_an_ipv6_64() -> None:
    for peer, network in {
        "192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32",
        "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:3::": "2001:db8:1:3::/64",
        "fe80::1%eth0": "fe80::/64",
    }.items():  # fmt: skip
        assert get_client_network(request(peer)) == network
