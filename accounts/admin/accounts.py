"""Accounts in the back office."""

from __future__ import annotations

from django.contrib import admin

from accounts.models import Account
from petstore.backoffice.pages import PetstoreModelAdmin


@admin.register(Account)
class AccountAdmin(PetstoreModelAdmin):
    """The customers."""

    list_display = ["name", "plan", "requests_per_minute", "requests_per_day", "created_at"]
    list_filter = ["plan"]
    list_select_related = ["plan"]
    search_fields = ["name"]
    fields = ["name", "plan", "per_minute", "per_day", "public_id", "created_at"]
    readonly_fields = ["public_id", "created_at"]

    @admin.display(description="requests per minute")
    def requests_per_minute(self, account: Account) -> int:
        """Return what holds for the account, wherever it is set."""
        return account.limits.per_minute

    @admin.display(description="requests per day")
    def requests_per_day(self, account: Account) -> int:
        """Return what holds for the account, wherever it is set."""
        return account.limits.per_day
