"""Effects of a transaction are reported only after its commit."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, models
from django.db.models.signals import post_save
from django.test import Client
from prometheus_client import REGISTRY

from accounts.models import Account, Actor, ApiKey, IdempotencyRecord, Plan, RateLimitState
from inventory.models import Category, PetEvent
from petstore.audit.models import AuditEntry
from tests.conftest import COMMITTED
from tests.support.staff import page_url

pytestmark = COMMITTED
ADD_KEY = "/admin/accounts/apikey/add/"


@contextmanager
def failing_commit(model: type[models.Model]) -> Iterator[None]:
    """Make transactions that save such a row fail at COMMIT, by a deferred constraint."""

    def add_orphan(**kwargs: Any) -> None:
        PetEvent.objects.create(pet_id=0, to_status="sold", by="tests")

    post_save.connect(add_orphan, sender=model, dispatch_uid="orphan")
    try:
        yield
    finally:
        post_save.disconnect(sender=model, dispatch_uid="orphan")


def form_of(staff: Client, account: Account) -> dict[str, Any]:
    token = staff.get(ADD_KEY).context["adminform"].form["submission_token"].value()
    return {"account": account.pk, "name": "x", "scopes": ["pets:read"], "submission_token": token}


def test_key_form_can_be_resubmitted_after_a_failed_commit(staff: Client, account: Account) -> None:
    form = form_of(staff, account)
    with failing_commit(ApiKey):
        assert staff.post(ADD_KEY, form).status_code == 409
    assert not ApiKey.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    assert staff.post(ADD_KEY, form).context["key_text"]
    assert "This key has already been issued." in staff.post(ADD_KEY, form).text
    assert ApiKey.objects.count() == 1


@pytest.mark.parametrize("kind", [Category, Plan, Account])
def test_failed_commit_is_not_reported_as_success_on_the_next_page(
    staff: Client, account: Account, kind: type[models.Model]
) -> None:
    row = account if kind == Account else kind._default_manager.earliest("pk")
    page, form = page_url(row), {"name": "x", "per_minute": 7, "per_day": 7, "confirmed": "on"}
    with failing_commit(kind):
        assert staff.post(page, form).status_code == 409
    assert not AuditEntry.objects.filter(action="changed").exists()
    assert not [str(message) for message in staff.get("/admin/").context.get("messages", [])]
    staff.post(page, form)
    assert [str(message) for message in staff.get("/admin/").context["messages"]]


def test_command_prints_no_uncommitted_key() -> None:
    out = StringIO()
    with failing_commit(ApiKey), pytest.raises(IntegrityError):
        call_command("issue_key", "--account", "Acme Pets", "--plan", "pro", stdout=out)
    assert out.getvalue() == ""
    assert not Account.objects.exists()


def test_ban_is_counted_only_after_its_commit(account: Account) -> None:
    def count() -> float:
        return REGISTRY.get_sample_value("petstore_bans_total") or 0

    key, _ = ApiKey.objects.issue(account, by=Actor("tests"))
    before = count()
    with failing_commit(RateLimitState), pytest.raises(IntegrityError):
        key.ban(now=1, strikes_since=0, rejections=20)
    assert count() == before
    key.ban(now=1, strikes_since=0, rejections=20)
    assert count() == before + 1
