"""Accounts in the back office."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.decorators import display

from accounts import key_text
from accounts.admin.account_page import panels
from accounts.admin.badges import PLAN_COLOURS, usage_bar
from accounts.admin.search import PastedKeyAdmin, public_id_in
from accounts.admin.what_if import WhatIfAdmin
from accounts.models import Account, ApiKey


@admin.register(Account)
class AccountAdmin(PastedKeyAdmin, WhatIfAdmin):  # type: ignore[misc]  # Unfold has no types.
    keys_lookup = "account"
    reported_as = "account_id"

    list_display = ["name", "plan_badge", "today", "requests_per_minute", "requests_per_day", "created_at"]
    list_filter = ["plan"]
    list_select_related = ["plan", "quota"]
    search_fields = ["name"]  # See get_search_results.
    search_help_text = "A name, or the public id of an account or key"
    fields = ["name", "plan", "per_minute", "per_day", "public_id", "created_at"]
    readonly_fields = ["public_id", "created_at"]

    # --- The list

    def search(self, request: HttpRequest, rows: QuerySet[Account], term: str) -> QuerySet[Account]:
        """Return the accounts with this in the name, or whose public id, or a key's, begins so."""
        term = public_id_in(term) or term
        # A key's public id begins with its account's.
        if len(term) > key_text.ACCOUNT_ID_LENGTH:
            by_id = Q(Exists(ApiKey.objects.filter(account=OuterRef("pk"), public_id__startswith=term)))
        else:
            by_id = Q(public_id__startswith=term)
        return rows.filter(Q(name__icontains=term) | by_id)

    @display(description="plan", ordering="plan__per_day", label=PLAN_COLOURS)
    def plan_badge(self, account: Account) -> tuple[str, str]:
        return account.plan_id, str(account.plan)

    @display(description="used today")
    def today(self, account: Account) -> SafeString:
        return usage_bar(account.used_on(timezone.now().date()), account.limits.per_day)

    @admin.display(description="requests per minute")
    def requests_per_minute(self, account: Account) -> int:
        return account.limits.per_minute

    @admin.display(description="requests per day")
    def requests_per_day(self, account: Account) -> int:
        return account.limits.per_day

    # --- The page of one

    def get_queryset(self, request: HttpRequest) -> QuerySet[Account]:
        accounts: QuerySet[Account] = super().get_queryset(request)
        return accounts.select_related("plan", "quota")

    def beside_form(self, request: HttpRequest, row: Account | None) -> dict[str, Any]:
        # Read anew: a form with a mistake has changed the one at hand.
        return {"panels": panels(self.get_queryset(request).get(pk=row.pk), request)} if row else {}
