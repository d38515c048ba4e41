"""Read-only admin of the audit trail and of failed sign-ins."""

import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from petstore.api.client_ip import NO_ADDRESS
from petstore.api.int64 import parse_id
from petstore.audit.actions import Action, labels, routine
from petstore.audit.models import AuditEntry, FailedSignIn
from petstore.backoffice.changelist import ChoiceFilter, LargeTableMixin, TimeFilter
from petstore.backoffice.history import Change, get_changes
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import SearchResult
from petstore.backoffice.spreadsheets import send_export, write_csv
from petstore.db.names import to_nfc
from petstore.text import truncate

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

    user_field: str
    palette_text: str  # Describes the entries of a request.
    palette_query: dict[str, str] = {}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Add whether the user is on the staff. Customers have no page to link to."""
        staff = User.objects.filter(pk=OuterRef(self.user_field), is_staff=True)
        rows: QuerySet[Any] = super().get_queryset(request).annotate(is_staff=Exists(staff))
        return rows

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        if self.model._default_manager.filter(request_id=term).exists():
            link = f"{self.list_url()}?{urlencode({'q': term} | self.palette_query)}"
            yield SearchResult(1, "history", f"Request {term}", self.palette_text, link)

    @admin.display(description="at")
    def timestamp(self, obj: AuditEntry | FailedSignIn) -> str:
        return f"{obj.at:%Y-%m-%d %H:%M:%S} UTC"


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    user_field = "actor_id"
    palette_text = "Its changes in the audit trail"
    palette_query = {"sign_ins": "shown"}
    list_display = [
        "timestamp", "actor", "action", "kind", "object_link", "changes", "reason", "from_address",
    ]  # fmt: skip
    list_filter = [StaffFilter, ActionFilter, KindFilter, DateFilter, SignInFilter]
    list_before_template: Any = "admin/audit_list.html"
    list_pages = {"export/": ("export", "view")}
    search_fields = ["object_id"]
    search_help_text = "An exact object ID, object name or request ID."
    readonly_fields = fields = (
        "timestamp", "actor", "action", "kind", "object_id", "object_link", "old_values", "new_values",
        "reason", "from_address", "request_id",
    )  # fmt: skip

    def search(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        # Every search uses an index, because only exact matches count.
        spellings = {term, to_nfc(term), unicodedata.normalize("NFD", term)}
        return rows.filter(Q(object_id=term) | Q(object_text__in=spellings) | Q(request_id=term))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        add_object_labels(changelist.result_list)
        return changelist

    @admin.display(description="by")
    def actor(self, entry: Any) -> str:
        return render_link("auth.user", entry.is_staff and entry.actor_id, entry.actor_name)

    @admin.display(description="action")
    def action(self, entry: AuditEntry) -> str:
        return entry.get_action_display()

    @admin.display
    def kind(self, entry: AuditEntry) -> str:
        try:
            return str(apps.get_model(entry.model)._meta.verbose_name)
        except (LookupError, ValueError):  # The model was removed, or the entry has none.
            return entry.model

    @admin.display(description="object")
    def object_link(self, entry: Any) -> str:
        is_deleted = entry.action == Action.DELETED
        is_own = entry.model == "auth.user" and entry.object_id == str(entry.actor_id)
        has_page = not is_deleted and (entry.is_staff or not is_own)
        link = render_link(entry.model, has_page and entry.object_id, entry.object_text)
        label = getattr(entry, "object_label", "")
        return format_html("{} ({})", link, label) if label else link

    @admin.display
    def changes(self, entry: AuditEntry) -> SafeString:
        """Render the first changes, truncated. The page of the entry shows all of them."""
        changes = get_changes(entry)
        lines = [
            [Change(name, truncate(before, MAX_VALUE_LENGTH), truncate(after, MAX_VALUE_LENGTH))]
            for name, before, after in changes[:MAX_CHANGES]
        ]
        suffix = f" and {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
        return format_html("{}{}", format_html_join(SafeString("<br> "), "{}", lines), suffix)

    @admin.display
    def from_address(self, entry: AuditEntry) -> str:
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
        rows = chain([EXPORT_COLUMNS], map(format_export_row, entries.iterator()))
        return send_export(request, AuditEntry, "audit-trail.csv", partial(write_csv, rows))


@admin.register(FailedSignIn)
class FailedSignInAdmin(ReadOnlyAdmin):
    user_field = "user_id"
    palette_text = "A failed sign-in"
    list_display = ["timestamp", "user", "reason", "address", "request_id"]
    readonly_fields = fields = ("timestamp", "user", "reason", "address", "request_id")
    list_filter = [DateFilter]
    search_fields = ["username"]
    search_help_text = "An exact username or request ID."

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_view(request, "backoffice.auditentry")

    def search(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        return rows.filter(Q(username=term) | Q(request_id=term))

    @admin.display(description="name")
    def user(self, failed_sign_in: Any) -> str:
        name = failed_sign_in.username or "Unknown"
        return render_link("auth.user", failed_sign_in.is_staff and failed_sign_in.user_id, name)


def format_export_row(entry: AuditEntry) -> list[str]:
    before, after = (
        json.dumps(values, ensure_ascii=False) if values else "" for values in (entry.before, entry.after)
    )
    return [
        f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.actor_name, entry.get_action_display(), entry.model,
        entry.object_id, entry.object_text, before, after, entry.reason, entry.address, entry.request_id,
    ]  # fmt: skip


def add_object_labels(entries: Iterable[AuditEntry]) -> None:
    """Set `object_label` on entries whose model has an `audit_description`, with one query per model."""
    by_model: dict[str, list[AuditEntry]] = defaultdict(list)
    for entry in entries:
        by_model[entry.model].append(entry)
    for model in admin.site._registry:
        model_entries = by_model.get(model._meta.label_lower)
        if not model_entries or not hasattr(model, "audit_description"):
            continue
        ids = {parse_id(entry.object_id) for entry in model_entries} - {None}
        rows = model._base_manager.select_related().in_bulk(ids)
        for entry in model_entries:
            row: Any = rows.get(parse_id(entry.object_id))
            entry.__dict__["object_label"] = row.audit_description if row else ""


def render_link(model: str, pk: Any, text: str) -> str:
    """Render a link to the page of a row, or only the text if it has no page."""
    if not pk:
        return text
    try:
        url = reverse(f"admin:{model.replace('.', '_')}_change", args=[quote(pk)])
    except NoReverseMatch:
        return text
    return format_html('<a class="office-link" href="{}">{}</a>', url, text or pk)


def format_values(values: dict[str, Any]) -> SafeString:
    if not values:
        return SafeString("none")
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(values.items()))
    return format_html('<pre class="values">{}</pre>', "\n".join(lines))
