"""What happened to pets and orders: by whom, when, and why."""

from django.db import models
from django.utils import timezone


class Event(models.Model):
    """Who changed what, when, and why. Only ever added to."""

    at = models.DateTimeField(default=timezone.now)
    from_status = models.CharField(max_length=9, blank=True)
    to_status = models.CharField(max_length=9)
    by = models.CharField(max_length=255)
    reason = models.CharField(max_length=255, blank=True)

    class Meta:
        abstract = True
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.from_status} -> {self.to_status}"


class OrderEvent(Event):
    """A step in the life of an order."""

    order = models.ForeignKey("inventory.Order", on_delete=models.CASCADE, related_name="events")


class PetEvent(Event):
    """A change of a pet's status; by an order, or by hand."""

    pet = models.ForeignKey("inventory.Pet", on_delete=models.CASCADE, related_name="events")
    order = models.ForeignKey(
        "inventory.Order", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
