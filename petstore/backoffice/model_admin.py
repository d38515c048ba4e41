"""What every ModelAdmin of ours starts from: lists of any size, and a record of what is done."""

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
from petstore.backoffice.forms import MultilineField, SafeAutocompleteSelect, keeping
from petstore.backoffice.history import HistoryEntry, history_entries
from petstore.backoffice.models import AuditEntry
from petstore.backoffice.site import PetstoreAdminSite
from petstore.db.keysets import order_for
from petstore.db.names import visible_name

MOST_REMEMBERED = 500  # Rows of one action whose old values are kept; more are recorded without them.
EXAMPLES = 3


class PetstoreModelAdmin(ModelAdmin):
    admin_site: PetstoreAdminSite
    # What nobody may do here is False, whatever permissions they have.
    can_add = can_change = can_delete = True
    formfield_overrides = {models.TextField: {"form_class": MultilineField}}  # type: ignore[misc,assignment]
    actions: Any = None  # An action on a whole list would load all of it.
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    # Pages about one row: what follows the row's id in their address, and their names. `revoke` is shown by
    # `revoke_view(request, object_id)`.
    row_pages: Mapping[str, str] = MappingProxyType({})
    # Pages about the list: what follows its address, their names, and the right of each. `export` is shown
    # by `export_view(request)`.
    list_pages: Mapping[str, tuple[str, str]] = MappingProxyType({})
    # What staff can do to a row that others refer to, and that is therefore kept.
    deletion_hint = ""
    add_title = ""  # Of the page for a new row, where it isn't simply added.
    palette_commands: Sequence[palette.PaletteCommand] = ()  # What the palette offers to do.

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.can_add and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_change and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_delete and super().has_delete_permission(request, obj)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the list's own filters only: any other lookup would also find what isn't shown."""
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
        """Return the rows that have each word of the term in one of the fields to search."""
        for word in term.split():
            fields = [f"{field}__search_key__contains" for field in self.get_search_fields(request)]
            rows = rows.filter(Q(*[(field, word) for field in fields], _connector=Q.OR))
        return rows

    def palette_results(self, request: HttpRequest, term: str) -> Iterable[palette.SearchResult]:
        """Return what the palette finds for a text, never empty, of who may see the rows."""
        return ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Fill in nothing from the address: Django would hand its text to the widgets unchecked."""
        return {}

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any], request: HttpRequest, **kwargs: Any
    ) -> forms.ModelChoiceField[Any] | None:
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = SafeAutocompleteSelect(db_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the field; beside a choice, nothing offers to delete what is chosen."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(widget := getattr(field, "widget", None), RelatedFieldWidgetWrapper):
            widget.can_delete_related = False
        return field

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> Any:
        """Answer 404, as any other page that isn't there; Django would lead to the home page."""
        raise Http404

    @admin.display(description="name", ordering="name")
    def visible_name(self, row: Any) -> str:
        return visible_name(row.name)

    # --- Two who edit the same row

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return a row; before a change, remember what it holds for the audit trail, and lock it."""
        row = super().get_object(request, object_id, from_field)
        if row is not None and request.method == "POST":
            if edit_conflicts.lock(row, request):
                row = super().get_object(request, object_id, from_field)
            audit.remember(request, [row] if row is not None else [])
        return row

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form, which keeps untouched text and rejects a change to an outdated row."""
        form = super().get_form(request, obj, change=change, **kwargs)
        if obj is None or not change or request.method != "POST":
            return form
        return edit_conflicts.checked(keeping(form), obj, request)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Show the form, with the version of what it shows, and what else the page shows."""
        if row := context.get("original"):
            context["title"] = plural(self.opts)  # Django's would be "Change pet".
            stored = self.model._base_manager.get(pk=row.pk)
            context["version"] = edit_conflicts.version_of(stored, context["adminform"].form.fields)
        elif self.add_title:
            context["title"] = self.add_title
        # What nobody changes has none.
        context["show_history"] = self.can_add or self.can_change or self.can_delete
        if row is not None and self.can_delete:
            context["show_delete"] = not is_protected(row)
        context |= self.form_context(request, row)
        return super().render_change_form(request, context, *args, **kwargs)

    def form_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the page of a row shows beside its form; `row` is None for a new one."""
        return {}

    # --- The record of what is done: ours, not Django's LogEntry

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the list, named by what it lists; Django's would be "Select pet to change"."""
        listed = super().get_changelist_instance(request)
        listed.title = plural(self.opts)
        if not (listed.query or listed.has_active_filters):
            listed.full_result_count = listed.result_count  # Or the heading would offer to show all.
        return listed

    def response_action(self, request: HttpRequest, queryset: Any, *args: Any, **kwargs: Any) -> Any:
        audit.remember(request, queryset[:MOST_REMEMBERED])
        return super().response_action(request, queryset, *args, **kwargs)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        values = audit.stored_values(obj)
        audit.record(Actor.of(request), obj, Action.ADDED, after=values, reason=reason(request, message))

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Record a change, with old and new values; a text as the message is the reason."""
        audit.record_change(request, obj, reason(request, message))

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for row in queryset:
            values = audit.stored_values(row)
            audit.record(Actor.of(request), row, Action.DELETED, before=values, reason=reason(request))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Ask before a row is deleted; one that others refer to is kept, and staff are told why."""
        row = self.get_object(request, unquote(object_id))
        if row is None or not self.has_delete_permission(request, row) or not is_protected(row):
            return super().delete_view(request, object_id, extra_context)
        why = ", ".join(islice(protecting(self.model, [row]), EXAMPLES + 1))
        text = f"{row} can't be deleted, because it has a history ({why}). {self.instead_of_deleting}"
        self.message_user(request, text, messages.WARNING)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return HttpResponseRedirect(reverse(name, args=[quote(row.pk)]))

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Show the newest of what was done to a row."""
        row = self.row(request, object_id)
        history = self.history_of(row)
        return self.page(request, "object_history", f"History of {row}", object=row, history=history)

    def history_of(self, row: Any) -> list[HistoryEntry]:
        return history_entries(AuditEntry.objects.about(row))

    # --- Pages of our own

    def get_urls(self) -> list[Any]:
        def own(tail: str, name: str, view: Any) -> Any:
            full = f"{self.opts.app_label}_{self.opts.model_name}_{name}"
            return path(tail, self.admin_site.admin_view(view), name=full)

        rows = [
            own(f"<path:object_id>/{tail}", name, getattr(self, f"{name}_view"))
            for tail, name in self.row_pages.items()
        ]
        lists = [
            own(tail, name, partial(self.list_page, name, right))
            for tail, (name, right) in self.list_pages.items()
        ]
        return [*lists, *rows, *super().get_urls()]

    def list_page(self, name: str, right: str, request: HttpRequest) -> HttpResponseBase:
        """Return a page about the list; filters that can't be applied lead to the list, as on it."""
        if not getattr(self, f"has_{right}_permission")(request):
            raise PermissionDenied
        try:
            response: HttpResponseBase = getattr(self, f"{name}_view")(request)
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{self.list_address()}?e=1")
        return response

    def list_url(self) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def row(
        self,
        request: HttpRequest,
        object_id: str,
        allowed: Callable[[HttpRequest, Any], bool] | None = None,
    ) -> Any:
        """Return the row that a page is about. Raises Http404; PermissionDenied unless it is allowed."""
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        if not (allowed or self.has_view_permission)(request, row):
            raise PermissionDenied
        return row

    def page(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """Return a page in the frame of the back office; `template` stands in templates/admin."""
        shared = {"opts": self.opts, "media": self.media}
        return self.admin_site.page(request, template, title, **shared | context)


def search_redirect(request: HttpRequest) -> HttpResponseRedirect | None:
    """Redirect a posted search to its address, which histories and logs may keep, without secrets."""
    sent = request.POST if SEARCH_VAR in request.POST else request.GET
    term = sent.get(SEARCH_VAR, "")
    if sent is request.GET and palette.without_secret(term) == term:
        return None
    query = sent.copy()
    query[SEARCH_VAR] = palette.without_secret(term)
    query.pop("csrfmiddlewaretoken", None)
    return HttpResponseRedirect(f"{request.path}?{query.urlencode()}")


def plural(opts: Any) -> str:
    """Return what pages about rows of a kind are titled."""
    return capfirst(str(opts.verbose_name_plural))


def reason(request: HttpRequest, message: Any = None) -> str:
    """Return why something was done: the verb's words, or what staff wrote into the form's field for it."""
    return message if isinstance(message, str) else request.POST.get("reason", "")


def is_protected(row: models.Model) -> bool:
    """Tell whether other rows refer to it that must not lose it."""
    return next(protecting(type(row), [row]), None) is not None


def protecting(model: type[models.Model], objs: Iterable[models.Model]) -> Iterator[str]:
    """Yield a few of the rows, of each kind, that must not lose what they refer to."""
    for relation in model._meta.related_objects:
        if relation.on_delete is models.PROTECT:
            name = relation.field.name
            rows = relation.related_model._base_manager.filter(**{f"{name}__in": objs}).order_by()
            with suppress(LookupError):  # Few refer to a row where no list is filtered by it.
                rows = rows.order_by(order_for(relation.related_model, frozenset({name})))
            kind = str(relation.related_model._meta.verbose_name).capitalize()
            found = [f"{kind}: {row}" for row in rows[: EXAMPLES + 1]]
            yield from found[:EXAMPLES]
            if len(found) > EXAMPLES:
                yield "and more"
