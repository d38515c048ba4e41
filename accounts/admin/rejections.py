"""Admin of the rejection log: a page that finds rejected requests and explains why they were rejected."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from accounts.admin.badges import build_state_badge, render_age
from accounts.admin.base import change_url, issue_key_url, page_url
from accounts.explanations import explain
from accounts.models import Account, ApiKey, Refusal
from petstore.backoffice.dashboard import list_url
from petstore.backoffice.model_admin import PetstoreModelAdmin, redirect_search
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import SearchResult
from petstore.backoffice.text import format_time

MAX_ACCOUNTS = 50  # That a search by name includes.
Reason = Refusal.Reason


class SearchForm(forms.Form):
    attrs = {"autocomplete": "off", "spellcheck": "false", "autofocus": True}
    periods = (("", "At any time"), ("1", "In the last hour"), ("24", "In the last 24 hours"))
    q = forms.CharField(
        label="Request ID, key or account", required=False, widget=UnfoldAdminTextInputWidget(attrs=attrs),
        help_text="An X-Request-Id, a key, its public ID, or an account name. Leave empty for the latest.",
    )  # fmt: skip
    hours = forms.ChoiceField(label="Time", required=False, choices=periods, widget=UnfoldAdminSelectWidget)


@admin.register(Refusal)
class RejectionAdmin(PetstoreModelAdmin):
    """Replaces the list and the form with a page that searches and explains."""

    can_add = can_change = can_delete = False

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        for rejection in Refusal.objects.for_request(term)[:1]:
            reason = rejection.get_reason_display().lower()
            description = f"Refused: {reason}, {format_time(rejection.rejected_at)}"
            url = list_url("accounts_refusal", q=term)
            yield SearchResult(1, "help", f"Request {term}", description, url)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Explain the rejections with this request ID. For other terms, list the latest matches."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if redirect := redirect_search(request):
            return redirect
        form = SearchForm(request.GET)
        term = form.cleaned_data["q"] if form.is_valid() else ""
        rejections = Refusal.objects.for_request(term).select_related(
            "key__rate_limit_state", "key__rotated_to", "key__account"
        )
        explanations = build_explanations(request, list(rejections))
        matches = None
        if form.is_valid() and not explanations:
            matches = Refusal.objects.newest(build_condition(term, form.cleaned_data["hours"]))
        # Without `opts`, the heading is the title.
        return self.admin_site.render_page(
            request, "accounts/rejection/explain", "Why refused?",
            media=self.media, form=form, term=term, explanations=explanations, matches=matches,
            retention_days=settings.REFUSALS_KEPT_DAYS,
            may_view_accounts=may_view(request, "accounts.account"),
            may_view_keys=may_view(request, "accounts.apikey"),
        )  # fmt: skip

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        rejection = self.get_permitted_object(request, object_id)
        return HttpResponseRedirect(list_url("accounts_refusal", q=rejection.request_id))


def build_condition(term: str, hours: str) -> Q:
    """Match rejections of a key or of accounts, in the last hours. Without either, match all."""
    since = Q(rejected_at__gte=timezone.now() - timedelta(hours=int(hours))) if hours else Q()
    if not term:
        return since
    key_ids = list(ApiKey.objects.filter(public_id=term).values_list("pk", flat=True))
    if key_ids:
        return since & Q(key__in=key_ids)
    accounts = Account.objects.filter(Q(name__search_key__contains=term) | Q(public_id=term))
    return since & Q(account__in=list(accounts.values_list("pk", flat=True)[:MAX_ACCOUNTS]))


def build_next_steps(request: HttpRequest, rejection: Refusal) -> Iterator[tuple[str, str]]:
    """Yield text and URL of each action that may remove the cause, if it applies and is permitted."""
    key, account, reason = rejection.key, rejection.account, rejection.reason
    may, is_banned = request.user.has_perm, key.get_ban_end(timezone.now()) is not None
    if reason == Reason.BAN and is_banned and may("accounts.change_apikey"):
        yield "Lift the ban", page_url(key, "unban")
    if reason == Reason.SUSPENDED and account.suspended_at and may("accounts.change_account"):
        yield "Lift the suspension", page_url(account, "lift_suspension")
    if reason in (Reason.MINUTE, Reason.DAY):
        if may("accounts.change_account"):
            yield "Change the plan", page_url(account, "change_plan")
        if may_view(request, "accounts.account"):
            yield "Try other limits", page_url(account, "what_if")
    if reason == Reason.NETWORK_NOT_ALLOWED and may_view(request, "accounts.apikey"):
        yield "Open the key", change_url(key)
    if reason == Reason.EXPIRED and hasattr(key, "rotated_to") and may_view(request, "accounts.apikey"):
        yield "Open its replacement", change_url(key.rotated_to)
    needs_key = reason in (Reason.REVOKED, Reason.EXPIRED, Reason.NETWORK_NOT_ALLOWED, Reason.SCOPE)
    if needs_key and not account.suspended_at and may("accounts.add_apikey"):
        yield "Issue a key", issue_key_url(account)


def build_explanations(request: HttpRequest, rejections: list[Refusal]) -> list[dict[str, Any]]:
    """Explain the rejections, with the actions that may remove the cause."""
    now = timezone.now()
    return [
        explanation
        | {
            "age": render_age(rejection.rejected_at, now),
            "key_badge": build_state_badge(rejection.key, now),
            "next_steps": list(build_next_steps(request, rejection)),
        }
        for rejection, explanation in zip(rejections, explain(rejections, to_staff=True), strict=True)
    ]
