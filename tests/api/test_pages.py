"""Pages: content, weight, and behaviour during failures."""

import html
import re
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.contrib.staticfiles import finders
from django.db import OperationalError
from django.test import Client, RequestFactory
from django.utils.html import strip_tags

from accounts.models import Account, Plan, PlanCode, Role
from petstore.site.docs import GUIDES
from petstore.site.home import HomeView
from petstore.site.reference import SAMPLES
from tests.support.members import member_of

pytestmark = pytest.mark.same_on_both
PAGES = ["/", "/docs", *(f"/docs/{name}" for name in GUIDES), "/docs/search", "/status", "/nothing"]
OPERATIONS = [f"/docs/operations/{name}" for name in SAMPLES]
RESOURCE = re.compile(r'<(?:link(?! rel="alternate")|script|img)[^>]*?(?:href|src)="([^"]*)"')


def test_pages_are_limited_for_each_client_network(settings: Any) -> None:
    settings.PAGES_PER_MINUTE = 3
    client, other = Client(REMOTE_ADDR="2001:db8::1"), Client(REMOTE_ADDR="2001:db8:0:1::1")
    assert [client.get("/docs").status_code for _ in range(3)] == [200, 200, 200]
    for response in (client.get("/nothing"), client.post("/account/login/"), client.get("/docs")):
        assert response.status_code == 429
        assert 1 <= int(response["Retry-After"]) <= 61
        assert "Too many requests come from your network." in response.text
    assert Client(REMOTE_ADDR="2001:db8::2").get("/docs").status_code == 429
    assert other.get("/docs").status_code == 200
    assert client.get("/healthz").status_code == 200


def size(address: str) -> int:
    path = finders.find(address.removeprefix(settings.STATIC_URL))
    assert isinstance(path, str)
    return Path(path).stat().st_size


def rendered(view: Any) -> str:
    return str(view(RequestFactory().get("/")).render().content.decode())


@pytest.mark.parametrize("path", [*PAGES, *OPERATIONS])
def test_page_is_small_loads_only_own_files_and_complies_with_its_csp(
    client: Client, db: None, path: str
) -> None:
    response = client.get(path)
    addresses = set(RESOURCE.findall(response.text))
    assert addresses
    for address in addresses:
        assert address.startswith("/static/")
        assert client.head(address).status_code == 200
    weight = len(response.content) + sum(size(address) for address in addresses)
    assert weight < (54_000 if path in PAGES else 100_000)
    policy = response["Content-Security-Policy"]
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].split(";")[0]
    # default-src does not apply to these.
    assert {"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))
    assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:", response.text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", response.text))
    # For anonymous users, it is the same for all, and starts no session.
    assert '<a href="/account/login/">Sign in</a>' in response.text
    assert "Cookie" not in response.get("Vary", "")
    assert "Cache-Control" not in response
    assert not response.cookies


def test_links_of_pages_are_not_broken(client: Client, db: None) -> None:
    fetch = cache(partial(client.get, follow=True))  # The pages share most of their links.
    for path in [*PAGES, *OPERATIONS]:
        for address in set(re.findall(r'<a [^>]*href="([^"]*)"', fetch(path).text)):
            target, _, anchor = address.partition("#")
            response = fetch(target or path)
            assert response.status_code == 200 or (target or path) == "/nothing", (path, address)
            assert not anchor or f'id="{anchor}"' in response.text, (path, address)


def test_pages_lead_to_the_account_or_to_sign_in_without_a_session_or_a_database(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(User.objects.create(username="kim"))
    page = client.get("/docs")
    assert '<a href="/account/">Your account</a>' in page.text
    assert "Sign in" not in page.text
    assert page["Vary"] == "Cookie"
    monkeypatch.setattr(SessionStore, "load", Mock(side_effect=OperationalError))
    assert "Sign in" in client.get("/docs").text
    monkeypatch.undo()
    Session.objects.all().delete()
    assert "Sign in" in client.get("/docs").text


def test_pages_lead_to_a_key_where_sign_up_is_open(client: Client, db: None, settings: Any) -> None:
    link = re.compile(r'href="/account/sign-up/">(Get a key|[Cc]reate an account|a key of your own)</a>')
    assert not any(link.search(client.get(page).text) for page in PAGES)
    settings.SIGN_UP = "open"
    for settings.DEMO_KEY in ("", "psk_live_demo"):
        assert len(link.findall(client.get("/").text)) == 3
        for page in ("/docs/quickstart", "/docs/authentication"):
            assert "reate an account" in client.get(page).text, page
    assert all("Get a key" in link.findall(client.get(page).text) for page in PAGES)
    client.force_login(User.objects.create(username="kim"))
    assert "Get a key</a>" not in client.get("/").text


def test_pages_name_the_own_accounts_of_a_signed_in_person(account: Account, settings: Any) -> None:
    settings.SIGN_UP = "open"
    kim, reader = member_of(account, Role.DEVELOPER), member_of(account, Role.READER, "lee")
    for settings.DEMO_KEY in ("", "psk_live_demo"):
        for page in ("/", "/docs/quickstart", "/docs/environments", "/docs/operations/placeOrder"):
            text = kim.get(page).text
            assert f'Issue one in <a href="/account/{account.public_id}/keys/issue/">' in text
            assert not re.search("(?i)create an account|make run", text), page
    assert 'Issue one in <a href="/account/">your account</a>.' in reader.get("/docs/quickstart").text


def test_home_page_shows_the_plans_of_the_database(client: Client, db: None) -> None:
    Plan.objects.filter(code=PlanCode.PRO).update(per_minute=1_234, per_day=56_789)
    cells = re.findall(r"<(?:td|th)[^>]*>(.*?)</(?:td|th)>", client.get("/").content.decode())
    assert cells[3:] == [
        "Free", "60", "1,000", "Pro", "1,234", "56,789", "Business", "1,000", "100,000",
        "Enterprise", "as agreed", "as agreed",
    ]  # fmt: skip


def test_home_page_names_the_addresses_of_its_environment(client: Client, db: None, settings: Any) -> None:
    page = client.get("/").text
    assert "<dt>Production</dt>\n<dd><code>http://testserver/v1</code>" in page
    assert "<dt>Staging</dt>\n<dd><code>http://staging.testserver/v1</code>" in page
    assert "This service publishes no contact" in page
    assert "make run" not in page
    settings.ENVIRONMENT, settings.STAGING_BASE_URL = "staging", settings.BASE_URL
    page = client.get("/").text
    assert re.findall(r"<dt>(.*?)</dt>", page) == ["Staging"]
    assert ("psk_test_" in page, "psk_live_" in page) == (True, False)


def test_demo_pages_have_a_notice_and_the_first_the_key(client: Client, db: None, settings: Any) -> None:
    settings.DEMO_KEY = "psk_live_demo"
    assert re.findall(r"<dt>(.*?)</dt>", client.get("/").text)[0] == "Demo"
    pages = {page: client.get(page).text for page in PAGES}
    assert "export PETSTORE_KEY='psk_live_demo'" in html.unescape(strip_tags(pages["/"]))
    assert "YOUR_KEY" not in pages["/"]
    own = {page for page, text in pages.items() if "<code>make run</code> printed" in text}
    assert {"/", "/docs/quickstart", "/docs/authentication", "/docs/environments"} <= own
    for text in pages.values():
        assert not re.search(r"(?i)to get a key|orders\s+(in production )?are real|order is real", text)
        assert not re.search(r"this is (production|staging)|pages of (production|staging)", text)


@pytest.mark.parametrize(
    ("since", "text"), [(timedelta(microseconds=-1), "will be removed on"), (timedelta(), "was removed on")]
)
def test_home_page_shows_when_the_operation_is_removed(since: timedelta, text: str) -> None:
    now = settings.GET_PET_REMOVED_AT + since
    page = rendered(HomeView.as_view(clock=lambda: now))
    assert f"<code>GET /pets/{{petId}}</code> {text} 2030-12-05." in page


def test_home_page_works_without_plans() -> None:
    def get_plans() -> list[Any]:
        raise OperationalError

    page = rendered(HomeView.as_view(get_plans=get_plans, check_readiness=lambda: {"status": "ok"}))
    assert "The plans can't be shown" in page
    assert "<table" not in page


def test_copy_buttons_work_while_the_page_is_loading() -> None:
    """A deferred script would lose clicks on a button that is already visible."""
    templates = [path.read_text() for path in (settings.BASE_DIR / "templates").rglob("*.html")]
    attributes = {text for page in templates for text in re.findall(r"/copy\.js['\"] %}\"(.*?)>", page)}
    assert attributes == {""}


def test_icon_of_the_site_is_found(client: Client) -> None:
    icon = client.head(client.get("/favicon.ico").headers["Location"])
    assert (icon.status_code, icon["Content-Type"]) == (200, "image/svg+xml")


def test_pages_are_read_only(client: Client) -> None:
    assert {client.post(path).status_code for path in PAGES[:-1]} == {405}
