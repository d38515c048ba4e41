"""Which URLs and addresses webhooks may be sent to (D55)."""

from ipaddress import ip_network
from threading import Event
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from accounts.webhooks import targets
from accounts.webhooks.targets import (
    ForbiddenError,
    Policy,
    Target,
    UnresolvableError,
    check_url,
    normalize_url,
    parse_address,
    parse_url,
)
from petstore.site.middleware import FORM_QUEUE_SECONDS

FORBIDDEN = """
    0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255
    192.0.0.8 192.0.0.170 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.168.1.1 192.175.48.1
    198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::93.184.216.34 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:0:127.0.0.1
    64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b:1::1 64:ff9b:1::5db8:d822 100::1 100:0:0:1::1
    2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1 2001:1ff:ffff::1
    2001:db8::1 2002:7f00:1:: 2002:5db8:d822::1 2620:4f:8000::1 3fff::1 4000::1 5f00::1
    fc00::1 fd12:3456::1 fe80::1 fe80::1%eth0 febf::1 fec0::1 ff02::1 ff0e::1
""".split()
PUBLIC = """
    1.1.1.1 93.184.216.34 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 198.17.0.1 198.20.0.1
    223.255.255.255 ::ffff:93.184.216.34 64:ff9b::5db8:d822 2001:200::1 2001:4860:4860::8888 2600::1 2a00::1
    2003::1 3ffe::1
""".split()


def resolving_to(*addresses: str) -> Policy:
    found: Any = [(2, 1, 6, "", (address, 443)) for address in addresses]
    return Policy(resolver=lambda *_, **__: found)


def test_addresses_that_are_not_public_are_forbidden() -> None:
    assert [each for each in FORBIDDEN if Policy().permits(parse_address(each), "https")] == []


def test_public_addresses_are_permitted_with_https_only() -> None:
    assert [each for each in PUBLIC if Policy().permits(parse_address(each), "https")] == PUBLIC
    assert [each for each in PUBLIC if Policy().permits(parse_address(each), "http")] == []


@pytest.mark.parametrize(
    ("network", "address", "permitted"),
    [
        ("10.20.0.0/16", "10.20.3.4", True), ("10.20.0.0/16", "10.21.0.1", False),
        ("10.20.0.0/16", "::ffff:10.20.3.4", True), ("10.20.0.0/16", "64:ff9b::10.20.3.4", True),
        ("fd00::/8", "fd12::1", True),
        ("127.0.0.1/32", "127.0.0.1", True), ("127.0.0.0/8", "127.0.0.1", False),
        ("0.0.0.0/0", "127.0.0.1", False), ("0.0.0.0/0", "0.0.0.0", False),
        ("::1/128", "::1", True), ("::/0", "::1", False), ("::/0", "::", False),
        ("169.254.169.254/32", "169.254.169.254", True), ("169.254.0.0/16", "169.254.169.254", False),
        ("fe80::/10", "fe80::1", False),
    ],
)  # fmt: skip
def test_operator_allows_networks_but_local_ones_by_address_only(
    network: str, address: str, permitted: bool
) -> None:
    policy = Policy((ip_network(network),))
    assert {policy.permits(parse_address(address), scheme) for scheme in ("https", "http")} == {permitted}


def test_every_address_of_a_name_is_judged() -> None:
    target = Target("https", "example.com", 443, "/")
    assert len(resolving_to("93.184.216.34", "2600::1").resolve(target, 5)) == 2
    for addresses, error in ((["93.184.216.34", "10.0.0.1"], ForbiddenError), ([], UnresolvableError)):
        with pytest.raises(error):
            resolving_to(*addresses).resolve(target, 5)


def test_url_is_stored_in_its_normal_form() -> None:
    for url, normal in {
        "https://example.com": "https://example.com/",
        "HTTPS://Example.COM:443/A?b=C": "https://example.com/A?b=C",
        "https://example.com:8443/ä": "https://example.com:8443/%C3%A4",
        "https://bücher.example/": "https://xn--bcher-kva.example/",
        "https://[2600::1]:8443/x": "https://[2600::1]:8443/x",
        "https://example.com.//x": "https://example.com.//x",
    }.items():
        assert normalize_url(url) == normalize_url(normal) == normal


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "//example.com/", "https:///x", "https://", "ftp://example.com/", "file:///etc/passwd",
        "gopher://example.com/", "javascript://example.com/", "https://user@example.com/",
        "https://user:password@example.com/", "https://@example.com/", "https://example.com/#", "https://example.com#@[::1]/",
        "https://example.com/#fragment", "https://example.com\\@127.0.0.1/", "https://example.com/\\x",
        "https://example.com /", "https://exa\tmple.com/", "https://example.com/\r\nX: 1", "https://example.com/\0",
        "https://example.com:0/", "https://example.com:65536/", "https://example.com:x/", "https://exa%6dple.com/",
        "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[::1/", "https://::1/x",
        "https://straße.example/", "https://example..com/", "https://.example.com/", "https://exam\u200bple.com:x/",
    ],
)  # fmt: skip
def test_urls_that_mislead_are_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        normalize_url(url)


def test_slow_names_of_a_client_do_not_make_other_forms_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker serves one form at a time, of up to four that a client sends at once."""
    assert 4 * targets.RESOLVE_SECONDS < FORM_QUEUE_SECONDS
    released, waits = Event(), list[bool]()

    def resolve(*_: Any, **__: Any) -> list[Any]:
        waits.append(released.wait(10))
        return []

    monkeypatch.setattr(targets, "RESOLVE_SECONDS", 0.01)
    monkeypatch.setattr(targets, "get_policy", lambda: Policy(resolver=resolve))
    with pytest.raises(ValidationError, match="can't be resolved"):
        check_url("https://slow.example/")
    assert waits == []
    released.set()


def test_path_never_looks_like_a_host() -> None:
    assert parse_url("https://example.com//evil.example/x?y=//z").path == "/evil.example/x?y=//z"
    assert parse_url("https://example.com?x=1").path == "/?x=1"
