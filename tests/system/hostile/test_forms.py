"""Forms that are incomplete or too large, and who may send large ones."""

import re
import socket
import time

import httpx
import pytest

from tests.support.live import Service
from tests.support.raw_http import connect, parse_response, read_until_closed

FORM = b"POST /account/login/ HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n"


@pytest.mark.parametrize("framing", [b"Content-Length: 500", b"Transfer-Encoding: chunked"])
def test_incomplete_form_is_not_processed(service: Service, framing: bytes) -> None:
    with connect(service, FORM % framing, b"5\r\na=b&c\r\n", timeout=10) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert parse_response(read_until_closed(connection))[0] == 400


@pytest.mark.parametrize("cookies", [{}, {"Cookie": "sessionid=0123456789abcdefghijklmnopqrstuv"}])
def test_anonymous_form_is_bounded(service: Service, cookies: dict[str, str]) -> None:
    login = f"{service.url}/account/login/"
    rejected = httpx.post(login, content=b"a" * 5_000, headers=cookies)
    assert (rejected.status_code, rejected.headers["content-type"]) == (413, "text/html; charset=utf-8")
    assert "The form is too large and was not saved" in rejected.text
    assert httpx.post(login, content=b"a" * 4_000, headers=cookies).status_code == 403  # CSRF


SESSION = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_user({name!r}, is_staff={staff}, is_superuser={staff}))
print(client.cookies["sessionid"].value)
"""


def sign_in(service: Service, *, is_staff: bool) -> dict[str, str]:
    """Return the cookies of a new user."""
    script = SESSION.format(name=f"kim-{time.time_ns()}", staff=is_staff)
    return {"sessionid": service.manage("shell", "--no-imports", "-c", script).strip()}


@pytest.mark.parametrize(
    ("is_staff", "page", "status"),
    [
        (True, "/admin/inventory/pet/import/", 403),  # The CSRF token is missing.
        (True, "/account/login/", 413),
        (False, "/account/login/", 413),
        (False, "/admin/inventory/pet/import/", 302),  # To the sign-in page.
    ],
)
def test_only_staff_may_send_large_forms_and_only_to_the_back_office(
    service: Service, page: str, status: int, *, is_staff: bool
) -> None:
    cookies = sign_in(service, is_staff=is_staff)
    response = httpx.post(service.url + page, content=b"a" * 5_000, cookies=cookies)
    assert response.status_code == status


def test_form_of_staff_gets_a_page_if_it_is_too_large_and_the_sign_in_if_the_session_has_ended(
    service: Service,
) -> None:
    page = "/admin/inventory/pet/import/"
    with httpx.Client(base_url=service.url, timeout=30, cookies=sign_in(service, is_staff=True)) as browser:
        for large in ({"data": {"pasted": "x" * 9_000_000}}, {"files": {"import_file": b"x" * 9_000_000}}):
            rejected = browser.post(page, **large)
            assert rejected.status_code == 413
            assert "The form is too large and was not saved" in rejected.text
            assert "kim-" in rejected.text  # In the layout of the back office.
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(page).text)[0]
        browser.cookies.set("sessionid", "0123456789abcdefghijklmnopqrstuv")
        for size in (100, 10_000, 1_500_000):
            sent = {"name": "x" * size, "csrfmiddlewaretoken": token}
            ended = browser.post("/admin/inventory/pet/", data=sent)
            where = ended.headers.get("location")
            assert (ended.status_code, where) == (302, "/account/login/?next=/admin/inventory/pet/")
            assert "not_saved=1" in ended.headers["set-cookie"]
