"""Categories in the back office."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from inventory import stock
from inventory.models import Category
from petstore.backoffice.changelist import BigTableAdmin, KeysetChangeList
from petstore.backoffice.palette import Offer


def count_pets(categories: Iterable[Any]) -> None:
    """Give each category its number of pets when they were last counted; None if they never were."""
    counted = stock.snapshot()
    numbers = {row.category_id: row.total for row in counted.categories} if counted else {}
    for category in categories:
        category.number_of_pets = numbers.get(category.pk, 0) if counted else None


class CategoryList(KeysetChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        count_pets(self.result_list)


@admin.register(Category)
class CategoryAdmin(BigTableAdmin):
    list_display = ["visible_name", "id", "pets", "description"]
    search_fields = ["name"]
    search_help_text = "A part of a name"
    ordering = ["name"]
    sortable_by = ["visible_name", "id"]
    list_filter_submit = False
    readonly_fields = ["pets"]
    instead_of_deleting = "Move its pets to another category first, or give it another name."
    offers = (Offer("add", "Add a category"),)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return CategoryList

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["name", "description"] if obj is None else ["name", "description", "pets"]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        category = super().get_object(request, object_id, from_field)
        count_pets([category] if category is not None else [])
        return category

    @admin.display(description="pets")
    def pets(self, category: Any) -> str:
        number: int | None = category.number_of_pets
        return format_html(
            '<a class="text-primary-600 dark:text-primary-500" href="{}?category__id__exact={}">{}</a>',
            reverse("admin:inventory_pet_changelist"),
            category.pk,
            "being counted" if number is None else f"{number:,}",
        )
