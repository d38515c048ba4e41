"""Refused requests, kept for staff to look up."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from accounts.bans import BAN_LENGTHS
from accounts.caller import Caller
from accounts.limits import DAY, HOUR, MINUTE, Limits, Verdict, account_windows, microseconds, moment
from accounts.models import Account, ApiKey, PlanCode, Refusal
from accounts.usage import refusals
from accounts.usage.refusals import KEPT_FOR_A_WRITE, KEPT_OF_A_KEY_AND_HOUR, Refused
from accounts.usage.write_behind import UsageRecorder
from petstore.observability.metrics import REFUSALS_NOT_KEPT
from tests.conftest import Api
from tests.support.quota import NOON


@pytest.fixture
def small(account: Account) -> None:
    account.assign(PlanCode.ENTERPRISE, 2, 100)


def refused(key: ApiKey, *, now: int = NOON, request_id: str = "r", banned_until: int = 0) -> Refused:
    windows = account_windows(
        Limits(2, 100), minute_ends=now + MINUTE, minute_used=2, day=now // DAY, day_used=2, now=now
    )
    caller = Caller(key.account_id, key.pk, key.public_id, frozenset())
    return Refused(request_id, caller, Verdict(False, windows, now, banned_until), "GET", "v1/pets")


def not_kept() -> float:
    (metric,) = REFUSALS_NOT_KEPT.collect()
    return next(sample.value for sample in metric.samples if sample.name.endswith("_total"))


def test_refused_request_is_explained_by_its_id(
    api: Api, key: ApiKey, small: None, own_recorder: UsageRecorder
) -> None:
    before = timezone.now()
    for number in range(4):
        answer = api.get("/pets/7", X_Request_Id=f"mine-{number}")
    own_recorder.write()
    (refusal,) = Refusal.objects.for_request("mine-3")
    assert (refusal.account, refusal.key) == (key.account, key)
    assert (refusal.rule, refusal.method, refusal.route) == (
        "rate_limit_exceeded", "GET", "/v1/pets/{petId}"
    )  # fmt: skip
    assert (refusal.minute_limit, refusal.minute_used, refusal.day_limit, refusal.day_used) == (
        2,
        2,
        100,
        2,
    )
    assert before <= refusal.at <= timezone.now()
    assert -(-refusal.minute_ends_at.timestamp() // 1) == int(answer.headers["X-RateLimit-Reset"])
    assert refusal.day_ends_at.timestamp() % 86_400 == 0
    assert refusal.day_ends_at > refusal.at
    assert refusal.ban_ends_at is None
    assert Refusal.objects.count() == 2  # The two that were admitted are not there.


def test_id_that_the_service_gave_is_explained_as_well(
    api: Api, small: None, own_recorder: UsageRecorder
) -> None:
    ids = [api.get("/pets").headers["X-Request-Id"] for _ in range(3)]
    own_recorder.write()
    assert [Refusal.objects.for_request(request_id).count() for request_id in ids] == [0, 0, 1]


def test_day_that_is_used_up_is_named_as_the_rule(
    api: Api, account: Account, own_recorder: UsageRecorder
) -> None:
    account.assign(PlanCode.ENTERPRISE, 50, 1)
    for _ in range(2):
        api.post("/pets", {}, X_Request_Id="x")
    own_recorder.write()
    refusal = Refusal.objects.for_request("x").get()
    assert (refusal.rule, refusal.method, refusal.day_used) == ("daily_quota_exceeded", "POST", 1)


def test_ban_is_named_as_the_rule_with_its_end(
    api: Api, key: ApiKey, small: None, own_recorder: UsageRecorder
) -> None:
    for number in range(14):
        api.get("/nothing-here", X_Request_Id=f"n-{number}")
    own_recorder.write()
    refusal = Refusal.objects.for_request("n-13").get()
    assert (refusal.rule, refusal.route) == ("api_key_banned", refusals.NO_SUCH_PATH)
    assert refusal.ban_ends_at is not None
    assert refusal.ban_ends_at == moment(key.standing.banned_until)
    assert refusal.ban_ends_at - refusal.at <= timedelta(microseconds=BAN_LENGTHS[0])


def test_reused_id_gives_all_its_refusals_the_newest_first(
    api: Api, small: None, own_recorder: UsageRecorder
) -> None:
    for path in ("/pets", "/pets", "/pets", "/categories"):
        api.get(path, X_Request_Id="again")
    own_recorder.write()
    found = [refusal.route for refusal in Refusal.objects.for_request("  again\n")]
    assert found == ["/v1/categories", "/v1/pets"]


@pytest.mark.parametrize("text", ["", " ", "\0", "\ud800", "a'b", "x" * 100_000, "../..", "<b>"])
def test_text_that_is_no_request_id_finds_nothing(db: None, text: str) -> None:
    assert list(Refusal.objects.for_request(text)) == []


def test_refusal_without_a_key_is_not_kept(
    stranger: Api, settings: Any, own_recorder: UsageRecorder
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 1
    codes = [stranger.get("/pets").status_code for _ in range(3)]
    own_recorder.write()
    assert 429 in codes
    assert not Refusal.objects.exists()


def test_no_refused_request_waits_for_a_write(api: Api, small: None, own_recorder: UsageRecorder) -> None:
    for _ in range(3):
        api.get("/pets")
    assert not Refusal.objects.exists()


def test_of_a_flood_of_one_key_so_many_an_hour_are_kept_and_the_others_counted(key: ApiKey) -> None:
    recorder, before = UsageRecorder(), not_kept()
    for _ in range(KEPT_OF_A_KEY_AND_HOUR + 20):
        recorder.refuse(refused(key))
    recorder.write()
    assert Refusal.objects.count() == KEPT_OF_A_KEY_AND_HOUR
    recorder.refuse(refused(key, now=NOON + HOUR))
    recorder.write()
    assert Refusal.objects.count() == KEPT_OF_A_KEY_AND_HOUR + 1
    assert not_kept() - before == 20


def test_of_a_flood_of_many_keys_so_many_a_write_are_kept(key: ApiKey) -> None:
    recorder, before = UsageRecorder(), not_kept()
    one = refused(key)
    for number in range(KEPT_FOR_A_WRITE + 7):
        recorder.refuse(one._replace(caller=one.caller._replace(key_id=number)))
    assert len(recorder._batch.refused) == KEPT_FOR_A_WRITE
    recorder.write()
    assert not_kept() - before == 7


def test_write_that_fails_loses_nothing_within_the_bound(
    key: ApiKey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = UsageRecorder()
    recorder.refuse(refused(key, request_id="early"))

    def fail(_: Any) -> None:
        raise DatabaseError("away")

    with monkeypatch.context() as patched:
        patched.setattr(refusals, "store", fail)
        recorder.write()
        recorder.refuse(refused(key, request_id="late"))
        recorder.write()
    recorder.write()
    assert [refusal.request_id for refusal in Refusal.objects.order_by("id")] == ["early", "late"]
    assert "kept for the next write" in caplog.text


def test_refusals_of_a_deleted_key_stop_no_others(key: ApiKey, issue: Any) -> None:
    other = issue()[0]
    recorder = UsageRecorder()
    recorder.refuse(refused(key, request_id="gone"))
    recorder.refuse(refused(other, request_id="stays"))
    ApiKey.objects.filter(pk=key.pk)._raw_delete("default")
    recorder.write()
    assert [refusal.request_id for refusal in Refusal.objects.all()] == ["stays"]


def test_refusals_go_after_some_days(key: ApiKey, settings: Any) -> None:
    recorder = UsageRecorder()
    for days in (0, 6, 8):
        recorder.refuse(refused(key, now=NOON - days * DAY, request_id=f"days-{days}"))
    recorder.write()
    refusals.prune(NOON)
    assert {refusal.request_id for refusal in Refusal.objects.all()} == {"days-0", "days-6"}
    settings.REFUSALS_KEPT_DAYS = 5
    refusals.prune(NOON)
    assert {refusal.request_id for refusal in Refusal.objects.all()} == {"days-0"}


def test_oldest_refusals_go_where_there_are_too_many(key: ApiKey, settings: Any) -> None:
    settings.REFUSALS_KEPT_MOST = 3
    recorder = UsageRecorder()
    for number in range(5):
        recorder.refuse(refused(key, request_id=str(number)))
    recorder.write()
    refusals.prune(NOON)
    assert [refusal.request_id for refusal in Refusal.objects.all()] == ["4", "3", "2"]


def test_unknown_method_is_kept_as_other(key: ApiKey) -> None:
    recorder = UsageRecorder()
    recorder.refuse(refused(key)._replace(method="X\0" * 99))
    recorder.write()
    assert Refusal.objects.get().method == "(other)"


def test_refusal_goes_with_its_ban_end_only_while_banned(key: ApiKey) -> None:
    recorder = UsageRecorder()
    recorder.refuse(refused(key, banned_until=NOON - 1))
    recorder.refuse(refused(key, banned_until=NOON + 1))
    recorder.write()
    assert [refusal.rule for refusal in Refusal.objects.order_by("id")] == [
        "rate_limit_exceeded",
        "api_key_banned",
    ]
    assert microseconds(Refusal.objects.latest("id").ban_ends_at) == NOON + 1  # type: ignore[arg-type]
