"""The page that explains why a request was refused, found by its ID, key, account or time."""

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
from accounts.keys.authentication import KEY_ERRORS
from accounts.models import Account, ApiKey, Refusal
from petstore.api.errors import ErrorCode
from petstore.backoffice.dashboard import list_url
from petstore.backoffice.model_admin import PetstoreModelAdmin, search_redirect
from petstore.backoffice.models import AuditEntry
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import SearchResult

MAX_ACCOUNTS = 50  # Accounts that a search by name follows.

SHARED = "All keys of the account share the limit. If the account needs more, consider a larger plan."
Rule = Refusal.Rule
# Rules that are not named after their error code.
ERROR_CODES = {refusal.value: code for refusal, (code, _) in KEY_ERRORS.items()}
# The meaning of each rule, and advice.
EXPLANATIONS = {
    Rule.MINUTE: (
        "The account had used up its requests for the minute.",
        f"Wait as long as Retry-After says, and spread requests over the minute. {SHARED}",
    ),
    Rule.DAY: (
        "The account had used up its requests for the day.",
        f"Wait until the day ends, at 00:00 UTC. {SHARED}",
    ),
    Rule.BAN: (
        "The key was banned: it kept sending for 20 seconds or more after a 429.",
        "Fix the program: after a 429 it must wait as long as Retry-After says. The key works again when "
        "the ban ends; requests until then don't prolong it. Staff can lift the ban before that.",
    ),
    Rule.REVOKED: (
        "The key was revoked.",
        "Use another key of the account, or issue a new one. If the customer does not recognise the "
        "address, the old key has leaked. It is useless now.",
    ),
    Rule.EXPIRED: (
        "The key had expired.",
        "Use its replacement, if it was rotated, or issue a new key.",
    ),
    Rule.ELSEWHERE: (
        "The key is valid, but does not allow the address that the request came from.",
        "Send from a network that the key allows, or issue a key that allows this one. If the customer "
        "does not recognise the address, the key has leaked: rotate or revoke it.",
    ),
    Rule.SUSPENDED: (
        "The key is valid, but its account was suspended.",
        "Tell the customer the reason. Once it is resolved, lift the suspension: the same keys work again.",
    ),
    Rule.SCOPE: (
        "The key is valid, but lacks the scope of the operation.",
        "Use a key that has the scope, or issue one.",
    ),
}


class SearchForm(forms.Form):
    q = forms.CharField(
        label="Request ID, key or account",
        required=False,
        widget=UnfoldAdminTextInputWidget(
            attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}
        ),
        help_text="An X-Request-Id, a key or its public ID, or an account's name. Empty for the latest.",
    )
    hours = forms.ChoiceField(
        label="When",
        required=False,
        choices=(("", "At any time"), ("1", "In the last hour"), ("24", "In the last 24 hours")),
        widget=UnfoldAdminSelectWidget,
    )


@admin.register(Refusal)
class RefusalAdmin(PetstoreModelAdmin):
    """One page with search and explanation takes the place of list and form."""

    can_add = can_change = can_delete = False

    def palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        for refusal in Refusal.objects.for_request(term)[:1]:
            about = f"Refused: {refusal.get_rule_display().lower()}, {exact(refusal.at)}"
            yield SearchResult(1, "help", f"Request {term}", about, list_url("accounts_refusal", q=term))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Explain the request with this ID; for any other search, list the latest matches."""
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
        lifted = lifted_bans(found)
        explained = [
            explanation(refusal, now) | {"ban": describe_ban(refusal, lifted, now)} for refusal in found
        ]
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
        return HttpResponseRedirect(list_url("accounts_refusal", q=refusal.request_id))


def matching(term: str, hours: str, now: datetime) -> Q:
    since = Q(at__gte=now - timedelta(hours=int(hours))) if hours else Q()
    if not term:
        return since
    keys = ApiKey.objects.filter(public_id=term)
    accounts = Account.objects.filter(Q(name__search_key__contains=term) | Q(public_id=term))
    if key_ids := list(keys.values_list("pk", flat=True)):
        return since & Q(key__in=key_ids)
    return since & Q(account__in=list(accounts.values_list("pk", flat=True)[:MAX_ACCOUNTS]))


def explanation(refusal: Refusal, now: datetime) -> dict[str, Any]:
    reason, advice = EXPLANATIONS[Rule(refusal.rule)]
    return {
        "refusal": refusal,
        "reason": reason,
        "advice": advice,
        "error_code": ERROR_CODES.get(refusal.rule) or ErrorCode[refusal.rule.upper()],
        "age": age(refusal.at, now),
        "key_badge": state_badge(refusal.key, now),
        "windows": windows(refusal),
        "networks": ", ".join(refusal.key.allowed_networks) if refusal.rule == Rule.ELSEWHERE else "",
    }


def lifted_bans(refusals: QuerySet[Refusal]) -> list[AuditEntry]:
    """Audit entries of lifted bans of these keys, oldest first."""
    keys = [str(refusal.key_id) for refusal in refusals if refusal.ban_ends_at]
    found = AuditEntry.objects.filter(
        model=ApiKey._meta.label_lower, object_id__in=keys, action=AuditEntry.Action.UNBANNED
    )
    return list(found.order_by("id")) if keys else []


def describe_ban(refusal: Refusal, lifted: list[AuditEntry], now: datetime) -> str:
    if (end := refusal.ban_ends_at) is None:
        return ""
    for entry in lifted:
        if entry.object_id == str(refusal.key_id) and refusal.at <= entry.at < end:
            return f"Lifted {exact(entry.at)} by {entry.actor_name}"
    return f"{'Ended' if end <= now else 'Ends'} {exact(end)}"


def windows(refusal: Refusal) -> list[tuple[str, Any, Any, datetime, datetime]]:
    """Return name, used, limit, start and end (exclusive) of both windows, as they were."""
    minute_ends, day_ends = refusal.minute_ends_at, refusal.day_ends_at
    if minute_ends is None or day_ends is None:  # Refused before the quota was checked.
        return []
    minute, day = timedelta(minutes=1), timedelta(days=1)
    return [
        ("Minute", refusal.minute_used, refusal.minute_limit, minute_ends - minute, minute_ends),
        ("Day (UTC)", refusal.day_used, refusal.day_limit, day_ends - day, day_ends),
    ]
