"""Failed sign-ins are stored for a limited time, apart from the audit trail."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.usage.write_behind import clean_up
from petstore.audit.models import AuditEntry, FailedSignIn
from tests.support.staff import PASSWORD, member_of, signed_in

pytestmark = pytest.mark.same_on_both
LOGIN, LIST = "/account/login/", "/admin/backoffice/failedsignin/"


def fail_to_sign_in(name: str = "boss", password: str = "wrong", **headers: str) -> None:
    client = Client(REMOTE_ADDR="198.51.100.4")
    assert client.post(LOGIN, {"login": name, "password": password}, headers=headers).status_code == 200


def create_failed_sign_in(**values: Any) -> FailedSignIn:
    return FailedSignIn.objects.create(reason="x", address="192.0.2.1", **values)


def test_wrong_password_is_stored_with_user_and_address_but_no_unknown_name(boss: User) -> None:
    fail_to_sign_in(**{"X-Request-Id": "try-1"})
    entry = FailedSignIn.objects.get()
    assert (entry.user_id, entry.username, entry.address) == (boss.pk, "boss", "198.51.100.4")
    assert (entry.reason, entry.request_id) == ("Wrong password or no access.", "try-1")
    fail_to_sign_in(PASSWORD, "oops")  # A password that was typed as the name.
    unknown = FailedSignIn.objects.values().first()
    assert unknown
    assert (unknown["reason"], PASSWORD in repr(unknown)) == ("Unknown name.", False)


def row_counts() -> dict[str, int]:
    return {model._meta.label: model._base_manager.count() for model in apps.get_models()}


@pytest.mark.usefixtures("clock")
def test_anonymous_clients_add_rows_only_to_tables_pruned_each_minute(boss: User, api: Any) -> None:
    before = row_counts()
    client = Client(raise_request_exception=False)
    for path in (
        "", "docs", "status", "no-such-page", "admin/", "admin/login/?next=/admin/x/", "account/login/",
        "account/login/help/", "account/login/code/", "account/security/", "account/password/reset/",
        "account/password/reset/1-c-0/", "account/email/confirm/x/",
    ):  # fmt: skip
        client.get(f"/{path}")
    for path, data in (
        ("account/login/", {"login": "boss", "password": "wrong"}),
        ("account/login/", {"login": "unknown", "password": "wrong"}),
        ("account/logout/", {}),
        ("account/login/code/", {"code": "123456"}),
        ("account/password/reset/", {"email": "kim@example.com"}),
        ("account/email/", {"action_add": "", "email": "kim@example.com"}),
        ("account/security/app/", {"code": "123456"}),
        ("account/security/passkeys/add/", {"credential": "{}"}),
        ("account/password/reset/1-set-password/", {"password1": PASSWORD, "password2": PASSWORD}),
    ):
        client.post(f"/{path}", data)
    for authorization in ("", "Bearer x", f"Bearer {api.key[:-1]}"):
        client.get("/v1/pets", headers={"Authorization": authorization})
        client.post("/v1/pets", headers={"Authorization": authorization, "Idempotency-Key": "x"})
    after = row_counts()
    added = {label: after[label] - count for label, count in before.items() if after[label] != count}
    assert added == {"backoffice.FailedSignIn": 2, "sign_in.AttemptCounter": 5}


def test_failed_sign_ins_are_limited_in_age_and_number_and_the_audit_trail_is_not(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    for days in (31, 29, 0):
        create_failed_sign_in(at=now - timedelta(days=days), username=f"{days}")
    AuditEntry.objects.create(action="signed_in", address="::1", at=now - timedelta(days=31))
    clean_up()
    assert [entry.username for entry in FailedSignIn.objects.all()] == ["0", "29"]
    monkeypatch.setattr(FailedSignIn, "MAX_ROWS", 1)
    clean_up()
    assert [entry.username for entry in FailedSignIn.objects.all()] == ["0"]
    assert AuditEntry.objects.count() == 1


def test_list_is_read_only(boss: User) -> None:
    row, owner = create_failed_sign_in(user_id=boss.pk, username="boss"), signed_in(member_of("Owner"))
    assert f'href="{LIST}"' in owner.get("/admin/backoffice/auditentry/").text
    assert owner.get(f"{LIST}{row.pk}/change/").status_code == 200
    for page in (LIST, f"/admin/auth/user/{boss.pk}/history/"):
        assert "ailed" in owner.get(page).text
    viewer = signed_in(member_of("Viewer", "Support", "Stock"))
    assert viewer.get(f"{LIST}{row.pk}/change/").status_code == 403
    for page in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/"):
        assert owner.post(f"{LIST}{page}", {"post": "yes"}).status_code == 403


def test_list_names_unknown_users_and_members(boss: User) -> None:
    member = User.objects.create(username="kim")
    create_failed_sign_in()
    for user in (member, boss):
        create_failed_sign_in(username=user.username, user_id=user.pk)
    page = signed_in(boss).get("/admin/backoffice/failedsignin/").text
    for text in (">Unknown<", ">member kim<", f'/{boss.pk}/change/">boss<'):
        assert text in page
