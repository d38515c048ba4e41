"""Pages: content, weight, and behaviour during failures."""

import re
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

from accounts.models import Account, Role
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


def test_pages_name_the_accounts_in_which_a_person_may_issue_keys(account: Account, settings: Any) -> None:
    kim, reader = member_of(account, Role.DEVELOPER), member_of(account, Role.READER, "lee")
    for settings.DEMO_KEY in ("", "psk_live_demo"):
        assert (settings.DEMO_KEY or "Issue one in") in kim.get("/docs/operations/listPets").text
        for page in ("/", "/docs/quickstart", "/docs/operations/placeOrder"):
            for client, link in ((kim, f"/account/{account.public_id}/keys/issue/"), (reader, "/account/")):
                assert f'Issue one in <a href="{link}">' in client.get(page).text, page


def test_home_page_works_without_plans() -> None:
    def get_plans() -> list[Any]:
        raise OperationalError

    page = rendered(HomeView.as_view(get_plans=get_plans, check_readiness=lambda: {"status": "ok"}))
    assert "The plans can't be shown" in page
    assert "<table" not in page


def test_pages_are_read_only(client: Client) -> None:
    assert {client.post(path).status_code for path in PAGES[:-1]} == {405}
