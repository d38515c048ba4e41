"""Every response of 400 and above under /v1 is an Error (D1, D17, D29, D30)."""

from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError
from psycopg import errors

from accounts.quota.throttle import QuotaThrottle
from petstore.api.errors import ErrorCode, convert_exception
from tests.conftest import Api

QUOTA_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


def assert_error(response: Any, status: int, code: str) -> None:
    body = response.json()
    assert (response.status_code, body["code"], body["status"]) == (status, code, status)
    assert isinstance(body["message"], str)
    assert body["message"]
    assert body.keys() - {"details"} == {"code", "message", "status"}
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["X-Request-Id"]
    assert f'<http://testserver/docs/errors#{code}>; rel="help"' in response.headers["Link"].split(", ")
    assert all(response.headers[name].isdigit() for name in QUOTA_HEADERS)


def test_unknown_path_is_a_404_and_never_a_redirect(api: Api) -> None:
    for path in ("", "/", "/pets/", "/pets/1/", "/pets/1/2", "/nothing", "/../v1/pets", "//pets", "/Pets"):
        for method in ("GET", "POST", "DELETE", "OPTIONS", "FOO"):
            assert_error(api(method, path), 404, "resource_not_found")


def test_key_is_checked_before_anything_else(anonymous_api: Api) -> None:
    for path in ("", "/pets/", "/nothing", "/pets", "/pets?limit=none", "/pets/none", "/account"):
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            response = anonymous_api(method, path, b"not json", Content_Type="text/plain")
            assert_error(response, 401, "missing_api_key")
            assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/pets", {"GET", "POST", "HEAD"}), ("/pets/1", {"GET", "HEAD"}), ("/pets/batch", {"POST"}),
        ("/categories", {"GET", "HEAD"}), ("/events", {"GET", "HEAD"}), ("/account", {"GET", "HEAD"}),
        ("/store/orders", {"GET", "POST", "HEAD"}), ("/store/orders/1", {"GET", "DELETE", "HEAD"}),
    ],
)  # fmt: skip
def test_other_methods_are_not_allowed(api: Api, path: str, allowed: set[str]) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"} - allowed:
        response = api(method, path)
        assert_error(response, 405, "method_not_allowed")
        assert set(response.headers["Allow"].split(", ")) == allowed


def test_url_has_at_most_8192_bytes_and_a_thousand_parameters(api: Api) -> None:
    assert api.get("/pets?x=" + "a" * 7_980).status_code == 200
    assert_error(api.get("/pets?x=" + "a" * 8_200), 414, "uri_too_long")
    assert_error(api.get("/pets?" + "a&" * 3_000), 400, "invalid_parameter")


def test_only_a_broken_connection_gets_503() -> None:
    broken = ErrorCode.SERVICE_UNAVAILABLE
    for raised, cause, code in (
        (DatabaseError(), psycopg.DatabaseError("closed unexpectedly"), broken),
        (InternalError(), errors.IdleInTransactionSessionTimeout(), broken),
        (InternalError(), errors.ReadOnlySqlTransaction(), broken),
        (InterfaceError(), psycopg.InterfaceError("is closed"), broken),
        (DatabaseError(), psycopg.ProgrammingError(), ErrorCode.INTERNAL_ERROR),
        (DatabaseError(), errors.InFailedSqlTransaction(), ErrorCode.INTERNAL_ERROR),
    ):
        raised.__cause__ = cause
        error = convert_exception(raised)
        assert error.code is code
        assert ("Retry-After" in error.headers) is (code.status == 503)


BUG = ZeroDivisionError("the secret of the program"), 500, "internal_error"
OUTAGE = OperationalError("the secret address"), 503, "service_unavailable"


@pytest.mark.parametrize(
    ("place", "failure"),
    [
        ("inventory.views.PetViewSet.list", BUG),
        ("petstore.api.views.ApiView.initialize_request", BUG),
        ("inventory.views.PetViewSet.list", OUTAGE),
        ("accounts.keys.authentication.store.admit", OUTAGE),
    ],
)
def test_bug_gets_500_and_database_failure_503_without_internals(
    api: Api, monkeypatch: pytest.MonkeyPatch, place: str, failure: tuple[Exception, int, str]
) -> None:
    error, status, code = failure
    monkeypatch.setattr(place, Mock(side_effect=error))
    response = api.get("/pets")
    assert_error(response, status, code)
    assert b"secret" not in response.content
    assert b"Zero" not in response.content
    assert ("Retry-After" in response.headers) is (status == 503)


def test_response_survives_failing_quota_headers(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    fail = Mock(side_effect=OSError("No space left on device."))
    monkeypatch.setattr(QuotaThrottle, "get_headers", fail)
    response = api.get("/pets")
    assert response.status_code == 200
    assert response.headers["X-Request-Id"]
    assert int(response.headers["X-RateLimit-Limit"]) > 0


def test_host_header_is_ignored_under_v1(api: Api) -> None:
    for host in ("evil.example", "bad host", "", "a" * 300, "x:99999"):
        assert api.get("/pets", Host=host).status_code == 200


def test_well_formed_request_id_is_used_and_others_are_replaced(api: Api) -> None:
    for sent in ("abc-123", "a" * 128, "0.a~b_c"):
        assert api.get("/pets", X_Request_Id=sent).headers["X-Request-Id"] == sent
    for sent in ("", "a" * 129, "a b", "é", "a\tb", '"quoted"'):
        made = api.get("/pets", X_Request_Id=sent).headers["X-Request-Id"]
        assert (made != sent, len(made)) == (True, 32)
