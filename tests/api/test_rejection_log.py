"""The rejection log, in which staff look up rejected requests."""

from ipaddress import IPv4Address
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import DatabaseError
from django.utils import timezone

from accounts.keys import key_format
from accounts.models import Account, ApiKey, OperationUsage, PlanCode, Rejection
from accounts.quota.limits import DAY, HOUR, MINUTE, Limits, RateLimitDecision, build_windows, to_datetime
from accounts.usage import rejection_log
from accounts.usage.rejection_log import RejectedRequest
from accounts.usage.write_behind import UsageRecorder
from petstore.api.context import Caller
from petstore.observability.metrics import REJECTIONS_DROPPED
from tests.conftest import OPERATOR, Api
from tests.support.customers import expire
from tests.support.quota import ADDRESS, NOON, replace_secret


@pytest.fixture
def low_limit(account: Account) -> None:
    account.assign(PlanCode.ENTERPRISE, 2, 100)


def get_logged(request_id: str) -> Rejection:
    return Rejection.objects.for_request(request_id).get()


def get_ids() -> list[str]:
    return list(Rejection.objects.order_by("id").values_list("request_id", flat=True))


def build_rejection(
    key: ApiKey, *, now: int = NOON, request_id: str = "r", banned_until: int = 0
) -> RejectedRequest:
    windows = build_windows(now, Limits(2, 100), now + MINUTE, 2, now // DAY, 2)
    decision = RateLimitDecision(False, windows, now, banned_until)
    rule = decision.error_code.value
    return RejectedRequest(request_id, key.public_id, rule, now, "GET", "v1/pets", ADDRESS, decision)


def record(recorder: UsageRecorder, count: int, rejected: RejectedRequest) -> None:
    for _ in range(count):
        recorder.record_rejection(rejected)


def write_log(*rejected_requests: RejectedRequest) -> None:
    recorder = UsageRecorder()
    for rejected in rejected_requests:
        recorder.record_rejection(rejected)
    recorder.write()


def dropped_count() -> float:
    (metric,) = REJECTIONS_DROPPED.collect()
    return next(sample.value for sample in metric.samples if sample.name.endswith("_total"))


def test_rejection_is_found_by_its_request_id(
    api: Api, key: ApiKey, low_limit: None, usage_recorder: UsageRecorder
) -> None:
    before = timezone.now()
    responses = [api.get("/pets/7") for _ in range(4)]
    assert not Rejection.objects.exists()  # No request waits for a write.
    usage_recorder.write()
    assert Rejection.objects.count() == 2  # The two admitted requests are not logged.
    (rejection,) = Rejection.objects.for_request(responses[3].headers["X-Request-Id"])
    assert (rejection.account, rejection.key, rejection.address) == (key.account, key, "127.0.0.1")
    assert (rejection.reason, rejection.method, rejection.route) == (
        "rate_limit_exceeded", "GET", "/v1/pets/{petId}"
    )  # fmt: skip
    assert (rejection.minute_limit, rejection.minute_used) == (2, 2)
    assert (rejection.day_limit, rejection.day_used) == (100, 2)
    assert before <= rejection.rejected_at <= timezone.now()
    assert rejection.minute_ends_at is not None
    assert -(-rejection.minute_ends_at.timestamp() // 1) == int(responses[3].headers["X-RateLimit-Reset"])
    assert rejection.day_ends_at is not None
    assert (rejection.day_ends_at > before, rejection.day_ends_at.timestamp() % 86_400) == (True, 0)
    assert rejection.ban_ends_at is None


def test_reused_request_id_finds_the_newest_first_and_an_invalid_one_nothing(key: ApiKey) -> None:
    write_log(build_rejection(key), build_rejection(key, now=NOON + MINUTE))
    found = [rejection.rejected_at for rejection in Rejection.objects.for_request(" r\n")]
    assert found == [to_datetime(NOON + MINUTE), to_datetime(NOON)]
    for text in ("", "\0", "\ud800"):
        assert list(Rejection.objects.for_request(text)) == []


def test_rejections_of_a_key_are_bounded_per_hour_and_the_others_counted(key: ApiKey) -> None:
    recorder, before, bound = UsageRecorder(), dropped_count(), rejection_log.MAX_PER_KEY_AND_HOUR
    record(recorder, bound + 20, build_rejection(key))
    recorder.write()
    assert Rejection.objects.count() == bound
    record(recorder, 1, build_rejection(key, now=NOON + HOUR))
    recorder.write()
    assert Rejection.objects.count() == bound + 1
    assert dropped_count() - before == 20


def test_rejections_of_many_keys_are_bounded_per_write(key: ApiKey) -> None:
    recorder, before = UsageRecorder(), dropped_count()
    rejected = build_rejection(key)
    for number in range(rejection_log.MAX_PER_WRITE + 7):
        recorder.record_rejection(rejected._replace(public_id=f"{number}"))
    assert len(recorder._batch.rejected_requests) == rejection_log.MAX_PER_WRITE
    recorder.write()
    assert dropped_count() - before == 7


def test_failed_write_loses_no_rejections_within_the_bound_and_counts_none_twice(
    key: ApiKey, monkeypatch: Any, caplog: Any
) -> None:
    recorder, caller = UsageRecorder(), Caller(key.account_id, key.pk, key.public_id, frozenset(), 0)
    recorder.record_response(caller, "GET /v1/pets", 429, NOON)
    with monkeypatch.context() as patched:
        patched.setattr(rejection_log, "store", Mock(side_effect=DatabaseError))
        for request_id in ("early", "late"):
            recorder.record_rejection(build_rejection(key, request_id=request_id))
            recorder.write()
    recorder.write()
    assert get_ids() == ["early", "late"]
    assert OperationUsage.objects.get(hours=OperationUsage.HOUR).requests == 1
    assert "Writing usage failed and will be retried." in caplog.text


def test_rejections_of_a_deleted_key_block_no_others(key: ApiKey, issue: Any) -> None:
    deleted = issue()[0]
    ApiKey.objects.filter(pk=deleted.pk)._raw_delete("default")
    write_log(build_rejection(deleted, request_id="gone"), build_rejection(key, request_id="stays"))
    assert get_ids() == ["stays"]


def test_rejections_are_pruned_by_age(key: ApiKey, settings: Any) -> None:
    for days in (8, 6, 0):
        write_log(build_rejection(key, now=NOON - days * DAY, request_id=f"days-{days}"))
    rejection_log.prune(NOON)
    assert get_ids() == ["days-6", "days-0"]
    settings.REJECTION_RETENTION_DAYS = 5
    rejection_log.prune(NOON)
    assert get_ids() == ["days-0"]


def test_oldest_rejections_are_pruned_beyond_the_maximum(key: ApiKey, settings: Any) -> None:
    settings.MAX_REJECTIONS_PER_ACCOUNT = 3
    quiet_account = Account.objects.create(name="Quiet", plan_id="free")
    quiet_key, _ = ApiKey.objects.issue(quiet_account, by=OPERATOR)
    write_log(*[build_rejection(quiet_key, request_id="quiet")] * 3)
    write_log(*[build_rejection(key, request_id=str(number)) for number in range(5)])
    for _ in range(2):
        rejection_log.prune(NOON)
    assert get_ids() == [*["quiet"] * 3, "2", "3", "4"]


def test_unknown_method_and_path_are_not_stored_as_sent(key: ApiKey) -> None:
    write_log(build_rejection(key)._replace(method="X\0" * 99, route=r"^v1(?:/|\Z)"))
    rejection = get_logged("r")
    assert (rejection.method, rejection.route) == ("(other)", rejection_log.NO_SUCH_PATH)


def test_rejection_has_the_ban_end_only_while_banned(key: ApiKey) -> None:
    write_log(build_rejection(key, banned_until=NOON - 1), build_rejection(key, banned_until=NOON + 1))
    assert list(Rejection.objects.order_by("id").values_list("reason", "ban_ends_at")) == [
        ("rate_limit_exceeded", None),
        ("api_key_banned", to_datetime(NOON + 1)),
    ]


# --- 401 and 403 ----------------------------------------------------------------------------------


def test_rejected_keys_are_stored_with_reason_and_address(
    issue: Any, account: Account, usage_recorder: UsageRecorder
) -> None:
    keys = {name: issue(name=name) for name in ("revoked", "expired", "network_not_allowed", "suspended")}
    keys["revoked"][0].revoke(reason="Leaked", by=OPERATOR)
    expire(keys["expired"][0])
    ApiKey.objects.filter(name="network_not_allowed").update(allowed_networks=["203.0.113.0/24"])
    for name, (_, text) in keys.items():
        if name == "suspended":
            account.suspend(reason="Unpaid", by=OPERATOR)
        Api(text).get("/pets/7", X_Request_Id=name)
    usage_recorder.write()
    for name, (key, _) in keys.items():
        rejection = get_logged(name)
        assert (rejection.reason, rejection.key, rejection.account) == (name, key, account)
        assert (rejection.method, rejection.route) == ("GET", "/v1/pets/{petId}")
        assert (rejection.address, rejection.minute_limit) == ("127.0.0.1", None)


def test_missing_scope_is_stored_by_its_name(issue: Any, usage_recorder: UsageRecorder) -> None:
    key, text = issue(key_scopes=["pets:read"])
    assert Api(text).post("/pets", {}, X_Request_Id="narrow").status_code == 403
    usage_recorder.write()
    rejection = get_logged("narrow")
    assert (rejection.reason, rejection.scope, rejection.key) == ("insufficient_scope", "pets:write", key)


def test_request_without_the_secret_is_not_logged(
    key: Any, account: Account, anonymous_api: Api, settings: Any, usage_recorder: UsageRecorder
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 3
    invented = key_format.generate("live", account.public_id)
    for text in (invented.text, replace_secret(key.text), "nonsense"):
        assert Api(text).get("/pets").status_code == 401
    assert anonymous_api.get("/pets").status_code == 429
    usage_recorder.write()
    assert not Rejection.objects.exists()


def build_key_rejection(number: int, address: str = "192.0.2.1", account: int = 1) -> RejectedRequest:
    return RejectedRequest(
        "r", f"{account:08}{number:06}", "revoked", NOON, "GET", "v1/pets", IPv4Address(address)
    )


def count_pending(recorder: UsageRecorder) -> int:
    return len(recorder._batch.rejected_requests)


def test_rejected_keys_are_bounded_per_address_and_per_key() -> None:
    recorder, bound = UsageRecorder(), rejection_log.MAX_DENIED_PER_ADDRESS
    for number in range(bound + 5):
        recorder.record_rejection(build_key_rejection(number))
    assert count_pending(recorder) == bound
    recorder.record_rejection(build_key_rejection(1, "192.0.2.2"))
    recorder.record_rejection(build_key_rejection(1, account=2))
    assert count_pending(recorder) == bound + 2
    recorder = UsageRecorder()
    for number in range(rejection_log.MAX_DENIED_PER_KEY + 5):
        recorder.record_rejection(build_key_rejection(1, f"192.0.2.{number}"))
    assert count_pending(recorder) == rejection_log.MAX_DENIED_PER_KEY


def test_rejected_keys_together_leave_space_for_quota_rejections(key: ApiKey) -> None:
    recorder = UsageRecorder()
    for number in range(2 * rejection_log.MAX_DENIED_PER_WRITE):
        recorder.record_rejection(build_key_rejection(number, account=number))
    assert count_pending(recorder) == rejection_log.MAX_DENIED_PER_WRITE < rejection_log.MAX_PER_WRITE
    recorder.record_rejection(build_rejection(key))
    assert count_pending(recorder) == rejection_log.MAX_DENIED_PER_WRITE + 1


def test_account_with_many_keys_leaves_space_for_other_accounts(key: ApiKey) -> None:
    recorder, rejected = UsageRecorder(), build_rejection(key)
    for number in range(rejection_log.MAX_PER_WRITE):
        recorder.record_rejection(rejected._replace(public_id=f"{1:08}{number:06}"))
        recorder.record_rejection(build_key_rejection(number, f"192.0.{number // 200}.{number % 200}"))
    pending = rejection_log.MAX_PER_ACCOUNT_AND_HOUR + rejection_log.MAX_DENIED_PER_ACCOUNT
    assert count_pending(recorder) == pending
    recorder.record_rejection(rejected)
    recorder.record_rejection(build_key_rejection(1, account=2))
    assert count_pending(recorder) == pending + 2


def test_key_rejections_do_not_use_up_the_limit_of_quota_rejections(key: ApiKey) -> None:
    recorder = UsageRecorder()
    for number in range(rejection_log.MAX_DENIED_PER_KEY):
        rejected = build_key_rejection(1, f"192.0.2.{number}")
        recorder.record_rejection(rejected._replace(public_id=key.public_id))
    record(recorder, rejection_log.MAX_PER_KEY_AND_HOUR, build_rejection(key))
    assert count_pending(recorder) == rejection_log.MAX_DENIED_PER_KEY + rejection_log.MAX_PER_KEY_AND_HOUR
