"""Unknown, wrong, revoked and expired keys cost the same work. All but expired keys get the same response.

Work is measured in statements and digests, not in time.
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

import pytest
from django.conf import settings

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectionReason
from accounts.keys.key_format import ParsedKey
from accounts.models import Account, ApiKey
from accounts.quota import anonymous, store
from accounts.quota.anonymous import LOOKUPS_PER_SECOND, LookupLimiter
from accounts.quota.limits import MINUTE, SECOND
from tests.conftest import OPERATOR, Api, Issue
from tests.support.costs import recorded_statements
from tests.support.customers import expire
from tests.support.quota import ADDRESS, find_rejection, parse, replace_secret

NOW = 1_800_000_000 * SECOND
KEY = key_format.generate("live", "00000000")


class Work(NamedTuple):
    statements: list[str]
    digests: int


def generate(account_id: str = "00000000") -> str:
    """Return a well-formed key that was never issued."""
    return key_format.generate("live", account_id).text


def make_key(issue: Issue, kind: str) -> str:
    key, text = issue()
    match kind:
        case "unknown":
            return generate()
        case "unknown of a known account":
            return generate(key.account.public_id)
        case "with another secret":
            return replace_secret(text)
        case "revoked":
            key.revoke(reason="Lost", by=OPERATOR)
        case "expired":
            expire(key)
        case "with a lost pepper":
            ApiKey.objects.filter(pk=key.pk).update(pepper_number=9)
    return text


INVALID_KEYS = [
    "unknown", "unknown of a known account", "with another secret", "revoked", "expired",
    "with a lost pepper",
]  # fmt: skip


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Callable[[ParsedKey], Work]:
    digests: list[str] = []
    compute_digest = key_format.compute_digest

    def count_digest(*arguments: Any) -> str:
        digests.append(compute_digest(*arguments))
        return digests[-1]

    def measure(key: ParsedKey) -> Work:
        digests.clear()
        with recorded_statements() as statements:
            assert find_rejection(store.admit, key, ADDRESS) is not None
        return Work([sql for sql, _ in statements], len(digests))

    monkeypatch.setattr(key_format, "compute_digest", count_digest)
    return measure


def test_every_invalid_key_costs_the_same_work(issue: Issue, measure: Callable[[ParsedKey], Work]) -> None:
    works = [measure(parse(make_key(issue, kind))) for kind in INVALID_KEYS]
    assert (len(works[0].statements), works[0].digests) == (3, 2)  # There are two peppers.
    assert works == [works[0]] * len(INVALID_KEYS)


def test_every_invalid_key_gets_the_same_response_except_expired_ones(issue: Issue) -> None:
    """Holders of the secret may know that it has expired (D17)."""
    reference, *others, expired = (
        Api(make_key(issue, kind)).get("/pets") for kind in sorted(INVALID_KEYS, key="expired".__eq__)
    )
    assert (expired.status_code, expired.json()["code"]) == (401, "expired_api_key")
    changing = {"X-Request-Id", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit"}
    for response in others:
        assert (response.status_code, response.content) == (401, reference.content)
        assert set(response.headers) == set(reference.headers)
        assert all(response[name] == reference[name] for name in set(response.headers) - changing)


def test_key_issued_after_a_failed_lookup_works_at_once(account: Account, monkeypatch: Any) -> None:
    key = key_format.generate("live", account.public_id)
    assert find_rejection(store.admit, key, ADDRESS) is KeyRejectionReason.UNKNOWN
    monkeypatch.setattr(key_format, "generate", lambda mode, account_id: key)
    ApiKey.objects.issue(account, by=OPERATOR)
    store.admit(key, ADDRESS)


def exceed_limit(network: str) -> None:
    anonymous.counters.count(network, NOW, settings.ANONYMOUS_PER_MINUTE + 1)


def test_address_within_its_limit_always_gets_a_lookup() -> None:
    lookup_limiter = LookupLimiter()
    anonymous.counters.count("192.0.2.1/32", NOW, settings.ANONYMOUS_PER_MINUTE)
    assert count_allowed(lookup_limiter, *[ADDRESS] * 1_000) == 1_000
    exceed_limit("192.0.2.1/32")
    assert count_allowed(lookup_limiter, *[ADDRESS] * 1_000, now=NOW + MINUTE) == 1_000


def count_allowed(limiter: LookupLimiter, *addresses: IPv4Address | IPv6Address, now: int = NOW) -> int:
    return sum(limiter.allow(KEY, address, now) for address in addresses)


def test_addresses_over_their_limit_share_a_lookup_budget() -> None:
    lookup_limiter = LookupLimiter()
    addresses = [IPv4Address(f"192.0.2.{host}") for host in range(5)]
    for address in addresses:
        exceed_limit(f"{address}/32")
    assert count_allowed(lookup_limiter, *addresses * 100) == LOOKUPS_PER_SECOND
    assert count_allowed(lookup_limiter, addresses[1], now=NOW + SECOND - 1) == 0
    assert count_allowed(lookup_limiter, addresses[1], now=NOW + SECOND) == 1
    assert count_allowed(lookup_limiter, IPv4Address("203.0.113.1")) == 1


def test_recently_admitted_key_needs_no_lookup_budget() -> None:
    lookup_limiter = LookupLimiter()
    exceed_limit("192.0.2.1/32")
    lookup_limiter.remember(KEY)
    wrong_secret = parse(replace_secret(KEY.text))
    allowed = [
        sum(lookup_limiter.allow(key, ADDRESS, NOW) for _ in range(100)) for key in (KEY, wrong_secret)
    ]
    assert allowed == [100, LOOKUPS_PER_SECOND]


def test_ipv6_addresses_of_one_network_count_together() -> None:
    exceed_limit("2001:db8::/64")
    addresses = (IPv6Address(f"2001:db8::{number:x}") for number in range(100))
    assert count_allowed(LookupLimiter(), *addresses) == LOOKUPS_PER_SECOND


def test_flood_of_unknown_keys_gets_429_without_queries(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5
    monkeypatch.setattr(anonymous, "LOOKUPS_PER_SECOND", 0)
    flood = [Api(generate()) for _ in range(30)]
    with django_assert_num_queries(6 * 3):  # The last queries come before the first 429.
        statuses = [api.get("/pets").status_code for api in flood]
    assert statuses == [401] * 5 + [429] * 25


def test_valid_key_is_unaffected_by_a_flood_from_its_address(
    issue: Issue, lookup_limiter: LookupLimiter, settings: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5
    api = Api(issue()[1])
    assert api.get("/pets").status_code == 200
    for _ in range(60):
        Api(generate()).get("/pets")
    assert api.get("/pets").status_code == 200


def test_unverifiable_key_is_not_reported_as_invalid(
    issue: Issue, lookup_limiter: LookupLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = issue()[1]
    monkeypatch.setattr(lookup_limiter, "allow", lambda *_: False)
    response = Api(text).get("/pets")
    assert (response.status_code, response.json()["code"]) == (429, "rate_limit_exceeded")
    assert int(response["Retry-After"]) >= 1
