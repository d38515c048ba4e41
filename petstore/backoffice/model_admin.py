"""The pages of one model: what every ModelAdmin of ours starts from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AutocompleteSelect
from django.db import models
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from petstore.backoffice import audit, edit_conflicts


class SafeAutocompleteSelect(AutocompleteSelect):
    """Shows a value that can be no id as nothing chosen; Django's own raises while it is shown again."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        """Return the option that is chosen."""
        try:
            return super().optgroups(name, value, attr)
        except (ValueError, OverflowError):
            return super().optgroups(name, [], attr)


class PetstoreModelAdmin(ModelAdmin):
    """The pages of one model, for tables of any size."""

    actions: Any = None  # An action on a whole list would load all of it.
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the list's own filters only: any other lookup would also find what isn't shown."""
        entries = self.get_list_filter(request)
        if lookup in [getattr(entry, "parameter_name", None) for entry in entries]:
            return True
        filters = [entry for entry in entries if isinstance(entry, str)]
        return lookup.split("__", maxsplit=1)[0] in filters and lookup.endswith(("__exact", "__isnull"))

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Fill in nothing from the address: Django would hand its text to the widgets unchecked."""
        return {}

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any], request: HttpRequest, **kwargs: Any
    ) -> forms.ModelChoiceField[Any] | None:
        """Return the form field, with a widget that bears any input."""
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = SafeAutocompleteSelect(db_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return a row; before a change, note for the audit trail what it holds, and hold it still."""
        row = super().get_object(request, object_id, from_field)
        if row is not None and request.method == "POST":
            if edit_conflicts.lock(row, request):
                row = super().get_object(request, object_id, from_field)
            audit.remember(request, [row] if row is not None else [])
        return row

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form; it refuses if somebody else changed the row meanwhile."""
        form = super().get_form(request, obj, change=change, **kwargs)
        if obj is None or not change or request.method != "POST":
            return form
        return edit_conflicts.checked(form, obj, request)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Show the form, with the version of what it shows."""
        if row := context.get("original"):
            stored = self.model._base_manager.get(pk=row.pk)
            context["version"] = edit_conflicts.version_of(stored, context["adminform"].form.fields)
        return super().render_change_form(request, context, *args, **kwargs)

    def response_action(self, request: HttpRequest, queryset: Any, *args: Any, **kwargs: Any) -> Any:
        """Do an action; note first for the audit trail what its rows hold."""
        audit.remember(request, queryset[:MOST_REMEMBERED])
        return super().response_action(request, queryset, *args, **kwargs)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Record a new row."""
        audit.record_addition(request, obj, reason(request, message))
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Record a change, with old and new values; a text as the message is the reason."""
        audit.record_change(request, obj, reason(request, message))
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """Record what will be deleted."""
        for row in queryset:
            audit.record_deletion(request, row)
        return super().log_deletions(request, queryset)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return what would be deleted, or some of what forbids it: Django would load and list it all."""
        if examples := list(protecting(self.model, objs)):
            return [], {}, set(), examples
        return super().get_deleted_objects(objs, request)


def reason(request: HttpRequest, message: Any) -> str:
    """Return why something was done: the verb's words, or what staff wrote into the form's field for it."""
    return message if isinstance(message, str) else request.POST.get("reason", "")


MOST_REMEMBERED = 500  # Rows of one action whose old values are kept; more are recorded without them.
EXAMPLES = 10


def protecting(model: type[models.Model], objs: Iterable[models.Model]) -> Iterator[str]:
    """Yield a few of the rows, of each kind, that must not lose what they refer to."""
    for relation in model._meta.related_objects:
        if relation.on_delete is models.PROTECT:
            rows = relation.related_model._base_manager.filter(**{f"{relation.field.name}__in": objs})
            name = relation.related_model._meta.verbose_name
            found = [f"{str(name).capitalize()}: {row}" for row in rows[: EXAMPLES + 1]]
            yield from found[:EXAMPLES]
            if len(found) > EXAMPLES:
                yield "and more"


# --- Histories -----------------------------------------------------------------------------------


EVENTS_SHOWN = 100


class EventFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Shows what happened and reads nothing: forged form counts would make Django's own fail."""

    def __init__(self, data: Any = None, files: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def get_queryset(self) -> models.QuerySet[Any]:
        """Return the last events, read once: a row may have thousands."""
        if not hasattr(self, "_queryset"):
            self._queryset = super().get_queryset()[:EVENTS_SHOWN]
        return self._queryset

    def is_valid(self) -> bool:
        """Accept: there is nothing to check."""
        return True

    def save(self, commit: bool = True) -> list[Any]:
        """Save nothing."""
        self.new_objects, self.changed_objects, self.deleted_objects = [], [], []
        return []


class HistoryInline(TabularInline):
    """What happened to a row, the last first. Shown, never written: the models' verbs do that."""

    formset: Any = EventFormSet
    can_delete = False
    extra = 0

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid: what happened has happened."""
        return False
