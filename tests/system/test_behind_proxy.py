"""A service behind a proxy with TLS, on a port and at a name that the Host header does not have.

Its security headers and cookies, and the addresses in its responses.
"""

import re
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
    "ALLOWED_HOSTS": "b\u00fccher.example,127.0.0.1",
}
PAGES = ["/", "/docs", "/docs/errors", LOGIN, "/admin/", "/nothing", "/openapi.json"]
STAFF = (
    "from django.contrib.auth.models import User; User.objects.create_superuser('ann', '', 'a-long-one')"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("https")
    with live_service(folder, workers=1, TRUSTED_PROXY_COUNT="1", **ADDRESS) as service:
        service.manage("shell", "--no-imports", "-c", STAFF)
        yield service


def get(service: Service, path: str, **headers: str) -> httpx.Response:
    return httpx.get(service.url + path, headers=PROXY | headers, timeout=30)


def parse_cookies(response: httpx.Response) -> dict[str, set[str]]:
    """Return the attributes of the cookies that a response sets, by name."""
    cookies = {}
    for line in response.headers.get_list("set-cookie"):
        name, *attributes = (part.partition("=")[0] for part in line.split("; "))
        cookies[name] = {attribute for attribute in attributes if attribute not in {"Max-Age", "expires"}}
        cookies[name] |= {part for part in line.split("; ") if part.startswith("SameSite=")} - {"SameSite"}
    return cookies


EXPECTED = {
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains; preload",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


@pytest.mark.parametrize("path", [*PAGES, "/v1/pets"])
def test_response_protects_the_browser_hides_versions_and_sets_no_cookie(
    service: Service, path: str
) -> None:
    response = get(service, path, Origin="https://evil.example")
    headers = response.headers
    assert "X-Powered-By" not in headers
    assert not re.search(r"\d", headers.get("Server", ""))
    assert "Access-Control-Allow-Origin" not in headers
    assert path.startswith(("/admin/", "/account/")) or parse_cookies(response) == {}
    if path in PAGES:
        assert {name: headers[name] for name in EXPECTED} == EXPECTED
        assert "camera=()" in headers["Permissions-Policy"]
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert not re.search(r"script-src[^;]*'unsafe", policy)


@pytest.mark.parametrize("path", ["/", "/docs", LOGIN])
def test_page_over_plain_http_redirects_to_https_on_the_port_of_base_url(
    service: Service, path: str
) -> None:
    response = get(service, path, **{"X-Forwarded-Proto": "http"})
    assert (response.status_code, response.headers["Location"]) == (301, f"{ORIGIN}{path}")


def test_page_under_another_host_name_is_rejected(service: Service) -> None:
    response = get(service, "/", Host="evil.example")
    assert response.status_code == 400
    assert "evil.example" not in response.text


@pytest.mark.parametrize("path", ["/v1/pets?limit=1", "/.well-known/api-catalog"])
def test_links_are_ascii(service: Service, path: str) -> None:
    service.manage("seed_demo", "--pets", "2", "--if-empty")
    key = service.issue_high_limit_key("Links")
    response = get(service, path, Authorization=f"Bearer {key}")
    assert response.headers["Link"].startswith(f"<{ORIGIN}/l%C3%A4den/")


def sign_in(service: Service, **headers: str) -> httpx.Response:
    """Submit the login form like a browser, with these headers."""
    page = get(service, LOGIN)
    token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)[0]
    cookie = page.headers["set-cookie"].partition(";")[0]
    return httpx.post(
        f"{service.url}{LOGIN}",
        data={"login": "ann", "password": "a-long-one", "csrfmiddlewaretoken": token},
        headers=PROXY | {"Cookie": cookie} | headers,
        timeout=30,
    )


@pytest.mark.parametrize(("header", "sender"), [("Origin", ORIGIN), ("Referer", f"{ORIGIN}{LOGIN}")])
def test_cookies_are_for_this_host_over_https_and_hidden_from_scripts(
    service: Service, header: str, sender: str
) -> None:
    signed_in = sign_in(service, **{header: sender})
    assert signed_in.status_code == 302
    assert {
        name.rstrip("0123456789"): attributes for name, attributes in parse_cookies(signed_in).items()
    } == {
        "__Host-csrftoken": {"Secure", "HttpOnly", "Path", "SameSite", "SameSite=Strict"},
        "__Host-sessionid": {"Secure", "HttpOnly", "Path", "SameSite", "SameSite=Lax"},
        "__Host-known-browser-": {"Secure", "HttpOnly", "Path", "SameSite", "SameSite=Lax"},
    }
    assert "no-store" in signed_in.headers["Cache-Control"]


@pytest.mark.parametrize("sender", ["https://evil.example", "https://evil.example:8443", "null"])
def test_form_from_elsewhere_is_rejected_with_both_addresses(service: Service, sender: str) -> None:
    assert sign_in(service, Referer=sender).status_code == 403
    response = sign_in(service, Origin=sender)
    assert response.status_code == 403
    assert f"the form is from {sender}, but this service is at {ORIGIN}." in response.text
    assert "BASE_URL" in response.text


FORWARDED = {"X-Forwarded-For": "192.0.2.1"}
OVER_HTTP, OVER_HTTPS = ({"X-Forwarded-Proto": scheme} for scheme in ("http", "https"))


@pytest.mark.parametrize(
    ("is_trusted", "headers", "status"),
    [
        (False, {}, 301),
        (False, FORWARDED | OVER_HTTP, 301),
        (False, OVER_HTTPS, 400),
        (False, FORWARDED | OVER_HTTPS, 400),
        (False, FORWARDED | {"X-Forwarded-Proto": "https, http"}, 400),
        (False, {"Forwarded": "for=192.0.2.1;proto=https"}, 400),
        (True, FORWARDED | {"X-Forwarded-Proto": "HTTPS"}, 400),
        (True, FORWARDED | {"X-Forwarded-Proto": "http, https"}, 301),
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
