"""The table that keeps the last count of the stock: stock.py counts and reads it."""

from django.db import models
from django.db.models import Q


class StockCount(models.Model):
    """How many pets and waiting orders there were: one row, for everybody."""

    due_at = models.DateTimeField(help_text="When the next count may begin. Who counts moves it first.")
    counted_at = models.DateTimeField(null=True)
    took_ms = models.PositiveIntegerField(default=0)
    pets = models.JSONField(default=list, help_text="[category id, status, number of pets] of each.")
    orders_placed = models.BigIntegerField(default=0)
    orders_approved = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(name="stock_count_is_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return f"stock at {self.counted_at}"
