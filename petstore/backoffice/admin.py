"""The audit trail in the back office: to look at, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
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

from petstore.api.client_ip import NOWHERE
from petstore.backoffice import palette
from petstore.backoffice.dashboard import listing
from petstore.backoffice.filters import ChoiceFilter, TimeFilter
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.models import AuditEntry
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import Result

MOST_SHOWN = 1000  # Entries that one can page through; for older ones there are the filters.
MOST_STAFF = 200  # Members of staff that the filter names.


class NewestPaginator(Paginator):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Pages through the newest entries, and never counts or skips more than those."""

    @cached_property
    def count(self) -> int:
        entries = cast("QuerySet[AuditEntry]", self.object_list)
        return len(entries.values_list("pk")[:MOST_SHOWN])


class StaffFilter(ChoiceFilter):
    title = "staff"
    parameter_name = "staff"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        staff = User.objects.filter(is_staff=True).order_by("username")
        return [(str(pk), name) for pk, name in staff.values_list("pk", "username")[:MOST_STAFF]]

    def condition(self, chosen: str) -> Q:
        return Q(actor_id=int(chosen))


class KindFilter(ChoiceFilter):
    title = "kind of object"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        models = [model._meta for model in admin.site._registry if model is not AuditEntry]
        kinds = [(meta.label_lower, str(meta.verbose_name)) for meta in models]
        return sorted(kinds, key=lambda pair: pair[1])

    def condition(self, chosen: str) -> Q:
        return Q(model=chosen)


class DateFilter(TimeFilter):
    parameter_name = "days"
    field = "at"
    offered = (*TimeFilter.offered, ("older", "Before that"))

    def condition(self, chosen: str) -> Q:
        if chosen == "older":
            return Q(at__lt=timezone.now() - timedelta(days=30))
        return super().condition(chosen)


@admin.register(AuditEntry)
class AuditEntryAdmin(PetstoreModelAdmin):
    """What was done, the last first. No page of it grows slow with a million entries."""

    can_add = can_change = can_delete = False
    list_display = ["when", "actor_name", "action", "model", "object_text", "changes", "reason", "origin"]
    list_filter = [StaffFilter, "action", KindFilter, DateFilter]
    list_select_related = False
    sortable_by = ()
    ordering = ["-id"]
    paginator = NewestPaginator
    search_fields = ["object_id"]
    search_help_text = "All of an object's id or name, or a request id."
    readonly_fields = fields = (
        "when", "actor_name", "action", "model", "object_id", "object_text", "old_values", "new_values",
        "reason", "origin", "request_id",
    )  # fmt: skip

    def search(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Search for whole ids and names: only those an index finds."""
        return rows.filter(Q(object_id=term) | Q(object_text=term) | Q(request_id=term))

    @admin.display(description="at")
    def when(self, entry: AuditEntry) -> str:
        return f"{entry.at:%Y-%m-%d %H:%M:%S} UTC"

    @admin.display
    def changes(self, entry: AuditEntry) -> str:
        return ", ".join(entry.after) if entry.before else ""

    @admin.display(description="from address")
    def origin(self, entry: AuditEntry) -> str:
        """Return the address; a command and the service itself have none."""
        return "" if entry.address == str(NOWHERE) else entry.address

    @admin.display
    def old_values(self, entry: AuditEntry) -> SafeString:
        return listed(entry.before)

    @admin.display
    def new_values(self, entry: AuditEntry) -> SafeString:
        return listed(entry.after)


def listed(values: dict[str, Any]) -> SafeString:
    """Return values as an escaped text of a line for each."""
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(values.items()))
    return format_html('<pre class="values">{}</pre>', "\n".join(lines)) if values else SafeString("none")


@palette.finds
def of_request(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield the part of the trail that a request has, by its id."""
    if may_view(request, "backoffice.auditentry") and AuditEntry.objects.filter(request_id=term).exists():
        link = listing("backoffice_auditentry", q=term)
        yield Result(1, "history", f"Request {term}", "What it changed, in the audit trail", link)
