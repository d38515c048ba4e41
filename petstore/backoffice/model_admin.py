"""The base class of all ModelAdmins: search, pages of its own, audit trail and edit conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.text import capfirst
from unfold.admin import ModelAdmin

from petstore.backoffice import audit, edit_conflicts, palette
from petstore.backoffice.audit import Action, Actor
from petstore.backoffice.forms import MultilineField, SafeAutocompleteSelect, preserve_untouched
from petstore.backoffice.history import HistoryEntry, history_entries
from petstore.backoffice.models import AuditEntry
from petstore.backoffice.site import PetstoreAdminSite
from petstore.db.keysets import choose_order
from petstore.db.names import visible_name

MAX_REMEMBERED = 500  # Rows per action; further ones are recorded without old values.
EXAMPLES = 3  # Protecting rows that a message names.


class PetstoreModelAdmin(ModelAdmin):
    admin_site: PetstoreAdminSite
    # False denies the operation to all, superusers included.
    can_add = can_change = can_delete = True
    formfield_overrides = {models.TextField: {"form_class": MultilineField}}  # type: ignore[misc,assignment]
    actions: Any = None  # An action on a whole list would load every row.
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    # Pages about one row: URL suffix and name. `revoke` is served by `revoke_view(request, object_id)`.
    row_pages: Mapping[str, str] = MappingProxyType({})
    # Pages about the list: URL suffix, name and permission. `export` is served by `export_view(request)`.
    list_pages: Mapping[str, tuple[str, str]] = MappingProxyType({})
    deletion_hint = ""  # The alternative to deleting a protected row.
    add_title = ""  # Overrides Django's title of the add page.
    palette_commands: Sequence[palette.PaletteCommand] = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.can_add and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_change and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_delete and super().has_delete_permission(request, obj)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow only the list's own filters: other lookups would leak fields that are not displayed."""
        entries = self.get_list_filter(request)
        if lookup in [getattr(entry, "parameter_name", None) for entry in entries]:
            return True
        filters = [entry for entry in entries if isinstance(entry, str)]
        return lookup.split("__", maxsplit=1)[0] in filters and lookup.endswith(("__exact", "__isnull"))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return search_redirect(request) or super().changelist_view(request, extra_context)

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Any], search_term: str
    ) -> tuple[models.QuerySet[Any], bool]:
        term = palette.without_secret(search_term.strip())
        return (self.search(request, queryset, term) if term else queryset), False

    def search(self, request: HttpRequest, rows: models.QuerySet[Any], term: str) -> models.QuerySet[Any]:
        """Match rows that contain each word in one of the search fields."""
        for word in term.split():
            fields = [f"{field}__search_key__contains" for field in self.get_search_fields(request)]
            rows = rows.filter(Q(*[(field, word) for field in fields], _connector=Q.OR))
        return rows

    def palette_results(self, request: HttpRequest, term: str) -> Iterable[palette.SearchResult]:
        """Find rows for a term, which is not empty. Called only with permission to view."""
        return ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {}  # Django would pass query parameters to the widgets without validation.

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any], request: HttpRequest, **kwargs: Any
    ) -> forms.ModelChoiceField[Any] | None:
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = SafeAutocompleteSelect(db_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(widget := getattr(field, "widget", None), RelatedFieldWidgetWrapper):
            widget.can_delete_related = False
        return field

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> Any:
        raise Http404  # Django would redirect to the home page.

    @admin.display(description="name", ordering="name")
    def visible_name(self, row: Any) -> str:
        return visible_name(row.name)

    # --- Edit conflicts

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """For a POST, also lock the row and remember its values for the audit trail."""
        row = super().get_object(request, object_id, from_field)
        if row is not None and request.method == "POST":
            if edit_conflicts.lock(row, request):
                row = super().get_object(request, object_id, from_field)
            audit.remember_values(request, [row] if row is not None else [])
        return row

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        if obj is None or not change or request.method != "POST":
            return form
        return edit_conflicts.reject_outdated(preserve_untouched(form), obj, request)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if row := context.get("original"):
            context["title"] = plural(self.opts)
            stored = self.model._base_manager.get(pk=row.pk)
            context["version"] = edit_conflicts.version_of(stored, context["adminform"].form.fields)
        elif self.add_title:
            context["title"] = self.add_title
        context["show_history"] = self.can_add or self.can_change or self.can_delete
        if row is not None and self.can_delete:
            context["show_delete"] = not is_protected(row)
        context |= self.form_context(request, row)
        return super().render_change_form(request, context, *args, **kwargs)

    def form_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return additional context for the change form; `row` is None on the add page."""
        return {}

    # --- The audit trail, instead of Django's LogEntry

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        changelist.title = plural(self.opts)
        if not (changelist.query or changelist.has_active_filters):
            changelist.full_result_count = changelist.result_count  # Hides the "show all" link.
        return changelist

    def response_action(self, request: HttpRequest, queryset: Any, *args: Any, **kwargs: Any) -> Any:
        audit.remember_values(request, queryset[:MAX_REMEMBERED])
        return super().response_action(request, queryset, *args, **kwargs)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        values = audit.stored_values(obj)
        audit.record(Actor.of(request), obj, Action.ADDED, after=values, reason=reason(request, message))

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Record a change. A string as the message is its reason."""
        audit.record_change(request, obj, reason(request, message))

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for row in queryset:
            values = audit.stored_values(row)
            audit.record(Actor.of(request), row, Action.DELETED, before=values, reason=reason(request))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Refuse to delete a row that protected relations refer to, and say why."""
        row = self.get_object(request, unquote(object_id))
        if row is None or not self.has_delete_permission(request, row) or not is_protected(row):
            return super().delete_view(request, object_id, extra_context)
        why = ", ".join(islice(protecting(self.model, [row]), EXAMPLES + 1))
        text = f"{row} can't be deleted because other records refer to it ({why}). {self.deletion_hint}"
        self.message_user(request, text, messages.WARNING)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return HttpResponseRedirect(reverse(name, args=[quote(row.pk)]))

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        row = self.row(request, object_id)
        history = self.history_of(row)
        return self.page(request, "object_history", f"History of {row}", object=row, history=history)

    def history_of(self, row: Any) -> list[HistoryEntry]:
        return history_entries(AuditEntry.objects.about(row))

    # --- Additional pages

    def get_urls(self) -> list[Any]:
        def url(route: str, name: str, view: Any) -> Any:
            full = f"{self.opts.app_label}_{self.opts.model_name}_{name}"
            return path(route, self.admin_site.admin_view(view), name=full)

        rows = [
            url(f"<path:object_id>/{suffix}", name, getattr(self, f"{name}_view"))
            for suffix, name in self.row_pages.items()
        ]
        lists = [
            url(suffix, name, partial(self.list_page, name, permission))
            for suffix, (name, permission) in self.list_pages.items()
        ]
        return [*lists, *rows, *super().get_urls()]

    def list_page(self, name: str, permission: str, request: HttpRequest) -> HttpResponseBase:
        """Serve a page about the list. Invalid filters redirect to the list, as Django does."""
        if not getattr(self, f"has_{permission}_permission")(request):
            raise PermissionDenied
        try:
            response: HttpResponseBase = getattr(self, f"{name}_view")(request)
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{self.list_url()}?e=1")
        return response

    def list_url(self) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def row(
        self,
        request: HttpRequest,
        object_id: str,
        allowed: Callable[[HttpRequest, Any], bool] | None = None,
    ) -> Any:
        """Get the row of a page; raise Http404 or PermissionDenied."""
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        if not (allowed or self.has_view_permission)(request, row):
            raise PermissionDenied
        return row

    def page(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        shared = {"opts": self.opts, "media": self.media}
        return self.admin_site.page(request, template, title, **shared | context)


def search_redirect(request: HttpRequest) -> HttpResponseRedirect | None:
    """Redirect a posted search to a GET URL without secrets, since histories and logs record URLs."""
    sent = request.POST if SEARCH_VAR in request.POST else request.GET
    term = sent.get(SEARCH_VAR, "")
    if sent is request.GET and palette.without_secret(term) == term:
        return None
    query = sent.copy()
    query[SEARCH_VAR] = palette.without_secret(term)
    query.pop("csrfmiddlewaretoken", None)
    return HttpResponseRedirect(f"{request.path}?{query.urlencode()}")


def plural(opts: Any) -> str:
    return capfirst(str(opts.verbose_name_plural))


def reason(request: HttpRequest, message: Any = None) -> str:
    """Return the log message if it is a string, else the form's field `reason`."""
    return message if isinstance(message, str) else request.POST.get("reason", "")


def is_protected(row: models.Model) -> bool:
    """Whether rows refer to this one with on_delete=PROTECT."""
    return next(protecting(type(row), [row]), None) is not None


def protecting(model: type[models.Model], objs: Iterable[models.Model]) -> Iterator[str]:
    """Yield descriptions of up to EXAMPLES referring rows per PROTECT relation."""
    for relation in model._meta.related_objects:
        if relation.on_delete is models.PROTECT:
            name = relation.field.name
            rows = relation.related_model._base_manager.filter(**{f"{name}__in": objs}).order_by()
            with suppress(LookupError):  # No keyset order for this relation: it has few rows.
                rows = rows.order_by(choose_order(relation.related_model, frozenset({name})))
            kind = str(relation.related_model._meta.verbose_name).capitalize()
            found = [f"{kind}: {row}" for row in rows[: EXAMPLES + 1]]
            yield from found[:EXAMPLES]
            if len(found) > EXAMPLES:
                yield "and more"
