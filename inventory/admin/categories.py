"""Categories in the back office."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from inventory import stock
from inventory.admin.changelist import BigTableAdmin, KeysetChangeList
from inventory.models import Category

BEING_COUNTED = "being counted"


class CategoryList(KeysetChangeList):
    """Gives each category its number of pets, from the last count of the stock."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page, and the count once for all of it."""
        super().get_results(request)
        numbers = pets_by_category()
        for category in self.result_list:
            category.number_of_pets = numbers if numbers is None else numbers.get(category.pk, 0)


def pets_by_category() -> dict[int, int] | None:
    """Return how many pets each category had when they were last counted; None if they never were."""
    counted = stock.snapshot()
    if counted is None:
        return None
    return {
        category.category_id: category.available + category.pending + category.sold
        for category in counted.categories
    }


@admin.register(Category)
class CategoryAdmin(BigTableAdmin):
    """The kinds of animals."""

    list_display = ["name", "id", "pets", "description"]
    search_fields = ["name"]
    search_help_text = "A part of a name"
    ordering = ["name"]
    sortable_by = ["name", "id"]
    list_filter_submit = False
    fields = ["name", "description", "pets"]
    readonly_fields = ["pets"]
    actions = None

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the list with the numbers of pets."""
        return CategoryList

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; a new category has no pets."""
        return ["name", "description"] if obj is None else ["name", "description", "pets"]

    @admin.display(description="pets")
    def pets(self, category: Category) -> str:
        """Return how many pets there are, as a link to them."""
        if hasattr(category, "number_of_pets"):
            number = category.number_of_pets
        else:
            numbers = pets_by_category()
            number = None if numbers is None else numbers.get(category.pk, 0)
        url = reverse("admin:inventory_pet_changelist")
        text = BEING_COUNTED if number is None else f"{number:,}"
        return format_html(
            '<a class="text-primary-600 dark:text-primary-500" href="{}?category__id__exact={}">{}</a>',
            url,
            category.pk,
            text,
        )
