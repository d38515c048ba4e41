"""What the palette finds of accounts, keys, events, refused requests and staff."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts import reports
from accounts.admin.badges import exact, key_state
from accounts.admin.base import address, public_id_in
from accounts.models import Account, ApiKey, Event, Refusal
from petstore.backoffice import palette
from petstore.backoffice.changelist import row_id
from petstore.backoffice.dashboard import listing
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import MOST, Offer, Result
from petstore.db.names import search_key, visible_name

ISSUE, SUSPEND, LIFT = "Issue a key for", "Suspend", "Lift the suspension of"
UNBAN = "Lift the ban of"
# What staff do with accounts: what they need for it, with which ones, and an icon.
DEEDS = {
    ISSUE: ("accounts.add_apikey", Q(), "key"),
    SUSPEND: ("accounts.change_account", Q(suspended_at=None), "pause_circle"),
    LIFT: ("accounts.change_account", Q(suspended_at__isnull=False), "play_circle"),
}
SHORTEST_ID = 4  # Characters of a public id that are looked for: fewer begin too many.

palette.offers += [
    Offer("key", "Issue a key", "admin:accounts_apikey_add", "accounts.add_apikey"),
    Offer("add_business", "Add an account", "admin:accounts_account_add", "accounts.add_account"),
    Offer("person_add", "Add a member of staff", "admin:auth_user_add", "auth.add_user"),
]


@palette.shortens
def without_secret(term: str) -> str:
    """Return the public id of a key that was pasted, and any other text as it is."""
    public_id = public_id_in(term)
    return term if public_id is None else public_id


@palette.finds
def accounts(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield accounts by a part of the name or contact, or the start of the public id, and what to do."""
    if not may_view(request, "accounts.account"):
        return
    issues = request.user.has_perm("accounts.add_apikey")
    for account in named(term)[:MOST]:
        rank = 1 if search_key(term) in map(search_key, (account.name, account.public_id)) else 2
        yield Result(rank, "storefront", str(account), f"Account, {account.plan}", address(account))
        if issues and not account.suspended_at:
            yield deed(ISSUE, account)
    for verb, (permission, condition, _) in DEEDS.items():
        name = palette.after(term, verb)
        if name is not None and request.user.has_perm(permission):
            for account in named(name).filter(condition)[:MOST]:
                yield deed(verb, account)


def deed(verb: str, account: Account) -> Result:
    if verb == ISSUE:
        link = f"{reverse('admin:accounts_apikey_add')}?account={account.pk}"
    else:
        page = "suspend" if verb == SUSPEND else "lift_suspension"
        link = reverse(f"admin:accounts_account_{page}", args=[account.pk])
    about = "Suspended: lift that first" if verb == ISSUE and account.suspended_at else ""
    return Result(3, DEEDS[verb][2], f"{verb} {account}", about, link)


def named(term: str) -> QuerySet[Account]:
    """Return accounts: some thousands at most, and the index on the name has them in order."""
    found = Q(name__search_key__contains=term) | Q(contact_email__search_key__contains=term)
    if may_be_id(term):
        found |= Q(public_id__startswith=term)
    return Account.objects.filter(found).select_related("plan").order_by("name")


@palette.finds
def keys(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield keys by the start of their public id, and banned ones to lift the ban of."""
    if not may_view(request, "accounts.apikey"):
        return
    now = timezone.now()
    all_keys = ApiKey.objects.select_related("account", "standing").order_by("public_id")
    for key in all_keys.filter(public_id__startswith=term)[:MOST] if may_be_id(term) else ():
        rank = 1 if key.public_id == term else 2
        yield Result(rank, "key", key.public_id, about_key(key, now), address(key))
    whose = palette.after(term, UNBAN)
    if whose is not None and request.user.has_perm("accounts.change_apikey"):
        of = Q(account__name__search_key__contains=whose) | Q(name__search_key__contains=whose)
        of |= Q(public_id__startswith=whose)
        for key in all_keys.filter(reports.banned_now(now)).filter(of)[:MOST]:
            link = reverse("admin:accounts_apikey_unban", args=[key.pk])
            title = f"{UNBAN} {visible_name(key.name) or key.public_id}"
            yield Result(3, "lock_open", title, about_key(key, now), link)


def about_key(key: ApiKey, now: datetime) -> str:
    state = key_state(key, now)[1]
    return f"Key of {key.account}, {state[:1].lower()}{state[1:]}"


@palette.finds
def refusals(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield the page that explains why a request was refused, by its id."""
    if may_view(request, "accounts.refusal"):
        for refusal in Refusal.objects.for_request(term)[:1]:
            about = f"Refused: {refusal.get_rule_display().lower()}, {exact(refusal.at)}"
            yield Result(1, "help", f"Request {term}", about, listing("accounts_refusal", q=term))


@palette.finds
def events(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield the event of a number, `event 17`."""
    word, _, number = term.lower().partition(" ")
    if word == "event" and may_view(request, "accounts.event"):
        for event in Event.objects.filter(pk=row_id(number.removeprefix("#")) or 0):
            yield Result(1, "rss_feed", f"Event {event.pk}", event.type, address(event))


@palette.finds
def staff(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield members of staff by the start of their user name."""
    if may_view(request, "auth.user"):
        found = User.objects.filter(is_staff=True, username__search_key__startswith=term)
        for pk, name in found.order_by("username").values_list("pk", "username")[:MOST]:
            yield Result(2, "badge", name, "Member of staff", reverse("admin:auth_user_change", args=[pk]))


def may_be_id(term: str) -> bool:
    return len(term) >= SHORTEST_ID and term.isascii() and term.isalnum()
