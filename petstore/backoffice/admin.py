"""The audit trail in the back office: to look at, and nothing else."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, cast

from django.contrib import admin
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.models import AuditEntry

MOST_SHOWN = 1000  # Entries that one can leaf through; for older ones there are the filters.
MOST_STAFF = 200  # Members of staff that the filter names.


class NewestPaginator(Paginator):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Leafs through the newest entries, and never counts or skips more than those."""

    @cached_property
    def count(self) -> int:
        """Return how many there are to leaf through."""
        entries = cast("QuerySet[AuditEntry]", self.object_list)
        return len(entries.values_list("pk")[:MOST_SHOWN])


class StaffFilter(admin.SimpleListFilter):
    """Who did it."""

    title = "staff"
    parameter_name = "staff"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the members of staff."""
        staff = User.objects.filter(is_staff=True).order_by("username")
        return [(str(pk), name) for pk, name in staff.values_list("pk", "username")[:MOST_STAFF]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        """Return what they did."""
        known = {value for value, _ in self.lookup_choices}
        return queryset.filter(actor_id=int(self.value() or "")) if self.value() in known else queryset


class ModelFilter(admin.SimpleListFilter):
    """To what it was done."""

    title = "kind of object"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the models that have pages."""
        models = [model._meta for model in admin.site._registry if model is not AuditEntry]
        return sorted(
            ((meta.label_lower, str(meta.verbose_name)) for meta in models), key=lambda pair: pair[1]
        )

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        """Return what was done to this kind."""
        return queryset.filter(model=self.value()) if self.value() else queryset


class DateFilter(admin.SimpleListFilter):
    """When it was done."""

    title = "date"
    parameter_name = "days"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the spans."""
        return [
            ("1", "Last 24 hours"),
            ("7", "Last 7 days"),
            ("30", "Last 30 days"),
            ("older", "Before that"),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        """Return what was done in the span."""
        now = timezone.now()
        if self.value() == "older":
            return queryset.filter(at__lt=now - timedelta(days=30))
        days = {"1": 1, "7": 7, "30": 30}.get(self.value() or "")
        return queryset.filter(at__gte=now - timedelta(days=days)) if days else queryset


@admin.register(AuditEntry)
class AuditEntryAdmin(PetstoreModelAdmin):
    """What staff did, the last first. No page of it grows slow with a million entries."""

    list_display = ["when", "actor_name", "action", "model", "object_text", "changes", "reason", "address"]
    list_filter = [StaffFilter, "action", ModelFilter, DateFilter]
    list_select_related = False
    sortable_by = ()
    ordering = ["-id"]
    paginator = NewestPaginator
    search_fields = ["object_id"]
    search_help_text = "All of an object's id or name, or a request id."
    readonly_fields = fields = (
        "when", "actor_name", "action", "model", "object_id", "object_text", "old_values", "new_values",
        "reason", "address", "request_id",
    )  # fmt: skip

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search for whole ids and names: only those an index finds."""
        term = search_term.strip()
        if not term:
            return queryset, False
        return queryset.filter(Q(object_id=term) | Q(object_text=term) | Q(request_id=term)), False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Forbid: only what happens is recorded."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid: what happened has happened."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid: what happened has happened."""
        return False

    @admin.display(description="at")
    def when(self, entry: AuditEntry) -> str:
        """Return the moment, to the second."""
        return f"{entry.at:%Y-%m-%d %H:%M:%S} UTC"

    @admin.display
    def changes(self, entry: AuditEntry) -> str:
        """Return which fields were changed."""
        return ", ".join(entry.after) if entry.action == AuditEntry.Action.CHANGED else ""

    @admin.display
    def old_values(self, entry: AuditEntry) -> SafeString:
        """Return the values before."""
        return listed(entry.before)

    @admin.display
    def new_values(self, entry: AuditEntry) -> SafeString:
        """Return the values after."""
        return listed(entry.after)


def listed(values: dict[str, Any]) -> SafeString:
    """Return values as an escaped text of a line for each."""
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(values.items()))
    return format_html('<pre class="values">{}</pre>', "\n".join(lines)) if values else SafeString("none")
