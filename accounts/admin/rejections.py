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

from accounts.admin.badges import build_state_badge, render_age
from accounts.explanations import explain
from accounts.models import Account, ApiKey, Rejection
from petstore.backoffice.dashboard import list_url
from petstore.backoffice.model_admin import PetstoreModelAdmin, redirect_search
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import SearchResult
from petstore.text import format_time

MAX_ACCOUNTS = 50  # Accounts that a search by name includes.


class SearchForm(forms.Form):
    attrs = {"autocomplete": "off", "spellcheck": "false", "autofocus": True}
    periods = (("", "At any time"), ("1", "In the last hour"), ("24", "In the last 24 hours"))
    q = forms.CharField(
        label="Request ID, key or account", required=False, widget=forms.TextInput(attrs),
        help_text="An X-Request-Id, a key, an account's name, or a public ID. Leave empty for the latest.",
    )  # fmt: skip
    hours = forms.ChoiceField(label="Time", required=False, choices=periods)


@admin.register(Rejection)
class RejectionAdmin(PetstoreModelAdmin):
    """Replaces the list and the form with a page that searches and explains."""

    can_add = can_change = can_delete = False

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        for rejection in Rejection.objects.for_request(term)[:1]:
            reason = rejection.get_reason_display().lower()
            description = f"Rejected: {reason}, {format_time(rejection.rejected_at)}"
            url = list_url("accounts_rejection", q=term)
            yield SearchResult(1, "help", f"Request {term}", description, url)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Explain the rejections with this request ID. For other terms, list the latest matches."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if redirect := redirect_search(request):
            return redirect
        form = SearchForm(request.GET)
        term = form.cleaned_data["q"] if form.is_valid() else ""
        rejections = Rejection.objects.for_request(term).select_related(
            "key__rate_limit_state", "key__rotated_to", "key__account"
        )
        explanations = build_explanations(list(rejections))
        matches = None
        if form.is_valid() and not explanations:
            newest = Rejection.objects.newest(build_condition(term, form.cleaned_data["hours"]))
            matches = sorted(newest, key=lambda rejection: rejection.rejected_at, reverse=True)
        # Without `opts`, the heading is the title.
        return self.admin_site.render_page(
            request, "accounts/rejection/explain", "Rejected requests",
            media=self.media, form=form, term=term, explanations=explanations, matches=matches,
            retention_days=settings.REJECTION_RETENTION_DAYS,
            may_view_accounts=may_view(request, "accounts.account"),
            may_view_keys=may_view(request, "accounts.apikey"),
        )  # fmt: skip

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        rejection = self.get_permitted_object(request, object_id)
        return HttpResponseRedirect(list_url("accounts_rejection", q=rejection.request_id))


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


def build_explanations(rejections: list[Rejection]) -> list[dict[str, Any]]:
    """Explain the rejections, and add the current state of their keys."""
    now, explanations = timezone.now(), explain(rejections, to_staff=True)
    for explanation in explanations:
        rejection = explanation["rejection"]
        explanation["age"] = render_age(rejection.rejected_at, now)
        explanation["key_badge"] = build_state_badge(rejection.key, now)
        explanation["is_banned"] = rejection.key.get_ban_end(now) is not None
    return explanations
