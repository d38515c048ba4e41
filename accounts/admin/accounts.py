"""Accounts in the back office."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.decorators import display

from accounts import key_text
from accounts.admin.account_page import panels
from accounts.admin.badges import PLAN_COLOURS, usage_bar
from accounts.admin.search import public_id_in, without_secret
from accounts.admin.unpublished import WarnsIfUntold
from accounts.admin.what_if import answer, form_of
from accounts.models import Account, ApiKey


@admin.register(Account)
class AccountAdmin(WarnsIfUntold):
    """The customers."""

    keys_lookup = "account"

    list_display = ["name", "plan_badge", "today", "requests_per_minute", "requests_per_day", "created_at"]
    list_filter = ["plan"]
    list_select_related = ["plan", "quota"]
    search_fields = ["name"]  # See get_search_results.
    search_help_text = "A name, or the public id of an account or key"
    fields = ["name", "plan", "per_minute", "per_day", "public_id", "created_at"]
    readonly_fields = ["public_id", "created_at"]

    class Media:
        js = ["petstore/key-text.js"]

    # --- The list

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Account], search_term: str
    ) -> tuple[QuerySet[Account], bool]:
        """Return the accounts with this in the name, or whose public id, or a key's, begins so."""
        term = (public_id_in(search_term) or search_term).strip()
        if not term:
            return queryset, False
        # A key's public id begins with its account's.
        if len(term) > key_text.ACCOUNT_ID_LENGTH:
            by_id = Q(Exists(ApiKey.objects.filter(account=OuterRef("pk"), public_id__startswith=term)))
        else:
            by_id = Q(public_id__startswith=term)
        return queryset.filter(Q(name__icontains=term) | by_id), False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show the list; a key that was pasted whole is looked for by its public id."""
        return without_secret(request) or super().changelist_view(request, extra_context)

    @display(description="plan", ordering="plan__per_day", label=PLAN_COLOURS)
    def plan_badge(self, account: Account) -> tuple[str, str]:
        """Return the plan, for its colour and in words."""
        return account.plan_id, str(account.plan)

    @display(description="used today")
    def today(self, account: Account) -> SafeString:
        """Return a bar of what the account has sent today."""
        return usage_bar(account.used_on(timezone.now().date()), account.limits.per_day)

    @admin.display(description="requests per minute")
    def requests_per_minute(self, account: Account) -> int:
        """Return what holds for the account, wherever it is set."""
        return account.limits.per_minute

    @admin.display(description="requests per day")
    def requests_per_day(self, account: Account) -> int:
        """Return what holds for the account, wherever it is set."""
        return account.limits.per_day

    # --- The page of one

    def get_queryset(self, request: HttpRequest) -> QuerySet[Account]:
        """Read plan and use with the account."""
        accounts: QuerySet[Account] = super().get_queryset(request)
        return accounts.select_related("plan", "quota")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Show what the account does beside the form."""
        if context["original"] is not None:
            # Read anew: a form with a mistake has changed the one at hand.
            context["panels"] = panels(self.get_queryset(request).get(pk=context["original"].pk), request)
        return super().render_change_form(request, context, *args, **kwargs)

    # --- What other numbers would have refused

    def get_urls(self) -> list[URLPattern]:
        """Add the page that asks."""
        view = self.admin_site.admin_view(self.what_if_view)
        return [
            path("<path:object_id>/what-if/", view, name="accounts_account_what_if"),
            *super().get_urls(),
        ]

    def what_if_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for two numbers, and say what they would have refused of this account's requests."""
        account = self.get_object(request, unquote(object_id))
        if account is None:
            raise Http404
        if not self.has_view_permission(request, account):
            raise PermissionDenied
        limits = account.limits
        form = form_of(request, limits)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"What if {account} had other numbers?",
            "whose": account,
            "form": form,
            **answer(form, account, limits),
        }
        request.current_app = self.admin_site.name  # As every page of the admin does.
        return TemplateResponse(request, "admin/accounts/what_if.html", context)
