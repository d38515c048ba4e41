"""Read-only admin of the audit trail and of failed sign-ins."""

import json
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from petstore.api.client_ip import NO_ADDRESS
from petstore.audit.actions import labels, routine
from petstore.audit.models import AuditEntry, FailedSignIn
from petstore.backoffice.changelist import ChoiceFilter, LargeTableMixin, TimeFilter
from petstore.backoffice.history import EntryFormatter, render_link
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import SearchResult
from petstore.backoffice.spreadsheets import send_export, write_csv
from petstore.db.names import to_nfc

MAX_EXPORTED = 50_000
MAX_CHANGES = 5  # Per entry in the list.
MAX_VALUE_LENGTH = 40  # Characters, in the list.
MAX_STAFF = 200  # Options of the filter.
TOO_MANY = f"This list has more than {MAX_EXPORTED:,} entries. Narrow it with filters, then export it."
EXPORT_COLUMNS = (
    "at (UTC)", "by", "action", "kind", "object's id", "object", "old values", "new values", "reason",
    "from address", "request id",
)  # fmt: skip


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
        models = admin.site._registry.keys() - {AuditEntry}
        kinds = [(model._meta.label_lower, str(model._meta.verbose_name)) for model in models]
        return sorted(kinds, key=lambda kind: kind[1])


class ActionFilter(ChoiceFilter):
    title = "action"
    parameter_name = field = "action__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(labels.items())


class DateFilter(TimeFilter):
    parameter_name = "days"
    field = "at"
    options = [*TimeFilter.options, ("older", "Older")]

    def get_condition(self, value: str) -> Q:
        if value == "older":
            return Q(at__lt=timezone.now() - timedelta(days=30))
        return super().get_condition(value)


class SignInFilter(ChoiceFilter):
    """Hides sign-ins unless this filter or the action filter selects them."""

    title = "sign-ins"
    parameter_name = "sign_ins"
    options = (("shown", "Shown"),)

    def choices(self, changelist: Any) -> Iterator[Any]:
        default, *others = super().choices(changelist)
        return iter([default | {"display": "Hidden"}, *others])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "shown" or ActionFilter.parameter_name in request.GET:
            return queryset
        return queryset.exclude(action__in=routine)


class ReadOnlyAdmin(LargeTableMixin):
    can_add = can_change = can_delete = False
    sortable_by = []
    ordering = ["-id"]
    list_filter_submit = False

    palette_text: str  # Describes the entries of a request.
    palette_query: dict[str, str] = {}

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        if self.model._default_manager.filter(request_id=term).exists():
            link = self.get_request_url(term)
            yield SearchResult(1, "history", f"Request {term}", self.palette_text, link)

    def get_request_url(self, request_id: str) -> str:
        return f"{self.list_url()}?{urlencode({'q': request_id} | self.palette_query)}"

    @admin.display(description="request ID")
    def request_link(self, obj: AuditEntry | FailedSignIn) -> str:
        """Link to everything in this list that the request did."""
        return render_link(self.get_request_url(obj.request_id), obj.request_id)

    @admin.display(description="at")
    def timestamp(self, obj: AuditEntry | FailedSignIn) -> str:
        return f"{obj.at:%Y-%m-%d %H:%M:%S} UTC"


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    palette_text = "Its changes in the audit trail"
    palette_query = {"sign_ins": "shown"}
    list_display = [
        "timestamp", "actor", "action_name", "kind", "object_link", "changes", "reason", "from_address",
    ]  # fmt: skip
    list_filter = [StaffFilter, ActionFilter, KindFilter, DateFilter, SignInFilter]
    list_before_template: Any = "admin/audit_list.html"
    pages = {"export/": ("export", "view")}
    search_fields = ["object_id"]
    search_help_text = "An exact object ID, object name or request ID."
    readonly_fields = fields = (
        "timestamp", "actor", "action_name", "kind", "object_key", "object_link", "all_changes", "reason",
        "from_address", "request_link",
    )  # fmt: skip

    def search(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        # Every search uses an index, because only exact matches count.
        spellings = {term, to_nfc(term), unicodedata.normalize("NFD", term)}
        return rows.filter(Q(object_id=term) | Q(object_text__in=spellings) | Q(request_id=term))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        set_formatter(changelist.result_list, request)
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        entry = super().get_object(request, object_id, from_field)
        set_formatter([entry] if entry else [], request)
        return entry

    @admin.display(description="by")
    def actor(self, entry: Any) -> str:
        return str(entry.formatter.link_actor(entry))

    @admin.display(description="action")
    def action_name(self, entry: AuditEntry) -> str:
        return entry.get_action_display()

    @admin.display
    def kind(self, entry: Any) -> str:
        return str(entry.formatter.name_kind(entry))

    @admin.display(description="object's ID")
    def object_key(self, entry: AuditEntry) -> str:
        return entry.object_id

    @admin.display(description="object")
    def object_link(self, entry: Any) -> str:
        return str(entry.formatter.link_object(entry))

    @admin.display
    def changes(self, entry: Any) -> SafeString:
        """Render the first changes, truncated. The page of the entry shows all of them."""
        changes = entry.formatter.list_changes(entry, MAX_VALUE_LENGTH)
        suffix = f" and {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
        return format_html("{}{}", join_lines(changes[:MAX_CHANGES]), suffix)

    @admin.display(description="changes")
    def all_changes(self, entry: Any) -> SafeString:
        return join_lines(entry.formatter.list_changes(entry) or ["none"])

    @admin.display
    def from_address(self, entry: AuditEntry) -> str:
        return "" if entry.address == str(NO_ADDRESS) else entry.address

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        entries = self.get_changelist_instance(request).get_queryset(request)
        if entries[MAX_EXPORTED : MAX_EXPORTED + 1].exists():
            self.message_user(request, TOO_MANY, messages.WARNING)
            return HttpResponseRedirect(f"{self.list_url()}?{request.GET.urlencode()}")
        rows = chain([EXPORT_COLUMNS], map(format_export_row, entries.iterator()))
        return send_export(request, AuditEntry, "audit-trail.csv", partial(write_csv, rows))


@admin.register(FailedSignIn)
class FailedSignInAdmin(ReadOnlyAdmin):
    palette_text = "A failed sign-in"
    list_display = ["timestamp", "user", "reason", "address", "request_link"]
    readonly_fields = fields = ("timestamp", "user", "reason", "address", "request_link")
    list_filter = [DateFilter]
    search_fields = ["username"]
    search_help_text = "An exact username or request ID."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Add whether the user is on the staff: None if the user was deleted, or is unknown."""
        users = User.objects.filter(pk=OuterRef("user_id")).values("is_staff")
        rows: QuerySet[Any] = super().get_queryset(request).annotate(is_staff=Subquery(users))
        return rows

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_view(request, "backoffice.auditentry")

    def search(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        return rows.filter(Q(username=term) | Q(request_id=term))

    @admin.display(description="name")
    def user(self, failed_sign_in: Any) -> str:
        name = failed_sign_in.username or "Unknown"
        if failed_sign_in.is_staff:
            return render_link(reverse("admin:auth_user_change", args=[failed_sign_in.user_id]), name)
        return name if failed_sign_in.is_staff is None else f"member {name}"


def format_export_row(entry: AuditEntry) -> list[str]:
    before, after = (
        json.dumps(values, ensure_ascii=False) if values else "" for values in (entry.before, entry.after)
    )
    return [
        f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.actor_name, entry.get_action_display(), entry.model,
        entry.object_id, entry.object_text, before, after, entry.reason, entry.address, entry.request_id,
    ]  # fmt: skip


def set_formatter(entries: Iterable[AuditEntry], request: HttpRequest) -> None:
    formatter = EntryFormatter(entries, request)
    for entry in entries:
        entry.__dict__["formatter"] = formatter


def join_lines(lines: Iterable[str]) -> SafeString:
    return format_html_join(SafeString("<br> "), "{}", ([line] for line in lines))
