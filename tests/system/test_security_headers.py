"""The security headers and cookies of a deployment behind HTTPS, as a live service sends them."""

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.support.live import Service, live_service

HOST = "api.example.com"
PROXY = {"Host": HOST, "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
PAGES = ["/", "/docs", "/docs/errors", "/account/login/", "/admin/", "/nothing", "/openapi.json"]
STAFF = (
    "from django.contrib.auth.models import User; User.objects.create_superuser('ann', '', 'a-long-one')"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service, configured for a proxy with TLS."""
    environment = {
        "BASE_URL": f"https://{HOST}/v1",
        "ALLOWED_HOSTS": f"{HOST},127.0.0.1",
        "TRUSTED_PROXY_COUNT": "1",
    }
    with live_service(tmp_path_factory.mktemp("https"), workers=1, **environment) as service:
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


@pytest.mark.parametrize("path", PAGES)
def test_page_protects_the_browser_that_shows_it(service: Service, path: str) -> None:
    headers = get(service, path).headers
    assert headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains; preload"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["X-Frame-Options"] == "DENY"
    assert "camera=()" in headers["Permissions-Policy"]
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"script-src[^;]*'unsafe", policy)


@pytest.mark.parametrize("path", [*PAGES, "/v1/pets"])
def test_response_hides_versions_forbids_other_origins_and_sets_no_cookie(
    service: Service, path: str
) -> None:
    response = get(service, path, Origin="https://evil.example")
    assert "X-Powered-By" not in response.headers
    assert not re.search(r"\d", response.headers.get("Server", ""))
    assert "Access-Control-Allow-Origin" not in response.headers
    assert path.startswith(("/admin/", "/account/")) or parse_cookies(response) == {}


@pytest.mark.parametrize("path", ["/", "/docs", "/account/login/"])
def test_page_over_plain_http_redirects_to_https(service: Service, path: str) -> None:
    response = get(service, path, **{"X-Forwarded-Proto": "http"})
    assert (response.status_code, response.headers["Location"]) == (301, f"https://{HOST}{path}")


def test_page_under_another_host_name_is_rejected(service: Service) -> None:
    response = get(service, "/", Host="evil.example")
    assert response.status_code == 400
    assert "evil.example" not in response.text


def sign_in(service: Service, **headers: str) -> httpx.Response:
    """Submit the login form like a browser, with these headers."""
    page = get(service, "/account/login/")
    token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)[0]
    cookie = page.headers["set-cookie"].partition(";")[0]
    return httpx.post(
        f"{service.url}/account/login/",
        data={"login": "ann", "password": "a-long-one", "csrfmiddlewaretoken": token},
        headers=PROXY | {"Cookie": cookie} | headers,
        timeout=30,
    )


def test_cookies_are_for_this_host_over_https_and_hidden_from_scripts(service: Service) -> None:
    service.manage("shell", "--no-imports", "-c", STAFF)
    signed_in = sign_in(service, Referer=f"https://{HOST}/account/login/")
    assert signed_in.status_code == 302
    assert {
        name.rstrip("0123456789"): attributes for name, attributes in parse_cookies(signed_in).items()
    } == {
        "__Host-csrftoken": {"Secure", "HttpOnly", "Path", "SameSite", "SameSite=Strict"},
        "__Host-sessionid": {"Secure", "HttpOnly", "Path", "SameSite", "SameSite=Lax"},
        "__Host-known-browser-": {"Secure", "HttpOnly", "Path", "SameSite", "SameSite=Lax"},
    }
    assert "no-store" in signed_in.headers["Cache-Control"]


@pytest.mark.parametrize("header", ["Origin", "Referer"])
def test_form_sent_from_another_site_is_rejected(service: Service, header: str) -> None:
    assert sign_in(service, **{header: "https://evil.example"}).status_code == 403
