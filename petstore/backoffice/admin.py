"""Read-only admins of the audit trail and of failed sign-ins."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, cast

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from petstore.api.client_ip import NO_ADDRESS
from petstore.backoffice import spreadsheets
from petstore.backoffice.audit import send_export
from petstore.backoffice.changelist import ChoiceFilter, TimeFilter, parse_id
from petstore.backoffice.dashboard import list_url
from petstore.backoffice.history import Change, changes_of
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.models import AuditEntry, FailedSignIn
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import SearchResult
from petstore.backoffice.text import truncate
from petstore.db.names import to_nfc

MAX_ENTRIES = 1000  # Reachable through pages. Older ones need filters.
MAX_EXPORTED = 50_000
MAX_CHANGES, MAX_VALUE_LENGTH = 5, 40  # Per entry in the list; characters.
TOO_MANY = f"This list has more than {MAX_EXPORTED:,} entries. Narrow it with filters, then export it."
COLUMNS = (
    "at (UTC)", "by", "action", "kind", "object's id", "object", "old values", "new values", "reason",
    "from address", "request id",
)  # fmt: skip
MAX_STAFF = 200  # Options of the filter.


class NewestPaginator(Paginator):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Never counts or skips more than the newest MAX_ENTRIES."""

    @cached_property
    def count(self) -> int:
        entries = cast("QuerySet[AuditEntry]", self.object_list)
        return len(entries.values_list("pk")[:MAX_ENTRIES])


class StaffFilter(ChoiceFilter):
    title = "staff"
    parameter_name = "staff"
    field = "actor_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        staff = User.objects.filter(is_staff=True).order_by("username")
        return [(str(pk), name) for pk, name in staff.values_list("pk", "username")[:MAX_STAFF]]


class KindFilter(ChoiceFilter):
    title = "kind of object"
    parameter_name = "kind"
    field = "model"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        models = [model._meta for model in admin.site._registry if model is not AuditEntry]
        kinds = [(meta.label_lower, str(meta.verbose_name)) for meta in models]
        return sorted(kinds, key=lambda pair: pair[1])


class DateFilter(TimeFilter):
    parameter_name = "days"
    field = "at"
    options = (*TimeFilter.options, ("older", "Older"))

    def condition(self, chosen: str) -> Q:
        if chosen == "older":
            return Q(at__lt=timezone.now() - timedelta(days=30))
        return super().condition(chosen)


class SignInFilter(ChoiceFilter):
    """Hides sign-ins unless they are selected here or by the filter of actions."""

    title = "sign-ins"
    parameter_name = "sign_ins"
    options = (("shown", "Shown"),)

    def choices(self, changelist: Any) -> Iterator[Any]:
        default, *others = super().choices(changelist)
        return iter([default | {"display": "Hidden"}, *others])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        shown = self.value() == "shown" or "action__exact" in request.GET
        return queryset if shown else queryset.exclude(action__in=AuditEntry.SIGN_INS)


class RecordAdmin(PetstoreModelAdmin):
    can_add = can_change = can_delete = False
    sortable_by = ()
    ordering = ["-id"]
    paginator = NewestPaginator

    @admin.display(description="at")
    def when(self, row: AuditEntry | FailedSignIn) -> str:
        return f"{row.at:%Y-%m-%d %H:%M:%S} UTC"


@admin.register(AuditEntry)
class AuditEntryAdmin(RecordAdmin):
    list_display = ["when", "actor", "action", "kind", "thing", "changes", "reason", "origin"]
    list_filter = [StaffFilter, "action", KindFilter, DateFilter, SignInFilter]
    list_before_template: Any = "admin/audit_list.html"
    list_pages = MappingProxyType({"export/": ("export", "view")})
    search_fields = ["object_id"]
    search_help_text = "An exact object ID, object name or request ID."
    readonly_fields = fields = (
        "when", "actor", "action", "kind", "object_id", "thing", "old_values", "new_values", "reason",
        "origin", "request_id",
    )  # fmt: skip

    def search(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        # Exact matches only, so that every search uses an index.
        spellings = {term, to_nfc(term), unicodedata.normalize("NFD", term)}
        return rows.filter(Q(object_id=term) | Q(object_text__in=spellings) | Q(request_id=term))

    def palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        if AuditEntry.objects.filter(request_id=term).exists():
            link = list_url("backoffice_auditentry", q=term, sign_ins="shown")
            yield SearchResult(1, "history", f"Request {term}", "Its changes in the audit trail", link)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        changelist.title = "Audit trail"
        add_descriptions(changelist.result_list)
        return changelist

    @admin.display(description="by")
    def actor(self, entry: AuditEntry) -> str:
        return link_to("auth.user", entry.actor_id, entry.actor_name)

    @admin.display
    def kind(self, entry: AuditEntry) -> str:
        with suppress(LookupError, ValueError):  # A removed model, or none.
            return str(apps.get_model(entry.model)._meta.verbose_name)
        return entry.model

    @admin.display(description="object")
    def thing(self, entry: AuditEntry) -> str:
        deleted = entry.action == AuditEntry.Action.DELETED
        link = link_to(entry.model, None if deleted else entry.object_id, entry.object_text)
        about = getattr(entry, "about", "")
        return format_html("{} ({})", link, about) if about else link

    @admin.display
    def changes(self, entry: AuditEntry) -> SafeString:
        """Render the first changes, truncated. The entry's own page has all of them."""
        found = changes_of(entry)
        lines = [
            (Change(name, *(truncate(value, MAX_VALUE_LENGTH) for value in values)),)
            for name, *values in found[:MAX_CHANGES]
        ]
        more = f" and {len(found) - MAX_CHANGES} more" if len(found) > MAX_CHANGES else ""
        return format_html("{}{}", format_html_join(SafeString("<br>"), "{}", lines), more)

    @admin.display(description="from address")
    def origin(self, entry: AuditEntry) -> str:
        return "" if entry.address == str(NO_ADDRESS) else entry.address

    @admin.display
    def old_values(self, entry: AuditEntry) -> SafeString:
        return format_values(entry.before)

    @admin.display
    def new_values(self, entry: AuditEntry) -> SafeString:
        return format_values(entry.after)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        entries = self.get_changelist_instance(request).get_queryset(request)
        if entries[MAX_EXPORTED : MAX_EXPORTED + 1].exists():
            self.message_user(request, TOO_MANY, messages.WARNING)
            return HttpResponseRedirect(f"{self.list_url()}?{request.GET.urlencode()}")
        rows = chain([COLUMNS], map(export_row, entries.iterator()))
        return send_export(request, AuditEntry, "audit-trail.csv", partial(spreadsheets.write, rows))


@admin.register(FailedSignIn)
class FailedSignInAdmin(RecordAdmin):
    list_display = ["when", "who", "reason", "address", "request_id"]
    readonly_fields = fields = ("when", "who", "reason", "address", "request_id")
    list_filter = [DateFilter]
    search_fields = ["username"]
    search_help_text = "An exact username or request ID."

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_view(request, "backoffice.auditentry")

    def search(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        return rows.filter(Q(username=term) | Q(request_id=term))

    def palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        if FailedSignIn.objects.filter(request_id=term).exists():
            link = list_url("backoffice_failedsignin", q=term)
            yield SearchResult(1, "history", f"Request {term}", "A failed sign-in", link)

    @admin.display(description="name")
    def who(self, failed: FailedSignIn) -> str:
        return link_to("auth.user", failed.user_id, failed.username) or "Unknown"


def export_row(entry: AuditEntry) -> list[str]:
    values = (json.dumps(each, ensure_ascii=False) if each else "" for each in (entry.before, entry.after))
    return [
        f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.actor_name, entry.get_action_display(), entry.model,
        entry.object_id, entry.object_text, *values, entry.reason, entry.address, entry.request_id,
    ]  # fmt: skip


def add_descriptions(entries: Iterable[AuditEntry]) -> None:
    """Set `about` on entries whose model describes its rows, with one query per model."""
    by_model: dict[str, list[AuditEntry]] = {}
    for entry in entries:
        by_model.setdefault(entry.model, []).append(entry)
    for model in admin.site._registry:
        if found := hasattr(model, "audit_description") and by_model.get(model._meta.label_lower):
            ids = {parse_id(entry.object_id) for entry in found} - {None}
            rows = model._base_manager.select_related().in_bulk(ids)
            for entry in found:
                row: Any = rows.get(parse_id(entry.object_id))
                entry.__dict__["about"] = row.audit_description if row else ""


def link_to(model: str, pk: Any, text: str) -> str:
    """Render a link to a row's page, or the text alone if there is none."""
    with suppress(NoReverseMatch):
        if pk:
            url = reverse(f"admin:{model.replace('.', '_')}_change", args=[quote(pk)])
            return format_html('<a class="office-link" href="{}">{}</a>', url, text or pk)
    return text


def format_values(values: dict[str, Any]) -> SafeString:
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(values.items()))
    return format_html('<pre class="values">{}</pre>', "\n".join(lines)) if values else SafeString("none")
