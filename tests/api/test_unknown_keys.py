"""Unknown, wrong, revoked and expired keys cost the same work. All but expired keys get the same response.

Work is measured in statements and digests, not in time.
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

import pytest
from django.conf import settings
from pytest_django import DjangoAssertNumQueries

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
    """The work of one admission."""

    statements: list[str]
    digests: int


def unknown(issue: Issue) -> str:
    return key_format.generate("live", "00000000").text


def unknown_of_a_known_account(issue: Issue) -> str:
    return key_format.generate("live", issue()[0].account.public_id).text


def with_another_secret(issue: Issue) -> str:
    return replace_secret(issue()[1])


def revoked(issue: Issue) -> str:
    key, text = issue()
    key.revoke(reason="Lost", by=OPERATOR)
    return text


def expired(issue: Issue) -> str:
    key, text = issue()
    expire(key)
    return text


def with_lost_pepper(issue: Issue) -> str:
    key, text = issue()
    key.pepper_number = 9
    key.save()
    return text


INVALID_KEYS = [
    unknown,
    unknown_of_a_known_account,
    with_another_secret,
    revoked,
    expired,
    with_lost_pepper,
]
DISTINCT_CODES = {expired: "expired_api_key"}  # For holders of the secret (D17).


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Callable[[ParsedKey], Work]:
    """Return a function that measures the admission of a key."""
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
    works = [measure(parse(make(issue))) for make in INVALID_KEYS]
    assert (len(works[0].statements), works[0].digests) == (3, 2)  # There are two peppers.
    assert works == [works[0]] * len(INVALID_KEYS)


@pytest.mark.parametrize("make", INVALID_KEYS)
def test_every_invalid_key_gets_the_same_response(issue: Issue, make: Any) -> None:
    response = Api(make(issue)).get("/pets")
    reference = Api(key_format.generate("live", "11111111").text).get("/pets")
    assert response.status_code == 401
    if make in DISTINCT_CODES:
        assert response.json()["code"] == DISTINCT_CODES[make]
        return
    assert response.content == reference.content
    changing = {"X-Request-Id", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit"}
    assert set(response.headers) == set(reference.headers)
    assert all(response[name] == reference[name] for name in set(response.headers) - changing)


def test_key_issued_after_a_failed_lookup_works_at_once(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_format.generate("live", account.public_id)
    assert find_rejection(store.admit, key, ADDRESS) is KeyRejectionReason.UNKNOWN
    monkeypatch.setattr(key_format, "generate", lambda mode, account_id: key)
    ApiKey.objects.issue(account, by=OPERATOR)
    store.admit(key, ADDRESS)


# --- A flood of unknown keys ---------------------------------------------------------------------


def exceed_limit(network: str) -> None:
    anonymous.counters.count(network, NOW, settings.ANONYMOUS_PER_MINUTE + 1)


def test_address_within_its_limit_always_gets_a_lookup() -> None:
    lookup_limiter = LookupLimiter()
    anonymous.counters.count("192.0.2.1/32", NOW, settings.ANONYMOUS_PER_MINUTE)
    assert all(lookup_limiter.allow(KEY, ADDRESS, NOW) for _ in range(1_000))
    exceed_limit("192.0.2.1/32")
    assert all(lookup_limiter.allow(KEY, ADDRESS, NOW + MINUTE) for _ in range(1_000))


def test_addresses_over_their_limit_share_a_lookup_budget() -> None:
    lookup_limiter = LookupLimiter()
    for host in range(5):
        exceed_limit(f"192.0.2.{host}/32")
    allowed = sum(
        lookup_limiter.allow(KEY, IPv4Address(f"192.0.2.{number % 5}"), NOW) for number in range(500)
    )
    assert allowed == LOOKUPS_PER_SECOND
    assert not lookup_limiter.allow(KEY, IPv4Address("192.0.2.1"), NOW + SECOND - 1)
    assert lookup_limiter.allow(KEY, IPv4Address("192.0.2.1"), NOW + SECOND)
    assert lookup_limiter.allow(KEY, IPv4Address("203.0.113.1"), NOW)


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
    lookup_limiter = LookupLimiter()
    exceed_limit("2001:db8::/64")
    allowed = sum(
        lookup_limiter.allow(KEY, IPv6Address(f"2001:db8::{number:x}"), NOW) for number in range(100)
    )
    assert allowed == LOOKUPS_PER_SECOND


def test_flood_of_unknown_keys_gets_429_without_queries(
    db: None,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5
    monkeypatch.setattr(anonymous, "LOOKUPS_PER_SECOND", 0)
    flood = [Api(key_format.generate("live", "00000000").text) for _ in range(30)]
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
        Api(key_format.generate("live", "00000000").text).get("/pets")
    assert api.get("/pets").status_code == 200


def test_unverifiable_key_is_not_reported_as_invalid(
    issue: Issue, lookup_limiter: LookupLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = issue()[1]
    monkeypatch.setattr(lookup_limiter, "allow", lambda *_: False)
    response = Api(text).get("/pets")
    assert (response.status_code, response.json()["code"]) == (429, "rate_limit_exceeded")
    assert int(response["Retry-After"]) >= 1
