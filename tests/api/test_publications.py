"""Changes by staff take effect with the next request, even after lost connections (D19, D27)."""

import html
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from accounts.quota.redis_store import LEASE, RedisQuotaStore
from django.core.management import call_command
from django.urls import reverse

from accounts.keys.identity import KeyRejectionReason
from accounts.models import Plan, PlanCode, Publication
from accounts.quota import key_record, publication
from accounts.usage import write_behind
from tests.conftest import OPERATOR
from tests.support.quota import Sender
from tests.support.servers import RedisServer
from tests.support.staff import signed_in, superuser
from tests.support.tcp_proxy import TcpProxy, tcp_proxy

ON_COMMIT = "accounts.quota.publication.transaction.on_commit"


@pytest.fixture
def proxy(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    """A proxy to an empty Redis. Changes are published through it at once, since tests never commit."""
    redis.client.flushall()
    with tcp_proxy(redis.port) as proxy:
        monkeypatch.setattr("accounts.quota.store.redis", RedisQuotaStore(proxy.url))
        monkeypatch.setattr(ON_COMMIT, lambda publish, robust=False: publish())
        yield proxy


@pytest.fixture
def store(proxy: TcpProxy, redis: RedisServer) -> RedisQuotaStore:
    """The store for requests, on a connection other than that of staff."""
    return RedisQuotaStore(redis.url)


@pytest.fixture
def acme(store: RedisQuotaStore, db: None) -> Sender:
    return Sender(per_minute=5, per_day=100)


def test_changes_apply_after_the_connection_was_cut(acme: Sender, proxy: TcpProxy) -> None:
    acme.send()
    proxy.cut()
    acme.account.assign(PlanCode.ENTERPRISE, 7, 100)
    assert acme.send().windows[0].limit == 7
    acme.get_banned()
    write_behind.recorder.write()
    proxy.cut()
    acme.keys[0].unban(reason="Mended.", by=OPERATOR)
    assert not acme.send().banned
    proxy.cut()
    acme.account.suspend(reason="Unpaid.", by=OPERATOR)
    assert acme.admit().rejection is KeyRejectionReason.SUSPENDED
    proxy.cut()
    acme.keys[0].revoke(reason="Leaked.", by=OPERATOR)
    assert acme.admit().rejection is KeyRejectionReason.REVOKED


def test_failed_publication_is_retried(acme: Sender, proxy: TcpProxy, redis: RedisServer) -> None:
    acme.send()
    target, proxy.target = proxy.target, None
    proxy.cut()
    acme.keys[0].revoke(reason="Leaked.", by=OPERATOR)
    assert acme.send().admitted  # Others still reach Redis, where the change is not published.
    assert publication.get_warning(pk=acme.keys[0].pk) == publication.NOT_PUBLISHED
    proxy.target = target
    publication.retry_publishing()
    assert acme.admit().rejection is KeyRejectionReason.REVOKED
    assert publication.get_warning(pk=acme.keys[0].pk) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(ON_COMMIT, lambda publish, robust=False: None, id="by a process that is killed"),
        pytest.param("accounts.quota.store.redis", None, id="from a machine without Redis"),
    ],
)
def test_unpublished_change_is_published_by_workers(
    acme: Sender, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    acme.send()
    with monkeypatch.context() as other_process:
        other_process.setattr(name, value)
        acme.keys[0].revoke(reason="Leaked.", by=OPERATOR)
    assert acme.send().admitted
    publication.retry_publishing()
    assert acme.admit().rejection is KeyRejectionReason.REVOKED


def test_change_during_a_publication_is_published(
    acme: Sender, store: RedisQuotaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_all = RedisQuotaStore.publish_all

    def change_and_publish(store: RedisQuotaStore, records: Any) -> Any:
        monkeypatch.setattr(RedisQuotaStore, "publish_all", publish_all)
        publication.publish("pk", acme.keys[0].pk)
        return publish_all(store, records)

    Publication.objects.update(published_version=0)
    monkeypatch.setattr(ON_COMMIT, lambda publish, robust=False: None)
    monkeypatch.setattr(RedisQuotaStore, "publish_all", change_and_publish)
    publication.publish_batch(store, [acme.keys[0].pk], {})
    assert publication.find_unpublished().exists()
    publication.retry_publishing()
    assert not publication.find_unpublished().exists()


# --- Order of publications ---------------------------------------------------------------------------


def test_record_read_before_a_change_never_overwrites_it(
    acme: Sender, store: RedisQuotaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a PostgreSQL pipeline, a snapshot can be older than its statement."""
    outdated = key_record.read(acme.keys[0].public_id)
    acme.keys[0].revoke(reason="Leaked.", by=OPERATOR)
    store.publish_all([outdated])
    assert acme.admit().rejection is KeyRejectionReason.REVOKED


def test_lifted_ban_stays_lifted_for_any_order_of_publications(
    acme: Sender, store: RedisQuotaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme.get_banned()
    write_behind.recorder.write()
    monkeypatch.setattr(ON_COMMIT, lambda publish, robust=False: None)
    acme.keys[0].unban(reason="Mended.", by=OPERATOR)
    publication.publish("pk", acme.keys[0].pk)  # A later change comes first.
    store.refresh(acme.keys[0].public_id)
    publication.retry_publishing()
    assert not acme.send().banned


def test_promoted_standby_overtakes_the_versions_in_redis(acme: Sender) -> None:
    for _ in range(3):
        publication.publish("pk", acme.keys[0].pk)
    acme.send()
    Publication.objects.update(version=1, published_version=1)  # The standby lacks the latest commits.
    acme.keys[0].revoke(reason="Leaked.", by=OPERATOR)  # This is version 2; Redis has 4.
    publication.retry_publishing()
    assert acme.admit().rejection is KeyRejectionReason.REVOKED


# --- A reader that is slower than the expiry of records -------------------------------------------


def revoke(sender: Sender) -> None:
    sender.keys[0].revoke(reason="Leaked.", by=OPERATOR)


def suspend(sender: Sender) -> None:
    sender.account.suspend(reason="Unpaid.", by=OPERATOR)


def delete(sender: Sender) -> None:
    sender.keys[0].delete()


CHANGES = {
    KeyRejectionReason.REVOKED: revoke,
    KeyRejectionReason.SUSPENDED: suspend,
    KeyRejectionReason.UNKNOWN: delete,
}
LONG_PAUSE = pytest.mark.parametrize("others_send", [False, True])


@pytest.mark.parametrize("rejection", CHANGES)
@LONG_PAUSE
def test_reader_paused_across_a_change_publishes_nothing(
    acme: Sender,
    store: RedisQuotaStore,
    monkeypatch: pytest.MonkeyPatch,
    rejection: KeyRejectionReason,
    others_send: bool,
) -> None:
    def read_slowly(public_id: str) -> Any:
        record = read(public_id)
        patch.undo()
        CHANGES[rejection](acme)
        if others_send:
            assert acme.admit().rejection is rejection
        store.delete_record(acme.keys[0].public_id)  # As if it expired.
        return record

    read = key_record.read
    with monkeypatch.context() as patch:
        patch.setattr(key_record, "read", read_slowly)
        store.refresh(acme.keys[0].public_id)
    assert acme.admit().rejection is rejection


@pytest.mark.parametrize("rejection", [KeyRejectionReason.REVOKED, KeyRejectionReason.SUSPENDED])
@LONG_PAUSE
def test_late_publication_does_not_revert_a_later_change(
    acme: Sender,
    store: RedisQuotaStore,
    rejection: KeyRejectionReason,
    others_send: bool,
) -> None:
    outdated = key_record.read(acme.keys[0].public_id)
    CHANGES[rejection](acme)
    store.delete_record(acme.keys[0].public_id)  # As if it expired.
    if others_send:
        assert acme.admit().rejection is rejection
    store.publish_all([outdated])
    assert acme.admit().rejection is rejection


def test_lease_of_another_reader_does_not_admit_a_late_one(
    acme: Sender, store: RedisQuotaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = key_record.read

    def read_slowly(public_id: str) -> Any:
        record = read(public_id)
        revoke(acme)
        store.delete_record(acme.keys[0].public_id)  # As if it expired.
        store._run(LEASE, public_id, ["another's", 60_000])  # Another reader gets a lease.
        return record

    with monkeypatch.context() as patch:
        patch.setattr(key_record, "read", read_slowly)
        store.refresh(acme.keys[0].public_id)
    assert acme.admit().rejection is KeyRejectionReason.REVOKED


def test_concurrent_readers_share_a_lease(
    acme: Sender, store: RedisQuotaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = key_record.read
    reads: list[str] = []

    def read_concurrently(public_id: str) -> Any:
        reads.append(public_id)
        store._run(LEASE, public_id, ["another's", 60_000])
        return read(public_id)

    monkeypatch.setattr(key_record, "read", read_concurrently)
    assert acme.send().admitted
    assert len(reads) == 1


# --- Many keys -----------------------------------------------------------------------------------


def test_plan_change_reaches_its_keys_in_few_round_trips(
    acme: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme.account.assign(PlanCode.FREE)
    for _ in range(19):  # Beside the first, as many as an account may have.
        acme.add_key()
    monkeypatch.setattr(publication, "PUBLISH_BATCH_SIZE", 8)
    batch_sizes: list[int] = []
    publish_all = RedisQuotaStore.publish_all

    def record_size(store: RedisQuotaStore, records: Any) -> Any:
        records = list(records)
        batch_sizes.append(len(records))
        return publish_all(store, records)

    monkeypatch.setattr(RedisQuotaStore, "publish_all", record_size)
    plan = Plan.objects.get(pk=PlanCode.FREE)
    plan.per_minute = 61
    plan.save()
    assert batch_sizes == [8, 8, 4]
    assert {acme.send(key).windows[0].limit for key in range(20)} == {61}


def test_keys_not_published_in_time_stay_unpublished(acme: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    acme.account.assign(PlanCode.FREE)
    monkeypatch.setattr(publication, "PUBLISH_TIMEOUT", 0)
    Plan.objects.get(pk=PlanCode.FREE).save()
    assert publication.get_warning(account__plan=PlanCode.FREE) == publication.NOT_PUBLISHED
    monkeypatch.undo()


def test_key_deleted_with_sql_leaves_no_publication(acme: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    Publication.objects.update(published_version=0)
    key = acme.keys[0]
    type(key).objects.filter(pk=key.pk)._raw_delete("default")
    publication.retry_publishing()
    assert not Publication.objects.filter(pk=key.pk).exists()


# --- Messages for staff and operators ----------------------------------------------------------------


@pytest.fixture
def unreachable(proxy: TcpProxy) -> TcpProxy:
    """A Redis that this process cannot reach."""
    proxy.target = None
    proxy.cut()
    return proxy


def test_page_reports_an_unpublished_change(acme: Sender, unreachable: TcpProxy) -> None:
    staff = signed_in(superuser())
    page = reverse("admin:accounts_apikey_revoke", args=[acme.keys[0].pk])
    response = staff.post(page, {"reason": "Leaked."}, follow=True)
    assert [str(message) for message in response.context["messages"]][-1] == publication.NOT_PUBLISHED


def test_form_reports_an_unpublished_change(acme: Sender, unreachable: TcpProxy) -> None:
    staff = signed_in(superuser())
    page = reverse("admin:accounts_account_change", args=[acme.account.pk])
    form = {"name": "Acme", "plan": "enterprise", "per_minute": 7, "per_day": 100}
    response = staff.post(page, get_form_data(staff.get(page)) | form, follow=True)
    assert publication.NOT_PUBLISHED in [str(message) for message in response.context["messages"]]


def test_command_reports_an_unpublished_change(acme: Sender, unreachable: TcpProxy) -> None:
    out, err = io.StringIO(), io.StringIO()
    options = ("--reason", "Leaked.", "--json")
    call_command("revoke_key", acme.keys[0].public_id, *options, stdout=out, stderr=err)
    assert json.loads(out.getvalue())["state"] == "revoked"
    assert err.getvalue().strip() == publication.NOT_PUBLISHED


def get_form_data(page: Any) -> dict[str, Any]:
    """Return the data that an unchanged form of the back office submits."""
    initial = page.context["adminform"].form.initial
    data = {name: value for name, value in initial.items() if value is not None}
    return data | get_hidden_fields(page)


def get_hidden_fields(page: Any) -> dict[str, str]:
    """Return the hidden fields of a form and of its inline formsets."""
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
    return {name: html.unescape(value) for name, value in fields}
