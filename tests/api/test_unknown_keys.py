"""Unknown, wrong, revoked and expired keys cost the same work. All but expired keys get the same response.

Work is measured in queries, Redis scripts and digests, not in time.
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from accounts.keys import key_format
from accounts.keys.key_format import ParsedKey
from accounts.models import Account, ApiKey
from accounts.quota import anonymous, key_record
from accounts.quota.anonymous import LOOKUPS_PER_SECOND, LookupLimiter
from accounts.quota.key_record import KeyRejectionReason
from accounts.quota.limits import MINUTE, SECOND
from accounts.quota.redis_store import RedisQuotaStore
from accounts.quota.store_protocol import QuotaStore
from tests.conftest import OPERATOR, Api, Issue
from tests.support.customers import expire
from tests.support.quota import ADDRESS, parse, replace_secret
from tests.support.servers import RedisServer

NOW = 1_800_000_000 * SECOND


class Work(NamedTuple):
    """The work of one admission."""

    queries: list[str]
    scripts: int
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
def work(monkeypatch: pytest.MonkeyPatch, store: QuotaStore) -> Callable[[ParsedKey], Work]:
    """Return a function that measures the admission of a key."""
    counts = {"scripts": 0, "digests": 0}
    digest = key_format.compute_digest
    if isinstance(store, RedisQuotaStore):
        scripts = store._scripts
        run = scripts.run

        def count_script(*arguments: Any) -> Any:
            counts["scripts"] += 1
            return run(*arguments)

        monkeypatch.setattr(scripts, "run", count_script)

    def count_digest(*arguments: Any) -> str:
        counts["digests"] += 1
        return digest(*arguments)

    monkeypatch.setattr(key_format, "compute_digest", count_digest)

    def work(key: ParsedKey) -> Work:
        counts.update(scripts=0, digests=0)
        with CaptureQueriesContext(connection) as captured:
            assert store.admit(key, ADDRESS).rejection is not None
        queries = [query["sql"].replace(key.public_id, "ID") for query in captured]
        return Work(queries, counts["scripts"], counts["digests"])

    return work


@pytest.fixture
def in_redis(redis: RedisServer, monkeypatch: pytest.MonkeyPatch, db: None) -> RedisQuotaStore:
    """The store in Redis, as the one that the service uses."""
    redis.client.flushall()
    store = RedisQuotaStore(redis.url)
    monkeypatch.setattr("accounts.keys.authentication.store", store)
    return store


def expire_record(store: QuotaStore, key: ParsedKey) -> None:
    """Delete the cached key record, like its expiry."""
    if isinstance(store, RedisQuotaStore):
        store.delete_record(key.public_id)


def test_first_request_of_every_invalid_key_does_the_same_work(
    issue: Issue, store: QuotaStore, work: Callable[[ParsedKey], Work]
) -> None:
    work_done = []
    work(parse(INVALID_KEYS[0](issue)))  # The very first request also checks Redis's settings.
    for make in INVALID_KEYS:
        key = parse(make(issue))
        expire_record(store, key)
        work_done.append(work(key))
    assert len(work_done[0].queries) == 1
    assert work_done == [work_done[0]] * len(INVALID_KEYS)


def test_repeated_invalid_key_costs_at_most_one_query(
    issue: Issue, store: QuotaStore, work: Callable[[ParsedKey], Work]
) -> None:
    work_done = []
    for make in INVALID_KEYS:
        key = parse(make(issue))
        store.admit(key, ADDRESS)
        work_done.append(work(key))
    assert work_done == [work_done[0]] * len(INVALID_KEYS)
    queries, scripts = (0, 1) if isinstance(store, RedisQuotaStore) else (1, 0)
    assert (len(work_done[0].queries), work_done[0].scripts) == (queries, scripts)


@pytest.mark.parametrize("make", INVALID_KEYS)
def test_every_invalid_key_gets_the_same_response(
    issue: Issue, active_store: QuotaStore, make: Any
) -> None:
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
    account: Account, store: QuotaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_format.generate("live", account.public_id)
    assert store.admit(key, ADDRESS).rejection is KeyRejectionReason.UNKNOWN
    monkeypatch.setattr(key_format, "generate", lambda mode, account_id: key)
    ApiKey.objects.issue(account, by=OPERATOR)
    assert store.admit(key, ADDRESS).rejection is None


def test_unknown_key_never_replaces_a_cached_record(issue: Issue, in_redis: RedisQuotaStore) -> None:
    # One worker finds no key, the key is issued and published, then the worker stores its result.
    key, text = issue()
    in_redis.refresh(key.public_id)
    in_redis.publish_all([key_record.build_dummy_record(key.public_id)])
    assert in_redis.admit(parse(text), ADDRESS).rejection is None


# --- A flood of unknown keys ---------------------------------------------------------------------


@pytest.fixture
def lookup_limiter(monkeypatch: pytest.MonkeyPatch) -> LookupLimiter:
    """Replace the table of restricted networks."""
    limiter = LookupLimiter()
    monkeypatch.setattr("accounts.quota.redis_store.lookup_limiter", limiter)
    monkeypatch.setattr("accounts.quota.anonymous.lookup_limiter", limiter)
    return limiter


def test_address_within_its_limit_always_gets_a_lookup() -> None:
    lookup_limiter = LookupLimiter()
    assert all(lookup_limiter.allow(ADDRESS, NOW) for _ in range(1_000))
    lookup_limiter.restrict("192.0.2.1/32", NOW + MINUTE)
    assert all(lookup_limiter.allow(ADDRESS, NOW + MINUTE) for _ in range(1_000))


def test_addresses_over_their_limit_share_a_lookup_budget() -> None:
    lookup_limiter = LookupLimiter()
    for host in range(5):
        lookup_limiter.restrict(f"192.0.2.{host}/32", NOW + MINUTE)
    allowed = sum(lookup_limiter.allow(IPv4Address(f"192.0.2.{number % 5}"), NOW) for number in range(500))
    assert allowed == LOOKUPS_PER_SECOND
    assert not lookup_limiter.allow(IPv4Address("192.0.2.1"), NOW + SECOND - 1)
    assert lookup_limiter.allow(IPv4Address("192.0.2.1"), NOW + SECOND)
    assert lookup_limiter.allow(IPv4Address("203.0.113.1"), NOW)


def test_ipv6_addresses_of_one_network_count_together() -> None:
    lookup_limiter = LookupLimiter()
    lookup_limiter.restrict("2001:db8::/64", NOW + MINUTE)
    allowed = sum(lookup_limiter.allow(IPv6Address(f"2001:db8::{number:x}"), NOW) for number in range(100))
    assert allowed == LOOKUPS_PER_SECOND


def test_table_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anonymous, "MAX_NETWORKS", 3)
    lookup_limiter = LookupLimiter()
    for host in (1, 2, 3, 1, 4):
        lookup_limiter.restrict(f"192.0.2.{host}/32", NOW + MINUTE)
    allowed = {
        host: sum(lookup_limiter.allow(IPv4Address(f"192.0.2.{host}"), NOW) for _ in range(50))
        for host in (1, 2)
    }
    assert allowed[1] <= LOOKUPS_PER_SECOND
    assert allowed[2] == 50


def test_flood_of_unknown_keys_gets_429_without_queries(
    in_redis: RedisQuotaStore,
    lookup_limiter: LookupLimiter,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5
    monkeypatch.setattr(anonymous, "LOOKUPS_PER_SECOND", 0)
    flood = [Api(key_format.generate("live", "00000000").text) for _ in range(30)]
    with django_assert_num_queries(6):  # The last queries before the first 429.
        statuses = [api.get("/pets").status_code for api in flood]
    assert statuses == [401] * 5 + [429] * 25


def test_valid_key_is_unaffected_by_a_flood_from_its_address(
    issue: Issue, active_store: QuotaStore, lookup_limiter: LookupLimiter, settings: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5
    api = Api(issue()[1])
    assert api.get("/pets").status_code == 200
    for _ in range(60):
        Api(key_format.generate("live", "00000000").text).get("/pets")
    assert api.get("/pets").status_code == 200


def test_unverifiable_key_is_not_reported_as_invalid(
    issue: Issue, in_redis: RedisQuotaStore, lookup_limiter: LookupLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = issue()[1]
    monkeypatch.setattr(lookup_limiter, "allow", lambda address: False)
    response = Api(text).get("/pets")
    assert (response.status_code, response.json()["code"]) == (429, "rate_limit_exceeded")
    assert int(response["Retry-After"]) >= 1
