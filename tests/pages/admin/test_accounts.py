"""Admin of accounts: list, page, change of plan, suspension, permissions."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from accounts.actions import Action
from accounts.events.sequencing import sequence_all
from accounts.events.warnings import send_quota_warnings
from accounts.models import Account, ApiKey, DailyUsage, PlanCode
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


def test_list_shows_plan_keys_last_use_and_usage_today_and_is_sorted_by_it(
    staff: Client, account: Account, other: ApiKey, banned: ApiKey
) -> None:
    other.revoke(reason="Leaked", by=OPERATOR)
    used_at = timezone.now() - timedelta(hours=3)
    ApiKey.objects.filter(pk=banned.pk).update(last_used_at=used_at)
    full, yesterday = (Account.objects.create(name=name, plan_id="free") for name in ("Full", "Idle"))
    use_quota(account, 85_000)
    use_quota(full, 2_500)
    use_quota(yesterday, 500, days_ago=1)
    page = staff.get(LIST)
    assert re.search(r"rounded-default[^>]*>\s*Business\s*</span>", page.text)
    usage = "85,000 of 100,000", 'class="usage-high"', 'class="usage-full"', "(250%)", "0 of 1,000"
    for part in (*usage, "1 key banned", "3\xa0hours ago"):
        assert part in page.text, part
    index = page.context["cl"].list_display.index("usage_today")
    assert list_rows(staff, LIST, o=f"-{index}") == [account, full, yesterday]
    idle, _, acme = list_rows(staff, LIST, o=str(index))
    assert (acme.active_key_count, acme.banned_key_count, acme.last_used_at) == (1, 1, used_at)
    assert (idle.active_key_count, idle.banned_key_count, idle.last_used_at) == (0, 0, None)


def test_accounts_are_found_by_name_public_id_and_plan(staff: Client, account: Account, key: Any) -> None:
    other = Account.objects.create(name="Other", plan_id="free")
    for text in ("acme p", account.public_id, account.public_id[:6], key.public_id):
        assert list_rows(staff, LIST, q=text) == [account], text
    assert list_rows(staff, LIST, q="z" * 14) == []
    assert len(list_rows(staff, LIST, q=" ")) == 2
    assert list_rows(staff, LIST, plan__code__exact="free") == [other]


def test_list_links_actions_that_apply_and_are_permitted(staff: Client, account: Account) -> None:
    suspend, lift = page_url(account, "suspend"), page_url(account, "lift_suspension")
    issue, change_plan = f"{KEYS}add/?account={account.pk}", page_url(account, "change_plan")

    def find_links(client: Client) -> set[str]:
        text = client.get(LIST).text
        return {link for link in (issue, change_plan, suspend, lift) if f'href="{link}"' in text}

    assert find_links(staff) == {issue, change_plan, suspend}
    assert find_links(clerk_with("view_account")) == set()
    account.suspend(reason="Unpaid", by=OPERATOR)
    assert find_links(staff) == {change_plan, lift}


def test_new_account_is_shown_with_a_link_to_issue_its_first_key(staff: Client) -> None:
    page = staff.post(f"{LIST}add/", {"name": "New", "plan": "free"}, follow=True)
    account = Account.objects.get()
    assert page.redirect_chain == [(page_url(account), 302)]
    assert f'href="{KEYS}add/?account={account.pk}">Issue the first one' in page.text
    clerk = clerk_with("add_account", "view_plan")
    assert clerk.post(f"{LIST}add/", {"name": "Newer", "plan": "free"}).status_code == 302
    assert Account.objects.filter(name="Newer").exists()


def test_ban_is_shown_with_its_reason_and_lifted(staff: Client, other: ApiKey, banned: ApiKey) -> None:
    viewer = clerk_with("view_apikey")
    for path in (f"{KEYS}?state=banned", "/admin/", page_url(banned)):
        for client, may_lift in ((staff, True), (viewer, False)):
            text = client.get(path).text
            assert (page_url(banned, "unban") in text) == may_lift
            assert BAN_REASON in text or (path, may_lift) == ("/admin/", False)


def test_page_shows_plan_usage_keys_bans_orders_and_rejections(
    staff: Client, account: Account, other: ApiKey, banned: ApiKey
) -> None:
    today = timezone.now().date()
    use_quota(account, 1_000)
    DailyUsage.objects.create(key=banned, day=today - timedelta(days=3), admitted=4_321, rejected=7)
    DailyUsage.objects.create(key=banned, day=today - timedelta(days=30), admitted=9_999)
    (order,) = place_orders(account)
    add_rejection(banned)
    page = staff.get(page_url(account))
    text = unescape(page.text)
    for text_part in (
        "1,000 requests per minute, 100,000 per day", "1,000 of 100,000", banned.public_id, "Banned until",
        BAN_REASON, f"Order {order.pk}: Rex 0", "Minute limit: GET /v1/pets", "?q=req-1", other.public_id,
    ):  # fmt: skip
        assert text_part in text, text_part
    chart = page.context["panels"]["usage_chart"]
    (day,) = [row for row in chart.rows if row["total"]]
    numbers = [value for value, _ in day["cells"]]
    assert (day["label"], numbers) == (f"{today - timedelta(days=3)}", [4321, 7])
    assert len(chart.rows) == 30


def test_timeline_has_keys_plans_orders_newest_first(staff: Client, account: Account, key: ApiKey) -> None:
    sent = {"reason": "Agreed", "choice": "enterprise", "per_minute": 5_000, "per_day": 200_000}
    staff.post(page_url(account, "change_plan"), sent)
    (order,) = place_orders(account)
    order.approve(by="boss", reason="Paid")
    key.revoke(reason="Leaked", by=OPERATOR)
    timeline = staff.get(page_url(account)).context["panels"]["timeline"]
    assert "plan: Business → Enterprise" in [strip_tags(line) for line in timeline[3].changes]
    assert [(entry.title, entry.reason) for entry in timeline] == [
        (f"Key {key.public_id}: revoked", "Leaked"), (f"Order {order.pk}: approved", "Paid"),
        (f"Order {order.pk}: placed", ""), ("Changed", "Agreed"), (f"Key {key.public_id}: issued", ""),
    ]  # fmt: skip


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


def test_key_page_shows_its_own_usage_ban_rejections_and_replacement(
    staff: Client, other: ApiKey, banned: ApiKey
) -> None:
    for key, admitted, request_id in ((banned, 4_321, "req-this-key"), (other, 9_999, "req-other-key")):
        DailyUsage.objects.create(key=key, day=timezone.now().date(), admitted=admitted, rejected=7)
        add_rejection(key, request_id=request_id)
    ApiKey.objects.filter(pk=other.pk).update(rotated_from=banned)
    text = unescape(staff.get(page_url(banned)).text)
    ban_text = f"Banned until {banned.get_ban_end(timezone.now()):%Y-%m-%d %H:%M} UTC. {BAN_REASON}"
    for part in ("req-this-key", "4,321", ban_text, f'href="{page_url(other)}"'):
        assert part in text, part
    assert not [part for part in ("9,999", "req-other-key") if part in text]
    assert page_url(banned) in staff.get(page_url(other)).text


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


def test_each_plan_shows_its_limits_and_the_current_one_is_marked(staff: Client, account: Account) -> None:
    def list_choices() -> list[tuple[str, str, bool]]:
        page = staff.get(page_url(account, "change_plan"))
        return [(label, limits, bool(value)) for value, label, limits in page.context["choices"]]

    assert list_choices() == [
        ("Move to Free", "60 per minute, 1,000 per day", True),
        ("Move to Pro", "300 per minute, 10,000 per day", True),
        ("Business, the current plan", "1,000 per minute, 100,000 per day", False),
        ("Move to Enterprise", "The limits above", True),
    ]
    account.assign(PlanCode.ENTERPRISE, per_minute=7_000, per_day=900_000)
    *others, last = list_choices()
    assert ("Move to Business", "1,000 per minute, 100,000 per day", True) in others
    assert last == ("Set these limits", "Current plan, now 7,000 per minute, 900,000 per day", True)


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


def test_suspension_and_its_lifting_take_effect_and_are_audited(
    staff: Client, boss: User, account: Account, api: Api
) -> None:
    assert staff.get(page_url(account, "suspend")).context["details"]["Active keys"] == 1
    page = staff.post(page_url(account, "suspend"), {"reason": "Unpaid"}, follow=True)
    assert [str(message) for message in page.context["messages"]] == ["Acme Pets has been suspended."]
    assert "Requests with its keys are rejected. Reason: Unpaid" in page.text
    assert page.context["panels"]["timeline"][0].title == "Suspended"
    assert (list_rows(staff, LIST, state="suspended"), list_rows(staff, LIST, state="active")) == (
        [account],
        [],
    )
    assert "Account suspended" in staff.get(KEYS).text
    assert api.get("/pets").json()["code"] == "account_suspended"
    assert "is already suspended." in staff.post(page_url(account, "suspend"), {"reason": "x"}).text
    page = staff.post(page_url(account, "lift_suspension"), {"reason": "Paid"}, follow=True)
    assert "The suspension of Acme Pets has been lifted." in page.text
    assert api.get("/pets").status_code == 200
    entries = AuditEntry.objects.for_object(account).order_by("id")
    assert list(entries.values_list("action", "actor_id", "reason")) == [
        ("suspended", boss.pk, "Unpaid"),
        ("suspension_lifted", boss.pk, "Paid"),
    ]
