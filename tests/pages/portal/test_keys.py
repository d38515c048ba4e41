"""Members issue, narrow, rotate and revoke the keys of their account."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from accounts.keys.scopes import READ_SCOPES
from accounts.models import Account, ApiKey, api_keys
from tests.conftest import COMMITTED, OPERATOR, Api
from tests.pages.admin.test_keys import KEY_TEXT
from tests.support.concurrency import run_concurrently
from tests.support.members import get_errors, member_of


def url(account: Account, page: str = "", key: ApiKey | None = None) -> str:
    return f"/account/{account.public_id}/keys/{f'{key}/' if key else ''}{page}"


def send(client: Client, account: Account, page: str, key: ApiKey | None = None, **data: Any) -> Any:
    return client.post(url(account, page, key), data)


def issue_key(client: Client, account: Account, **data: Any) -> Any:
    return send(client, account, "issue/", **{"name": "Shop", "scopes": ["pets:read"], **data})


def test_issued_key_has_the_rights_of_the_form_and_works(kim: Client, account: Account) -> None:
    networks, scopes = "127.0.0.0/8\n ::1/128", ["pets:read", "orders:read"]
    assert "Choose at least one scope." in get_errors(issue_key(kim, account, purpose="", scopes=[]))
    response = issue_key(kim, account, scopes=scopes, allowed_networks=networks, expires_in="30")
    key = ApiKey.objects.get()
    assert (key.account, key.name, key.scopes) == (account, "Shop", "pets:read orders:read")
    assert key.allowed_networks == ["127.0.0.0/8", "::1/128"]
    assert key.expires_at is not None
    assert abs(key.expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=5)
    assert Api(response.context["key_text"]).get("/pets").status_code == 200
    entry = key.audit_entries.get()
    assert (entry.action, entry.actor_name, entry.address) == ("issued", "kim", "127.0.0.1")
    assert entry.after["account"] == account.pk


def test_first_key_may_do_what_the_quickstart_needs(kim: Client, account: Account) -> None:
    form = kim.get(url(account, "issue/")).context["form"]
    assert form["purpose"].initial == "quickstart"
    issue_key(kim, account, purpose="quickstart", scopes=[])
    assert ApiKey.objects.get().scopes == "pets:read orders:read orders:write events:read"
    form = kim.get(url(account, "issue/")).context["form"]
    assert ("purpose" in form.fields, form["scopes"].value()) == (False, READ_SCOPES)


def test_key_text_is_in_one_response_only(
    kim: Client, account: Account, capfd: pytest.CaptureFixture[str]
) -> None:
    page = issue_key(kim, account)
    (text,) = set(KEY_TEXT.findall(page.text))
    assert "no-store" in page["Cache-Control"]
    secret = text.split("_")[-1]
    stored = [list(model._default_manager.values()) for model in apps.get_models()]
    elsewhere = [stored, kim.session.items(), kim.cookies, capfd.readouterr()]
    assert secret not in repr(elsewhere)
    rotate = url(account, "rotate/", ApiKey.objects.get())
    for path in (url(account), f"/account/{account.public_id}/", rotate):
        assert secret not in kim.get(path).text


def test_active_keys_of_an_account_are_limited(
    kim: Client, account: Account, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (api_keys.MAX_ACTIVE_KEYS, api_keys.MAX_KEYS_PER_DAY) == (20, 100)
    monkeypatch.setattr(api_keys, "MAX_ACTIVE_KEYS", 1)
    text = "An account has at most 1 active keys. Revoke one first."
    assert text in get_errors(issue_key(kim, account))
    new, _ = key.rotate(by=OPERATOR)  # The replaced key does not count.
    assert text in get_errors(issue_key(kim, account))
    new.revoke(reason="x", by=OPERATOR)
    assert "key_text" in issue_key(kim, account).context


def test_new_keys_of_an_account_are_limited_per_day(
    account: Account, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "MAX_KEYS_PER_DAY", 5)
    latest = key
    for _ in range(4):
        latest, _ = latest.rotate(by=OPERATOR, overlap=timedelta(0))
    with pytest.raises(ValidationError, match="at most 5 new keys a day"):
        latest.rotate(by=OPERATOR)
    ApiKey.objects.filter(pk=key.pk).update(created_at=timezone.now() - timedelta(days=1, seconds=1))
    latest.rotate(by=OPERATOR)


def test_list_shows_all_usable_keys(
    kim: Client, account: Account, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a developer could hide old keys behind their replacements."""
    monkeypatch.setattr(api_keys, "MAX_LISTED_KEYS", 3)
    latest = key
    for _ in range(2):
        latest, _ = latest.rotate(by=OPERATOR)
    response = send(kim, account, "rotate/", latest, overlap_hours="24")
    assert "at most 3 keys that work, rotated ones included" in get_errors(response)
    key.revoke(reason="x", by=OPERATOR)
    assert "key_text" in send(kim, account, "rotate/", latest, overlap_hours="24").context


@COMMITTED
def test_concurrent_submissions_keep_the_maximum(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "MAX_ACTIVE_KEYS", 2)
    clients = [member_of(account, name=f"kim{number}") for number in range(3)]
    run_concurrently(*((lambda client=client: issue_key(client, account)) for client in clients))
    assert ApiKey.objects.count() == 2
