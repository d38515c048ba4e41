"""Admin of categories."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from inventory import stock
from inventory.models import Category
from petstore.backoffice.changelist import LargeTableMixin
from petstore.backoffice.palette import PaletteCommand


def set_pet_counts(categories: Iterable[Any]) -> None:
    """Set `pet_count` to the number in the latest stock count, or to None without a count."""
    counted = stock.get_stock()
    counts = {row.category_id: row.total for row in counted.categories} if counted else {}
    for category in categories:
        category.pet_count = counts.get(category.pk, 0) if counted else None


@admin.register(Category)
class CategoryAdmin(LargeTableMixin):
    list_display = ["visible_name", "id", "pets", "description"]
    search_fields = ["name"]
    search_help_text = "Part of a category name"
    ordering = ["name"]
    sortable_by = ["visible_name", "id"]
    list_filter_submit = False
    readonly_fields = ["pets"]
    deletion_hint = "Move its pets to another category first, or rename it."
    palette_commands = (PaletteCommand("add", "Add a category"),)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        set_pet_counts(changelist.result_list)
        return changelist

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["name", "description"] if obj is None else ["name", "description", "pets"]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        category = super().get_object(request, object_id, from_field)
        set_pet_counts([category] if category is not None else [])
        return category

    @admin.display(description="pets")
    def pets(self, category: Any) -> str:
        pet_count: int | None = category.pet_count
        return format_html(
            '<a class="text-primary-600 dark:text-primary-500" href="{}?category__id__exact={}">{}</a>',
            reverse("admin:inventory_pet_changelist"),
            category.pk,
            "not counted yet" if pet_count is None else f"{pet_count:,}",
        )
