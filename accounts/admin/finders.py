"""What the palette finds of accounts, keys, events, refused requests and staff."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.auth.models import User
from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts.admin.badges import exact, key_state
from accounts.admin.base import public_id_in
from accounts.models import Account, ApiKey, Event, Refusal
from petstore.backoffice import palette
from petstore.backoffice.changelist import row_id
from petstore.backoffice.dashboard import listing
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import MOST, Offer, Result

ISSUE, SUSPEND, LIFT = "Issue a key for", "Suspend", "Lift the suspension of"
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
    """Yield accounts by a part of the name or the start of the public id, and what to do with them."""
    if not may_view(request, "accounts.account"):
        return
    verb = next((verb for verb in (ISSUE, SUSPEND, LIFT) if palette.after(term, verb) is not None), "")
    name = palette.after(term, verb) if verb else term
    if not name:
        return
    # They are some thousands at most, and the index on the name has them in order.
    by_id = Q(public_id__startswith=name) if may_be_id(name) else Q()
    found = Account.objects.filter(Q(name__icontains=name) | by_id).select_related("plan").order_by("name")
    rows = list(found[:MOST])
    for account in rows if not verb else []:
        rank = 1 if name.lower() in (account.name.lower(), account.public_id.lower()) else 2
        link = reverse("admin:accounts_account_change", args=[account.pk])
        yield Result(rank, "storefront", account.name, f"Account, {account.plan}", link)
    if verb in ("", ISSUE) and request.user.has_perm("accounts.add_apikey"):
        for account in rows if verb else [row for row in rows if not row.suspended_at]:
            link = f"{reverse('admin:accounts_apikey_add')}?account={account.pk}"
            about = "Suspended: lift that first" if account.suspended_at else ""
            yield Result(3, "key", f"{ISSUE} {account.name}", about, link)
    if verb in (SUSPEND, LIFT) and request.user.has_perm("accounts.change_account"):
        page, icon = ("suspend", "pause_circle") if verb == SUSPEND else ("lift_suspension", "play_circle")
        for account in rows:
            if (account.suspended_at is None) == (verb == SUSPEND):
                link = reverse(f"admin:accounts_account_{page}", args=[account.pk])
                yield Result(3, icon, f"{verb} {account.name}", "", link)


@palette.finds
def keys(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield keys by the start of their public id."""
    if not (may_be_id(term) and may_view(request, "accounts.apikey")):
        return
    now = timezone.now()
    found = ApiKey.objects.filter(public_id__startswith=term).select_related("account", "standing")
    for key in found.order_by("public_id")[:MOST]:
        link = reverse("admin:accounts_apikey_change", args=[key.pk])
        about = f"Key of {key.account}, {key_state(key, now)[1].lower()}"
        yield Result(1 if key.public_id == term else 2, "key", key.public_id, about, link)


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
            link = reverse("admin:accounts_event_change", args=[event.pk])
            yield Result(1, "rss_feed", f"Event {event.pk}", event.type, link)


@palette.finds
def staff(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield members of staff by the start of their user name."""
    if may_view(request, "auth.user"):
        found = User.objects.filter(is_staff=True, username__istartswith=term).order_by("username")
        for pk, name in found.values_list("pk", "username")[:MOST]:
            yield Result(2, "badge", name, "Member of staff", reverse("admin:auth_user_change", args=[pk]))


def may_be_id(term: str) -> bool:
    return len(term) >= SHORTEST_ID and term.isascii() and term.isalnum()
