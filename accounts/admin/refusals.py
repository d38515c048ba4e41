"""Why was a request refused? Staff paste its id, or find it by key, account and time, and read it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from accounts.admin.badges import age, exact, state_badge
from accounts.keys.authentication import REFUSALS
from accounts.models import Account, ApiKey, Refusal
from petstore.api.errors import ErrorCode
from petstore.backoffice.dashboard import listing
from petstore.backoffice.model_admin import PetstoreModelAdmin, search_redirect
from petstore.backoffice.models import AuditEntry
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import Result

MOST_ACCOUNTS = 50  # Of those that a name stands for.

SHARED = "All keys of the account share the limit. If the account needs more, look at a larger plan."
Rule = Refusal.Rule
# The others have the name of their code.
ANSWERS = {refusal.value: answer for refusal, (answer, _) in REFUSALS.items()}
# What each rule means, and what to do about it.
EXPLAINED = {
    Rule.MINUTE: (
        "The account had used up the requests of the minute.",
        f"Wait as Retry-After says, then go on; spread requests over the minute. {SHARED}",
    ),
    Rule.DAY: (
        "The account had used up the requests of the day.",
        f"Wait until the day ends, at 00:00 UTC. {SHARED}",
    ),
    Rule.BAN: (
        "The key was banned: it had kept sending for 20 seconds or more after a 429.",
        "Fix the program: after a 429 it must wait as Retry-After says. The key works again when the ban "
        "ends; requests until then don't prolong it. Staff can lift the ban once the program is fixed.",
    ),
    Rule.REVOKED: (
        "The key was revoked.",
        "Use another key of the account, or issue a new one. If the customer does not know the address, "
        "somebody else has the old key, which is no longer of any use to them.",
    ),
    Rule.EXPIRED: (
        "The key had expired.",
        "Use its successor, if it was rotated, or issue a new key.",
    ),
    Rule.ELSEWHERE: (
        "The key is valid, but was used from an address that it does not allow.",
        "Send from a network that the key allows, or issue a key that allows this one. If the customer "
        "does not know the address, the key has leaked: rotate or revoke it.",
    ),
    Rule.SUSPENDED: (
        "The key is valid, but its account was suspended.",
        "Tell the customer why, and lift the suspension once that is settled: the same keys work again.",
    ),
    Rule.SCOPE: (
        "The key is valid, but lacks the scope of the operation.",
        "Use a key that has the scope, or issue one.",
    ),
}


class SearchForm(forms.Form):
    q = forms.CharField(
        label="Request id, key or account",
        required=False,
        widget=UnfoldAdminTextInputWidget(
            attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}
        ),
        help_text="An X-Request-Id, a whole key or its public id, or an account's name. Empty: the newest.",
    )
    hours = forms.ChoiceField(
        label="When",
        required=False,
        choices=(("", "At any time"), ("1", "In the last hour"), ("24", "In the last 24 hours")),
        widget=UnfoldAdminSelectWidget,
    )


@admin.register(Refusal)
class RefusalAdmin(PetstoreModelAdmin):
    """Instead of a list, one page that answers one question."""

    can_add = can_change = can_delete = False

    def find(self, request: HttpRequest, term: str) -> Iterator[Result]:
        """Yield the page that explains why a request was refused, by its id."""
        for refusal in Refusal.objects.for_request(term)[:1]:
            about = f"Refused: {refusal.get_rule_display().lower()}, {exact(refusal.at)}"
            yield Result(1, "help", f"Request {term}", about, listing("accounts_refusal", q=term))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Explain the request of an id; without one, list the newest of what was asked for."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if redirect := search_redirect(request):
            return redirect
        form = SearchForm(request.GET)
        given = form.cleaned_data if form.is_valid() else {}
        term, now = given.get("q", ""), timezone.now()
        found = Refusal.objects.for_request(term).select_related(
            "account__plan", "key__standing", "key__account"
        )
        lifted = liftings(found)
        explained = [explanation(refusal, now) | {"ban": ban_of(refusal, lifted, now)} for refusal in found]
        listed = None if explained or not given else Refusal.objects.of(matching(term, given["hours"], now))
        return self.page(
            request, "accounts/refusal/explain", "Why was I refused?",
            form=form,
            term=term,
            found=explained,
            listed=listed,
            kept_days=settings.REFUSALS_KEPT_DAYS,
            sees_accounts=may_view(request, "accounts.account"),
            sees_keys=may_view(request, "accounts.apikey"),
        )  # fmt: skip

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        refusal = self.row(request, object_id)
        return HttpResponseRedirect(listing("accounts_refusal", q=refusal.request_id))


def matching(term: str, hours: str, now: datetime) -> Q:
    """Return the condition of the refusals of a key or of accounts, each by an index."""
    since = Q(at__gte=now - timedelta(hours=int(hours))) if hours else Q()
    if not term:
        return since
    keys = ApiKey.objects.filter(public_id=term)
    accounts = Account.objects.filter(Q(name__search_key__contains=term) | Q(public_id=term))
    if found := list(keys.values_list("pk", flat=True)):
        return since & Q(key__in=found)
    return since & Q(account__in=list(accounts.values_list("pk", flat=True)[:MOST_ACCOUNTS]))


def explanation(refusal: Refusal, now: datetime) -> dict[str, Any]:
    reason, advice = EXPLAINED[Rule(refusal.rule)]
    return {
        "refusal": refusal,
        "reason": reason,
        "advice": advice,
        "answer": ANSWERS.get(refusal.rule) or ErrorCode[refusal.rule.upper()],
        "age": age(refusal.at, now),
        "key_badge": state_badge(refusal.key, now),
        "windows": windows(refusal),
        "networks": ", ".join(refusal.key.allowed_networks) if refusal.rule == Rule.ELSEWHERE else "",
    }


def liftings(refusals: QuerySet[Refusal]) -> list[AuditEntry]:
    """Return when staff lifted bans of these keys, the earliest first."""
    keys = [str(refusal.key_id) for refusal in refusals if refusal.ban_ends_at]
    found = AuditEntry.objects.filter(
        model=ApiKey._meta.label_lower, object_id__in=keys, action=AuditEntry.Action.UNBANNED
    )
    return list(found.order_by("id")) if keys else []


def ban_of(refusal: Refusal, lifted: list[AuditEntry], now: datetime) -> str:
    """Return when the ban ends or ended, and who lifted it if somebody did; nothing if there was none."""
    if (end := refusal.ban_ends_at) is None:
        return ""
    for entry in lifted:
        if entry.object_id == str(refusal.key_id) and refusal.at <= entry.at < end:
            return f"Lifted {exact(entry.at)} by {entry.actor_name}"
    return f"{'Ended' if end <= now else 'Ends'} {exact(end)}"


def windows(refusal: Refusal) -> list[tuple[str, Any, Any, datetime, datetime]]:
    """Return of both windows, as they were: name, used, limit, start, and the first moment after it."""
    minute_ends, day_ends = refusal.minute_ends_at, refusal.day_ends_at
    if minute_ends is None or day_ends is None:  # The quota was not asked.
        return []
    minute, day = timedelta(minutes=1), timedelta(days=1)
    return [
        ("Minute", refusal.minute_used, refusal.minute_limit, minute_ends - minute, minute_ends),
        ("Day (UTC)", refusal.day_used, refusal.day_limit, day_ends - day, day_ends),
    ]
