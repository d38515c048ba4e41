"""A service behind a proxy with TLS, on a port and at a name that the Host header does not have."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.test import Client

from tests.support.live import Service, live_service

HOST = "xn--bcher-kva.example"
ORIGIN = f"https://{HOST}:8443"
LOGIN = "/account/login/"
PROXY = {"Host": HOST, "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
ADDRESS = {
    "BASE_URL": "https://b\u00fccher.example:8443/l\u00e4den/v1",
    "ALLOWED_HOSTS": "b\u00fccher.example",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("proxy")
    with live_service(folder, workers=1, TRUSTED_PROXY_COUNT="1", **ADDRESS) as service:
        yield service


def send_form(service: Service, **headers: str) -> httpx.Response:
    """Submit the sign-in form with a wrong password."""
    with httpx.Client(base_url=service.url, headers=PROXY, timeout=30) as browser:
        token = browser.get(LOGIN).cookies["__Host-csrftoken"]
        form = {"login": "ann", "password": "wrong", "csrfmiddlewaretoken": token}
        return browser.post(LOGIN, data=form, headers=headers | {"Cookie": f"__Host-csrftoken={token}"})


@pytest.mark.parametrize("header", ["Origin", "Referer"])
def test_form_is_accepted_from_the_origin_of_base_url(service: Service, header: str) -> None:
    response = send_form(service, **{header: f"{ORIGIN}{LOGIN}" if header == "Referer" else ORIGIN})
    assert "Wrong username" in response.text


@pytest.mark.parametrize("sender", ["https://evil.example", "https://evil.example:8443", "null"])
def test_form_from_elsewhere_is_rejected_with_both_addresses(service: Service, sender: str) -> None:
    response = send_form(service, Origin=sender)
    assert response.status_code == 403
    assert f"the form is from {sender}, but this service is at {ORIGIN}." in response.text
    assert "BASE_URL" in response.text


def test_redirect_to_https_has_the_port_of_base_url(service: Service) -> None:
    response = httpx.get(f"{service.url}/docs", headers=PROXY | {"X-Forwarded-Proto": "http"})
    assert (response.status_code, response.headers["Location"]) == (301, f"{ORIGIN}/docs")


@pytest.mark.parametrize("path", ["/v1/pets?limit=1", "/.well-known/api-catalog"])
def test_links_are_ascii(service: Service, path: str) -> None:
    service.manage("seed_demo", "--pets", "2", "--if-empty")
    key = service.issue_high_limit_key("Links")
    response = httpx.get(service.url + path, headers=PROXY | {"Authorization": f"Bearer {key}"})
    assert response.headers["Link"].startswith(f"<{ORIGIN}/l%C3%A4den/")


FORWARDED = {"X-Forwarded-For": "192.0.2.1"}
OVER_HTTP, OVER_HTTPS = ({"X-Forwarded-Proto": scheme} for scheme in ("http", "https"))


@pytest.mark.parametrize(
    ("is_trusted", "headers", "status"),
    [
        (False, {}, 301),
        (False, FORWARDED | OVER_HTTP, 301),
        (False, OVER_HTTPS, 400),
        (False, FORWARDED | OVER_HTTPS, 400),
        (True, FORWARDED | OVER_HTTP, 301),
        (True, FORWARDED | OVER_HTTPS, 200),
        (True, FORWARDED, 400),
    ],
)
def test_redirect_that_would_never_end_is_replaced_by_its_cause(
    client: Client, settings: Any, is_trusted: bool, headers: dict[str, str], status: int
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if is_trusted else None
    response = client.get("/docs", headers=headers)
    assert (response.status_code, "TRUSTED_PROXY_COUNT" in response.text) == (status, status == 400)
