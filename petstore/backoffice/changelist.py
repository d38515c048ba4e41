"""Lists over big tables: one page is read, nothing is counted, and page 20,000 costs what page 1 costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.views import ChangeList

from petstore.api.int64 import INT64_MAX
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.db.keysets import Key

AFTER, BEFORE = "after", "before"
MOST_AT_ONCE = 200  # Rows that one action takes.


def parse_id(text: str | None) -> int | None:
    """Return the text as an id that may exist, or None."""
    if not text or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    return min(int(text), INT64_MAX)


class KeysetPages(Paginator):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Tells unfold which template shows the links to other pages; the list itself cuts out its page."""

    template_name = "admin/list_pages.html"
    count = 0  # Nobody counts.


class KeysetChangeList(ChangeList):
    """A list whose pages begin after, or end before, a row: `?after=ID`, `?before=ID`."""

    previous_query = next_query = ""
    after = before = None

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Return all rows that filters and search let through, in order."""
        # Neither is a filter; and with another filter the list starts at its beginning.
        for params in (self.params, self.filter_params):
            params.pop(AFTER, None)
            params.pop(BEFORE, None)
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        key = cast("BigTableAdmin", self.model_admin).ordering_key(request, self.filters_chosen())
        order = [str(name) for name in rows.query.order_by]  # What was chosen, then the list's own.
        if key is not None and {name.removeprefix("-") for name in order} == {"id"}:
            rows = rows.alias(key=key).order_by(order[0].replace("id", "key"))
        return rows

    def filters_chosen(self) -> tuple[str, ...]:
        """Return the parameters of the filters that have one value each; nothing where any has several."""
        chosen = {name: values for name, values in self.filter_params.items() if any(values)}
        return tuple(sorted(chosen)) if all(len(values) == 1 for values in chosen.values()) else ()

    def get_ordering_field(self, field_name: Any) -> Any:
        """Return the field of a column, None for one that has no index to sort by (`?o=` may name any)."""
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None

    def get_results(self, request: HttpRequest) -> None:
        """Read the page, and one row more to know whether another page follows."""
        after, before = parse_id(request.GET.get(AFTER)), parse_id(request.GET.get(BEFORE))
        backwards = after is None and before is not None
        rows = self.queryset.reverse() if backwards else self.queryset
        edge = before if backwards else after
        window = None if edge is None else self.beyond(rows, edge)
        page = list((rows if window is None else rows.filter(window))[: self.list_per_page + 1])
        more = len(page) > self.list_per_page
        page = page[: self.list_per_page]
        if backwards:
            page.reverse()
        if page and (more if backwards else window is not None):
            self.previous_query = self.get_query_string({BEFORE: page[0].pk})
        if page and (window is not None if backwards else more):
            self.next_query = self.get_query_string({AFTER: page[-1].pk})
        self.first_query = self.get_query_string() if window is not None else ""
        self.result_list = page
        # Nobody counts: where there are other pages, this is what an action takes at most.
        self.result_count = MOST_AT_ONCE if self.previous_query or self.next_query else len(page)
        self.full_result_count = self.result_count  # Or the heading would offer to show all.
        self.show_full_result_count = False
        self.show_admin_actions = True
        self.can_show_all = self.multi_page = self.show_all = False
        self.paginator = KeysetPages(page, self.list_per_page)

    def beyond(self, rows: QuerySet[Any], pk: int) -> Q | None:
        """Return the condition for the rows after this one; None if their order doesn't have it."""
        first = str(rows.query.order_by[0])
        name = first.removeprefix("-")
        # Reversed, what descends ascends.
        step = "lt" if first.startswith("-") == rows.query.standard_ordering else "gt"
        if name in {"pk", "id", "key"}:
            return Q(**{f"{name}__{step}": pk})
        # By a name, then by the id: where the row stands may have changed, but not that it stands there.
        model = rows.model._base_manager
        expressions = cast("BigTableAdmin", self.model_admin).expressions
        value = model.filter(pk=pk).values_list(expressions.get(name, name), flat=True).first()
        if value is None:
            return None
        # The first condition is where the index begins, the second passes over those of the same name.
        return Q(**{f"{name}__{step}e": value}) & (
            Q(**{f"{name}__{step}": value}) | Q(**{f"pk__{step}": pk})
        )


def selects_across(request: HttpRequest) -> bool:
    """Tell whether more is chosen than the page shows."""
    return request.POST.get("select_across") == "1"


class BigTableAdmin(PetstoreModelAdmin):
    list_filter_submit = True
    sortable_by = ["id"]  # The only order that an index gives.
    # For some filters, by their parameters: the form of the id that their index is in the order of.
    keys: Mapping[tuple[str, ...], Key] = MappingProxyType({})
    # What lists may be in the order of, beside columns.
    expressions: Mapping[str, Any] = MappingProxyType({})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return KeysetChangeList

    def ordering_key(self, request: HttpRequest, filters: tuple[str, ...]) -> Key | None:
        """Return what to order rows by that these filters let through, None for the id itself."""
        return None if request.GET.get(SEARCH_VAR, "").strip() else self.keys.get(filters)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the list's filters, those with a class of their own too."""
        fields = [entry[0] for entry in self.get_list_filter(request) if isinstance(entry, tuple)]
        ends = ("__exact", "__id__exact", "_from", "_to")  # The last two are a range's.
        allowed = {f"{field}{end}" for field in fields for end in ends}
        return lookup in allowed or super().lookup_allowed(lookup, value, request)

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any], *args: Any) -> Any:
        """Do an action with the rows that are chosen one by one, or with the first of the list."""
        if selects_across(request):
            first = list(queryset.values_list("pk", flat=True)[:MOST_AT_ONCE])
            return super().response_action(request, queryset.filter(pk__in=first), *args)
        chosen = [parse_id(text) for text in request.POST.getlist(ACTION_CHECKBOX_NAME)]
        if None in chosen or len(chosen) > MOST_AT_ONCE:
            text = f"Nothing was done. Choose at most {MOST_AT_ONCE} rows of the list, and try again."
            self.message_user(request, text, messages.WARNING)
            return None
        return super().response_action(request, queryset.filter(pk__in=chosen), *args)


# --- Filters


class ChoiceFilter(admin.SimpleListFilter):
    """Offers choices; any other value in the address filters nothing."""

    options: Sequence[tuple[str, str]] = ()
    field: str  # That a choice is a value of, unless `condition` says otherwise.

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.options)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        known = {str(value) for value, _ in self.lookup_choices}
        return queryset.filter(self.condition(chosen)) if chosen in known else queryset

    def condition(self, chosen: str) -> Q:
        """Return what holds for the rows of a choice."""
        return Q(**{self.field: chosen})


class TimeFilter(ChoiceFilter):
    """Offers spans of days that end now."""

    title = "time"
    options: Sequence[tuple[str, str]] = (
        ("1", "In the last 24 hours"),
        ("7", "In the last 7 days"),
        ("30", "In the last 30 days"),
    )

    def condition(self, chosen: str) -> Q:
        return Q(**{f"{self.field}__gte": timezone.now() - timedelta(days=int(chosen))})
