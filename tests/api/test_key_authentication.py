"""Authentication with API keys: every rejection, over HTTP (D16-D20)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.keys.networks import is_allowed
from accounts.keys.scopes import SCOPES
from accounts.models import ApiKey
from accounts.usage import write_behind
from inventory.models import Category
from petstore.api.client_ip import NO_ADDRESS, parse_address
from tests.conftest import OPERATOR, Api, Issue
from tests.support.customers import expire
from tests.support.quota import replace_secret


def assert_rejected(response: Any, code: str) -> None:
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == "Bearer"
    assert response["Content-Type"] == "application/json"
    body = response.json()
    assert (body["code"], body["status"]) == (code, 401)
    assert body["message"].endswith(".")


def issue_expired(issue: Issue) -> tuple[ApiKey, str]:
    key, text = issue()
    expire(key)
    return key, text


def test_empty_header_or_a_key_in_query_or_body_counts_as_missing(key: Any, anonymous_api: Api) -> None:
    for header in ("", " ", "\t"):
        response = anonymous_api.get("/pets", Authorization=header)
        assert_rejected(response, "missing_api_key")
        assert "Authorization: Bearer" in response.json()["message"]
    for response in (
        anonymous_api.get(f"/pets?api_key={key.text}&access_token={key.text}"),
        anonymous_api.post("/pets", {"access_token": key.text}),
    ):
        assert_rejected(response, "missing_api_key")


def test_malformed_header_is_rejected_without_touching_the_database(
    key: Any, anonymous_api: Api, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    mistyped = key.text[:-1] + ("x" if key.text[-1] != "x" else "y")
    for form in (
        "Bearer", "Bearer ", "Bearer psk_live_", "{key}", "Basic {key}", "Token {key}", "Bearer{key}",
        "Bearer\t{key}", "Bearer {key} {key}", "Bearer {key}, Bearer {key}", 'Bearer "{key}"',
        "Bearer {key}x", "Bearer {mistyped}", "Bearer \xa0{key}", "Bearer psk_live_\xe9",
        "Bearer \0", "Bearer " + "psk_live_" * 500,
    ):  # fmt: skip
        with django_assert_num_queries(0):
            header = form.format(key=key.text, mistyped=mistyped)
            response = anonymous_api.get("/pets", Authorization=header)
        assert_rejected(response, "invalid_api_key")


def test_scheme_is_case_insensitive_and_may_have_extra_spaces(key: Any) -> None:
    for form in ("Bearer {}", "bearer {}", "BEARER {}", "Bearer   {}", " Bearer {} "):
        assert Api(None).get("/pets", Authorization=form.format(key.text)).status_code == 200


def test_expiry_is_revealed_only_with_the_secret_and_until_revocation(issue: Issue) -> None:
    key, text = issue_expired(issue)
    assert_rejected(Api(text).get("/pets"), "expired_api_key")
    assert_rejected(Api(replace_secret(text)).get("/pets"), "invalid_api_key")
    key.revoke(reason="Lost", by=OPERATOR)
    assert_rejected(Api(text).get("/pets"), "invalid_api_key")


@pytest.mark.parametrize(("issued_in", "sent_to"), [("production", "staging"), ("staging", "production")])
def test_key_of_the_other_environment_is_rejected_without_touching_the_database(
    issue: Issue, settings: Any, django_assert_num_queries: Any, issued_in: str, sent_to: str
) -> None:
    settings.ENVIRONMENT = issued_in
    api = Api(issue()[1])
    assert api.get("/pets").status_code == 200
    settings.ENVIRONMENT = sent_to
    with django_assert_num_queries(0):
        response = api.get("/pets")
    assert_rejected(response, "invalid_api_key")


@pytest.mark.parametrize(
    ("networks", "peer", "admitted"),
    [
        ([], "203.0.113.9", True), (["192.0.2.0/24"], "192.0.2.255", True),
        (["192.0.2.0/24"], "192.0.3.0", False), (["192.0.2.7"], "192.0.2.7", True),
        (["192.0.2.7"], "192.0.2.8", False), (["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.1", True),
        (["2001:db8::/32"], "2001:db8:ffff::1", True), (["2001:db8::/32"], "2001:db9::1", False),
        (["2001:db8::/32"], "192.0.2.1", False), (["192.0.2.0/24"], "::ffff:192.0.2.1", True),
        (["::/0"], "192.0.2.1", False), (["0.0.0.0/0"], "192.0.2.1", True), (["192.0.2.0/24"], "", False),
    ],
)  # fmt: skip
def test_key_works_only_from_its_allowed_networks(networks: list[str], peer: str, admitted: bool) -> None:
    assert is_allowed(parse_address(peer) or NO_ADDRESS, networks) is admitted


def test_networks_apply_behind_proxies_and_are_named_with_the_secret(issue: Issue, settings: Any) -> None:
    text = issue(allowed_networks=["192.0.2.0/24"])[1]
    settings.TRUSTED_PROXY_COUNT = 1
    assert Api(text).get("/pets", X_Forwarded_For="203.0.113.9, 192.0.2.1").status_code == 200
    settings.TRUSTED_PROXY_COUNT = 0
    for sent, is_revealed in ((text, True), (replace_secret(text), False)):
        response = Api(sent).get("/pets", X_Forwarded_For="203.0.113.9, 192.0.2.1")
        assert_rejected(response, "invalid_api_key")
        assert ("network" in response.json()["message"]) is is_revealed


@pytest.mark.parametrize(
    ("scope", "method", "path"),
    [
        ("pets:read", "GET", "/pets"), ("pets:read", "HEAD", "/pets"), ("pets:read", "GET", "/pets/1"),
        ("pets:read", "GET", "/categories"),
        ("pets:write", "POST", "/pets"), ("pets:write", "POST", "/pets/batch"),
        ("orders:read", "GET", "/store/orders"), ("orders:read", "GET", "/store/orders/1"),
        ("orders:write", "POST", "/store/orders"), ("orders:write", "DELETE", "/store/orders/1"),
        ("events:read", "GET", "/events"),
    ],
)  # fmt: skip
def test_operation_needs_its_scope_even_to_have_its_body_read(
    issue: Issue, category: Category, scope: str, method: str, path: str
) -> None:
    pet = {"name": "Rex", "categoryId": category.pk}
    body = pet | {"petId": 1, "pets": [pet]} if method == "POST" else None
    assert Api(issue(key_scopes=[scope])[1])(method, path, body).status_code in {200, 201, 404}
    others = [other for other in SCOPES if other != scope]
    rejected = Api(issue(key_scopes=others)[1])(method, path, b"{")
    assert rejected.status_code == 403
    assert "WWW-Authenticate" not in rejected
    if method != "HEAD":
        assert rejected.json()["code"] == "insufficient_scope"
        assert scope in rejected.json()["message"]


def test_forbidden_request_costs_one_and_an_unknown_path_or_method_needs_no_scope(issue: Issue) -> None:
    api = Api(issue(key_scopes=["pets:read"])[1])
    assert (api.get("/nothing").status_code, api("DELETE", "/store/orders").status_code) == (404, 405)
    assert api.get("/pets")["X-RateLimit-Remaining"] == "997"
    assert api.post("/pets", {}).status_code == 403
    assert api.get("/pets")["X-RateLimit-Remaining"] == "995"


def test_rejected_key_uses_no_quota_and_has_no_last_use(issue: Issue, key: Any, api: Api) -> None:
    revoked = issue()
    revoked[0].revoke(reason="Leaked.", by=OPERATOR)
    elsewhere = issue(allowed_networks=["192.0.2.1"])
    wrong_secret = key, replace_secret(key.text)
    for rejected, text in (issue_expired(issue), revoked, elsewhere, wrong_secret):
        assert Api(text).get("/pets").status_code == 401
        assert get_last_use(rejected) is None
    assert api.get("/pets")["X-RateLimit-Remaining"] == "999"


def get_last_use(key: ApiKey) -> Any:
    write_behind.recorder.write()  # In production, a thread does this.
    key.refresh_from_db()
    return key.last_used_at


def test_first_use_is_stored(key: ApiKey, api: Api) -> None:
    assert get_last_use(key) is None
    before = timezone.now()
    api.get("/pets")
    assert before - timedelta(milliseconds=1) <= get_last_use(key) <= timezone.now()
