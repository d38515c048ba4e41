"""The quota headers of every response under /v1: D21, D23-D25, D28."""

import re
import time
from typing import Any

from accounts.models import PlanCode
from tests.conftest import Api

CONTRACT = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
DRAFT = re.compile(r'"minute";r=(\d+);t=(\d+), "day";r=(\d+);t=(\d+)')


def get_headers(response: Any) -> list[int]:
    return [int(response.headers[name]) for name in CONTRACT]


def test_request_with_a_key_costs_one_and_has_quota_headers(api: Api) -> None:
    for costs, (method, path, status) in enumerate([
        ("GET", "/pets", 200), ("HEAD", "/pets", 200), ("GET", "/pets?limit=0", 400),
        ("POST", "/pets", 400), ("GET", "/pets/0", 404), ("GET", "/nothing", 404), ("DELETE", "/pets", 405),
        ("GET", "/pets?x=" + "a" * 9_000, 414),
    ], 1):  # fmt: skip
        response = api(method, path)
        assert response.status_code == status
        limit, remaining, reset = get_headers(response)
        assert (limit, remaining) == (1_000, 1_000 - costs)
        assert 0 < reset - time.time() <= 61
        assert response.headers["RateLimit-Policy"] == '"minute";q=1000;w=60, "day";q=100000;w=86400'
        draft = DRAFT.fullmatch(response.headers["RateLimit"])
        assert draft is not None
        assert (int(draft[1]), int(draft[3])) == (remaining, 99_000 + remaining)
        assert 0 < int(draft[2]) <= 60
        assert 0 < int(draft[4]) <= 86_400  # Less than a minute just before midnight.


def test_minute_limit_gives_429_with_the_wait(api: Api, account: Any) -> None:
    account.assign(PlanCode.ENTERPRISE, 2, 100)
    assert [api.get("/pets").status_code for _ in range(3)] == [200, 200, 429]
    before = time.time()
    response = api.get("/pets")
    body, wait = response.json(), int(response.headers["Retry-After"])
    assert (body["code"], body["status"]) == ("rate_limit_exceeded", 429)
    assert body["message"].startswith("The limit of 2 requests per minute is used up. Try again in")
    assert 1 <= wait <= 60
    assert get_headers(response)[:2] == [2, 0]
    # Each of the two is rounded up to whole seconds.
    assert before - 1 < get_headers(response)[2] - wait <= time.time() + 1 or wait == 1


def test_day_limit_gives_429_until_midnight(api: Api, account: Any) -> None:
    account.assign(PlanCode.ENTERPRISE, 100, 1)
    api.get("/pets")
    response = api.get("/pets")
    assert response.json()["code"] == "daily_quota_exceeded"
    assert "1 requests per day" in response.json()["message"]
    assert get_headers(response)[2] % 86_400 == 0


def test_requests_without_a_key_count_by_address_up_to_its_limit(anonymous_api: Api, settings: Any) -> None:
    settings.ANONYMOUS_PER_MINUTE = 3
    responses = [anonymous_api.get("/pets") for _ in range(5)]
    assert [response.status_code for response in responses] == [401, 401, 401, 429, 429]
    assert [get_headers(response)[:2] for response in responses] == [[3, 2], [3, 1], [3, 0], [3, 0], [3, 0]]
    assert 0 < get_headers(responses[0])[2] - time.time() <= 61
    assert responses[-1].json()["code"] == "rate_limit_exceeded"
    assert 1 <= int(responses[-1].headers["Retry-After"]) <= 60
