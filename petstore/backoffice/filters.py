"""Filters of lists that offer a few choices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone


class ChoiceFilter(admin.SimpleListFilter):
    """Offers choices; any other value in the address filters nothing."""

    offered: Sequence[tuple[str, str]] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.offered)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        known = {str(value) for value, _ in self.lookup_choices}
        return queryset.filter(self.condition(chosen)) if chosen in known else queryset

    def condition(self, chosen: str) -> Q:
        """Return what holds for the rows of a choice."""
        raise NotImplementedError


class TimeFilter(ChoiceFilter):
    """Offers spans of days that end now."""

    title = "time"
    field: str
    offered: Sequence[tuple[str, str]] = (
        ("1", "In the last 24 hours"),
        ("7", "In the last 7 days"),
        ("30", "In the last 30 days"),
    )

    def condition(self, chosen: str) -> Q:
        return Q(**{f"{self.field}__gte": timezone.now() - timedelta(days=int(chosen))})
