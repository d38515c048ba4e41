"""Admin of accounts: list, page, change of plan, suspension, permissions."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.actions import Action
from accounts.admin.accounts import build_plan_choice
from accounts.events.sequencing import sequence_all
from accounts.events.warnings import send_quota_warnings
from accounts.models import Account, ApiKey, DailyUsage, Plan, PlanCode
from inventory.models import Category, Order, Pet
from petstore import audit
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR, Api
from tests.support.customers import add_rejection, ban, use_quota
from tests.support.staff import clerk_with, list_rows, page_url

LIST = "/admin/accounts/account/"
KEYS = "/admin/accounts/apikey/"
EVENTS = "/admin/accounts/event/"
BAN_REASON = "Kept sending after 429: 30 requests were rejected within a minute. Banned for 5 minutes."


def place_orders(account: Account, count: int = 1) -> list[Order]:
    category = Category.objects.earliest("id")
    pets = [Pet.objects.create(name=f"Rex {pet}", category=category) for pet in range(count)]
    return [Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="api") for pet in pets]


@pytest.fixture
def other(issue: Any) -> ApiKey:
    """Another key of the account. It must precede `banned`, since the ban prevents issuing keys."""
    return issue()[0]  # type: ignore[no-any-return]


@pytest.fixture
def banned(key: ApiKey) -> ApiKey:
    """The key, banned for an hour."""
    ban(key)
    for reason in ("An earlier one.", BAN_REASON):
        audit.record(OPERATOR, key, Action.BANNED, reason=reason)
    return key


def test_list_counts_keys_and_is_sorted_by_usage_today(
    staff: Client, account: Account, other: ApiKey, banned: ApiKey
) -> None:
    other.revoke(reason="Leaked", by=OPERATOR)
    used_at = timezone.now() - timedelta(hours=3)
    ApiKey.objects.filter(pk=banned.pk).update(last_used_at=used_at)
    full, yesterday = (Account.objects.create(name=name, plan_id="free") for name in ("Full", "Idle"))
    use_quota(account, 85_000)
    use_quota(full, 2_500)
    use_quota(yesterday, 900, days_ago=1)
    index = staff.get(LIST).context["cl"].list_display.index("usage_today")
    assert list_rows(staff, LIST, o=f"-{index}") == [account, full, yesterday]
    idle, _, acme = list_rows(staff, LIST, o=str(index))
    assert (acme.active_key_count, acme.banned_key_count, acme.last_used_at) == (1, 1, used_at)
    assert (idle.active_key_count, idle.banned_key_count, idle.last_used_at) == (0, 0, None)
    assert list_rows(staff, LIST, used="80") == [account, full]
    full.suspend(reason="Unpaid", by=OPERATOR)
    assert list_rows(staff, LIST, state="suspended") == [full]
    full.lift_suspension(reason="Paid", by=OPERATOR)
    timeline = staff.get(page_url(full)).context["panels"]["timeline"]
    assert [entry.title for entry in timeline] == ["Suspension lifted", "Suspended"]


def test_accounts_are_found_by_name_public_id_and_plan(staff: Client, account: Account, key: Any) -> None:
    other = Account.objects.create(name="Other", plan_id="free")
    for text in ("acme p", account.public_id, account.public_id[:6], key.public_id):
        assert list_rows(staff, LIST, q=text) == [account], text
    assert list_rows(staff, LIST, q="z" * 14) == []
    assert len(list_rows(staff, LIST, q=" ")) == 2
    assert list_rows(staff, LIST, plan__code__exact="free") == [other]


def test_page_shows_nothing_of_others(staff: Client, account: Account, key: ApiKey, issue: Any) -> None:
    other = Account.objects.create(name="Other", plan_id="free")
    other_key, _ = issue(of=other, name="Stranger")
    DailyUsage.objects.create(key=other_key, day=timezone.now().date(), admitted=5)
    place_orders(other)
    add_rejection(other_key)
    staff.post(page_url(other), {"name": "Another", "plan": "pro"})
    page = staff.get(page_url(account))
    assert "Stranger" not in page.text
    panels = page.context["panels"]
    assert panels["usage_chart"] is None
    assert panels["extra_panels"][-1].rows == list(panels["rejections"]) == []
    assert len(panels["timeline"]) == 1


def test_form_ignores_the_plan(staff: Client, account: Account) -> None:
    sent = {"name": "Renamed", "plan": "free", "per_minute": "7", "per_day": "8"}
    assert staff.post(page_url(account), sent).status_code == 302
    account.refresh_from_db()
    assert (account.name, account.plan_id, account.per_day) == ("Renamed", "business", None)


def test_panels_need_the_permission_for_their_rows(account: Account, key: ApiKey) -> None:
    send_quota_warnings({(account.pk, 1, 80): (100, 80)})
    sequence_all()
    place_orders(account)
    add_rejection(key)
    client = clerk_with("view_account")
    text = client.get(page_url(account)).text
    assert "1,000 requests per minute" in text
    links = [EVENTS, *(page_url(account, page) for page in ("suspend", "change_plan"))]
    for hidden in (key.public_id, "Rex 0", "req-1", "Reached 80%", "Issue a key", 'name="_save"', *links):
        assert hidden not in text
    assert client.post("/admin/search/", {"s": "suspend acme"}).context["results"] == []
    User.objects.all().delete()
    assert "req-1" not in clerk_with("view_apikey").get(page_url(key)).text


def test_contact_and_notes_are_visible_to_staff_only(staff: Client, account: Account, api: Api) -> None:
    form = {"name": account.name, "plan": "business", "contact_email": "Ann", "notes": "Calls Ann"}
    page = staff.post(page_url(account), form)
    assert page.context["adminform"].form.errors.keys() == {"contact_email"}
    assert staff.post(page_url(account), form | {"contact_email": "ann@acme.test"}).status_code == 302
    text = unescape(staff.get(page_url(account)).text)
    for text_part in ("ann@acme.test", "Calls Ann", "contact email: changed (value hidden)"):
        assert text_part in text
    entry = AuditEntry.objects.for_object(account).latest("id")
    assert "ann@acme.test" not in f"{entry.before}{entry.after}"
    assert entry.after.keys() == {"contact_email", "notes"}
    assert "acme.test" not in api.get("/account").text


def test_change_of_plan_takes_effect_at_once_and_is_audited_with_its_reason(
    staff: Client, boss: User, account: Account, api: Api
) -> None:
    assert api.get("/pets")["X-RateLimit-Limit"] == "1000"
    sent = {"reason": "They asked for less", "choice": "pro"}
    page = staff.post(page_url(account, "change_plan"), sent, follow=True)
    assert "Acme Pets is now on Pro: 300 requests a minute, 10,000 a day." in page.text
    assert api.get("/pets")["X-RateLimit-Limit"] == "300"
    entry = AuditEntry.objects.for_object(account).get()
    assert (entry.action, entry.actor_id, entry.reason) == ("changed", boss.pk, "They asked for less")
    assert (entry.before, entry.after) == ({"plan": "business"}, {"plan": "pro"})


def test_invalid_change_of_plan_changes_nothing(staff: Client, account: Account) -> None:
    for sent, sentence in (
        ({"choice": "pro", "reason": ""}, "This field is required."),
        ({"choice": "enterprise"}, "needs both limits"),
        ({"choice": "pro", "per_day": "7"}, "Leave both empty."),
        ({"choice": "business"}, "already has this plan and these limits"),
        ({"choice": "gold"}, ""),
        ({"choice": "enterprise", "per_minute": "0", "per_day": "9" * 30}, "less than or"),
    ):
        page = staff.post(page_url(account, "change_plan"), {"reason": "x"} | sent)
        assert page.status_code == 200
        assert sentence in page.text
    account.refresh_from_db()
    assert account.plan_id == "business"
    assert not AuditEntry.objects.for_object(account).exists()


def test_author_of_an_account_who_may_view_none_returns_home(db: None) -> None:
    response = clerk_with("add_account").post(f"{LIST}add/", {"name": "Beta Pets", "plan": "free"})
    assert (response.headers["Location"], Account.objects.filter(name="Beta Pets").count()) == (
        "/admin/",
        1,
    )


def test_choice_of_a_plan_names_what_it_does(account: Account) -> None:
    plans = Plan.objects.in_bulk()
    assert build_plan_choice(plans["pro"], account)[:2] == ("pro", "Move to Pro")
    assert build_plan_choice(plans["business"], account)[:2] == ("", "Business, the current plan")
    account.assign(PlanCode.ENTERPRISE, per_minute=7_000, per_day=900_000)
    text = "Current plan, now 7,000 per minute, 900,000 per day"
    assert build_plan_choice(plans["enterprise"], account) == ("enterprise", "Set these limits", text)
