"""Checks shared by all pages for signed-in users, staff and customers."""

from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DataError, IntegrityError
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.template.response import TemplateResponse
from django.test import Client
from django.urls import path

from petstore import urls
from petstore.backoffice.sessions import LAST_SEEN_AT, STARTED_AT, find_session_user

ERRORS = {"range": DataError("out of range"), "race": IntegrityError("duplicate")}


def greet(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"user: {request.user.get_username()}")


def fail_to_render(request: HttpRequest, kind: str) -> HttpResponse:
    def rows() -> None:
        raise ERRORS[kind]

    template: Any = engines["django"].from_string("{{ rows }}")
    return TemplateResponse(request, template, {"rows": rows})


urlpatterns = [
    path("account/greet/", greet),
    path("account/<kind>/", fail_to_render),
    path("docs/greet/", greet),
    *urls.urlpatterns,
]


@pytest.fixture
def customer(db: None, settings: Any) -> Client:
    settings.ROOT_URLCONF = __name__
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create(username="kim"))
    return client


def test_unstorable_input_is_rejected(customer: Client) -> None:
    for query in ("q=%00", "q=" + "x" * 300, "%00=1"):
        assert customer.get(f"/account/greet/?{query}").status_code == 400
        assert customer.get(f"/docs/greet/?{query}").status_code == 200
    assert customer.post("/account/greet/", {"name": "a\0b"}).status_code == 400


def test_request_that_is_rejected_before_its_session_is_read_gets_a_page(settings: Any) -> None:
    settings.TRUSTED_PROXY_COUNT = 1
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = "x"
    for page, headers, status in (
        ("/docs", {"Content-Encoding": "gzip"}, 415), ("/docs", {"X-Forwarded-For": "x"}, 400),
        ("/docs", {"Host": "other.example"}, 400), ("/metrics", {"X-Forwarded-For": "192.0.2.1"}, 404),
    ):  # fmt: skip
        response = client.generic("POST" if status == 415 else "GET", page, b"x", headers=headers)
        assert (response.status_code, "<h1>" in response.text) == (status, True)


def test_other_methods_than_those_of_links_and_forms_are_rejected(customer: Client) -> None:
    pages = ("account/greet/", "account/security/recovery-codes/new/", "admin/login/")
    for page, method in product(pages, ("put", "delete", "patch", "options", "trace")):
        response = getattr(customer, method)(f"/{page}")
        assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, POST")


def test_database_error_during_rendering_gets_an_error_page(customer: Client) -> None:
    for kind, status in (("range", 400), ("race", 409)):
        response = customer.get(f"/account/{kind}/")
        assert (response.status_code, "try again" in response.text) == (status, True)


def test_session_of_a_customer_expires(customer: Client) -> None:
    assert customer.get("/account/greet/").text == "user: kim"
    session = customer.session
    session[LAST_SEEN_AT] -= 13 * 3600
    session.save()
    assert customer.get("/account/greet/").text == "user: "
    assert customer.get("/docs/greet/").text == "user: "


def test_cookie_names_its_active_user_until_the_session_expires(
    customer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petstore.backoffice.sessions.close_old_connections", lambda: None)
    cookies = f"sessionid={customer.session.session_key}"
    user = find_session_user(cookies)
    assert user is not None
    assert (user.username, user.is_staff) == ("kim", False)
    assert find_session_user("sessionid=0123456789abcdefghijklmnopqrstuv") is None
    User.objects.update(is_active=False)
    assert find_session_user(cookies) is None
    User.objects.update(is_active=True)
    password = User.objects.get().password
    User.objects.update(password="changed")  # This ends the session, too.
    assert find_session_user(cookies) is None
    User.objects.update(password=password)
    assert find_session_user(cookies) == user
    session = customer.session
    session[STARTED_AT] = 0
    session.save()
    assert find_session_user(cookies) is None
