"""The base class of all ModelAdmins: search, additional pages, audit trail and edit conflicts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.core.exceptions import PermissionDenied
from django.db import connection, models
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldBooleanWidget

from petstore import audit
from petstore.audit import Action, Actor
from petstore.audit.models import AuditEntry
from petstore.backoffice import filter_chips, palette
from petstore.backoffice.forms import (
    VERSION_FIELD,
    EditForm,
    MultilineField,
    SafeAutocompleteSelect,
    use_unfold_widgets,
)
from petstore.backoffice.history import HistoryEntry, build_history
from petstore.backoffice.site import PetstoreAdminSite
from petstore.db.keysets import choose_order
from petstore.db.names import visible_name
from petstore.templatetags.names import heading

PermissionCheck = Callable[[HttpRequest, Any], bool]

MAX_EXAMPLES = 3  # Referring rows that a message lists per relation.
MAX_TEXT_LENGTH = 5_000  # Lists show texts in full, and clients get them with the list of categories.


class PetstoreModelAdmin(ModelAdmin):
    admin_site: PetstoreAdminSite
    form = EditForm
    # False denies the operation to everyone, including superusers.
    can_add = can_change = can_delete = True
    formfield_overrides = {  # type: ignore[misc,assignment]
        models.TextField: {"form_class": MultilineField, "max_length": MAX_TEXT_LENGTH}
    }
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    # Pages in addition to Django's, as route, name and permission. `export_view(request)` serves `export`.
    pages: Mapping[str, tuple[str, str]] = {}
    deletion_hint = ""  # Suggests an alternative to deleting a protected row.
    palette_commands: Sequence[palette.PaletteCommand] = ()
    row_commands: Mapping[str, str] = {}  # Verbs, and the states of the rows to which they apply.

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.can_add and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_change and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_delete and super().has_delete_permission(request, obj)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow only the filters of the list. Other lookups would leak fields that are not displayed."""
        filters = [item[0] if isinstance(item, tuple) else item for item in self.get_list_filter(request)]
        names = {getattr(item, "parameter_name", item) for item in filters}
        field, *parts = lookup.split("__")  # Such as `plan__exact` or, for a relation, `plan__code__exact`.
        return lookup in names or (field in names and len(parts) <= 2 and parts[-1:] == ["exact"])

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return redirect_search(request) or super().changelist_view(request, extra_context)

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        term = palette.strip_secret(search_term.strip())
        return (self.search(request, queryset, term) if term else queryset), False

    def search(self, request: HttpRequest, rows: models.QuerySet[Any], term: str) -> models.QuerySet[Any]:
        """Select rows whose search fields contain every word of the term."""
        for word in term.split():
            fields = [f"{field}__search_key__contains" for field in self.get_search_fields(request)]
            rows = rows.filter(Q(*[(field, word) for field in fields], _connector=Q.OR))
        return rows

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterable[palette.SearchResult]:
        """Find rows for a term that is not empty. The caller has checked the view permission."""
        return ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {}  # Django would pass unvalidated query parameters to the widgets.

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
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

    def action_checkbox(self, obj: Any) -> SafeString:
        """Name the row that the checkbox selects."""
        attributes = {"class": "action-select", "aria-label": f"Select {obj}"}
        box = UnfoldBooleanWidget(attributes, check_test=lambda value: False)
        return box.render(ACTION_CHECKBOX_NAME, str(obj.pk))

    @admin.display(description="name", ordering="name")
    def visible_name(self, row: Any) -> str:
        return visible_name(row.name)

    # --- Edit conflicts

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """For a POST, also remember the values for the audit trail. A save locks the row."""
        from_field = from_field or None  # The parameter `_to_field` may be empty.
        obj: Any = super().get_object(request, object_id, from_field)
        if obj is not None and request.method == "POST":
            if VERSION_FIELD in request.POST and connection.in_atomic_block:
                # FOR NO KEY UPDATE does not block writes of rows that refer to this one. A stronger lock
                # could deadlock with the usage writer, which may hold locks that the save needs.
                rows = self.model._base_manager.select_for_update(no_key=True).filter(pk=obj.pk)
                if rows.values_list("pk"):
                    obj = super().get_object(request, object_id, from_field)
            if obj is not None:  # It may have left the list since, as a removed member of staff does.
                obj.values_before = audit.get_field_values(obj)
        return obj

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        obj = context.get("original")
        context["show_history"] = self.can_add or self.can_change or self.can_delete
        use_unfold_widgets(context["adminform"].form)
        if obj is not None:
            context["title"] = heading(self.opts.verbose_name_plural)
            if self.can_delete:
                context["show_delete"] = not is_protected(obj)
        context |= self.get_form_context(request, obj)
        return super().render_change_form(request, context, *args, **kwargs)

    def get_form_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return additional context for the change form. On the add page, `row` is None."""
        return {}

    # --- The audit trail, which replaces Django's LogEntry

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        changelist.title = heading(self.opts.verbose_name_plural)
        if not (changelist.query or changelist.has_active_filters):
            changelist.full_result_count = changelist.result_count  # Hides the "show all" link.
        filter_chips.set_chips(changelist)
        return changelist

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        after, reason = audit.read_stored_values(obj), get_reason(request, message)
        audit.record(Actor.from_request(request), obj, Action.ADDED, after=after, reason=reason)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Record what has changed since `get_object`. An unchanged row is recorded only with a reason."""
        before, after = obj.values_before, audit.read_stored_values(obj)
        reason = get_reason(request, message)
        if before != after or reason:
            actor = Actor.from_request(request)
            audit.record(actor, obj, Action.CHANGED, before=before, after=after, reason=reason)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        actor, reason = Actor.from_request(request), get_reason(request)
        for obj in queryset:
            before = audit.read_stored_values(obj)
            audit.record(actor, obj, Action.DELETED, before=before, reason=reason)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Explain why a protected row can't be deleted."""
        obj = self.get_object(request, unquote(object_id))
        if obj is None or not self.has_delete_permission(request, obj) or not is_protected(obj):
            title = f"Delete the {self.opts.verbose_name} {obj}?"
            context = {"title": title, "back": change_url(obj)} if obj else None
            return super().delete_view(request, object_id, context)
        examples = ", ".join(islice(describe_referring_rows(obj), MAX_EXAMPLES + 1))
        reason = f"{obj} can't be deleted because other records refer to it ({examples})."
        self.message_user(request, f"{reason} {self.deletion_hint}", messages.WARNING)
        return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", quote(obj.pk))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Count the rows that are deleted with a row, which may be many. Django would list all of them."""
        counts = {}
        for relation in self.opts.related_objects:
            if relation.on_delete is models.CASCADE:
                model, field = relation.related_model, relation.field.name
                if count := model._base_manager.filter(**{f"{field}__in": objs}).count():
                    counts[str(model._meta.verbose_name_plural)] = count
        return [str(obj) for obj in objs], counts, set(), []

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        obj = self.get_permitted_object(request, object_id)
        history = self.get_history(request, obj)
        return self.render_page(request, "object_history", f"History of {obj}", object=obj, history=history)

    def get_history(self, request: HttpRequest, row: Any) -> list[HistoryEntry]:
        return build_history(AuditEntry.objects.for_object(row), request)

    # --- Additional pages

    def make_url(self, route: str, name: str, view: Any) -> Any:
        url_name = f"{self.opts.app_label}_{self.opts.model_name}_{name}"
        return path(route, self.admin_site.admin_view(view), name=url_name)

    def get_urls(self) -> list[Any]:
        urls = [
            self.make_url(route, name, partial(self.serve_page, name, permission))
            for route, (name, permission) in self.pages.items()
        ]
        return [*urls, *super().get_urls()]

    def serve_page(
        self, page: str, permission: str, request: HttpRequest, **arguments: Any
    ) -> HttpResponseBase:
        """Serve an additional page. As in Django, invalid filters redirect to the list itself."""
        if not getattr(self, f"has_{permission}_permission")(request):
            raise PermissionDenied
        view: Callable[..., HttpResponseBase] = getattr(self, f"{page}_view")
        try:
            return view(request, **arguments)
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{self.list_url()}?e=1")

    def list_url(self) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def get_permitted_object(
        self, request: HttpRequest, object_id: str, has_permission: PermissionCheck | None = None
    ) -> Any:
        """Return the object, or raise Http404 or PermissionDenied."""
        obj = self.get_object(request, unquote(object_id))
        if obj is None:
            raise Http404
        if not (has_permission or self.has_view_permission)(request, obj):
            raise PermissionDenied
        return obj

    def render_page(self, request: HttpRequest, *args: str, **context: Any) -> TemplateResponse:
        """Render a template with a title, like the method of the site, with the context of the model."""
        return self.admin_site.render_page(request, *args, opts=self.opts, media=self.media, **context)


def page_url(obj: models.Model, page: str) -> str:
    return reverse(f"admin:{obj._meta.app_label}_{obj._meta.model_name}_{page}", args=[obj.pk])


def change_url(obj: models.Model) -> str:
    return page_url(obj, "change")


def redirect_search(request: HttpRequest) -> HttpResponseRedirect | None:
    """Redirect to a URL without secrets if the search was posted or contains a key."""
    params = request.POST if SEARCH_VAR in request.POST else request.GET
    term = params.get(SEARCH_VAR, "")
    safe_term = palette.strip_secret(term)
    if params is request.GET and safe_term == term:
        return None
    query = params.copy()
    query[SEARCH_VAR] = safe_term
    query.pop("csrfmiddlewaretoken", None)
    return HttpResponseRedirect(f"{request.path}?{query.urlencode()}")


def get_reason(request: HttpRequest, message: Any = None) -> str:
    """Return the log message if it is a string, else the form field `reason`."""
    return message if isinstance(message, str) else request.POST.get("reason", "")


def is_protected(obj: models.Model) -> bool:
    """Whether rows refer to the object with on_delete=PROTECT."""
    return next(describe_referring_rows(obj), None) is not None


def describe_referring_rows(obj: models.Model) -> Iterator[str]:
    """Describe the rows that refer to the object with on_delete=PROTECT, MAX_EXAMPLES per relation."""
    for relation in obj._meta.related_objects:
        if relation.on_delete is not models.PROTECT:
            continue
        model, field = relation.related_model, relation.field.name
        rows = model._base_manager.filter(**{field: obj}).order_by()
        with suppress(LookupError):  # Small tables have no keyset order for the relation.
            rows = rows.order_by(choose_order(model, frozenset({field})))
        kind = str(model._meta.verbose_name).capitalize()
        descriptions = [f"{kind}: {row}" for row in rows[: MAX_EXAMPLES + 1]]
        yield from descriptions[:MAX_EXAMPLES]
        if len(descriptions) > MAX_EXAMPLES:
            yield "and more"
