"""The kinds of animals."""

from django.db import models
from django.db.models import Q

NAME_LENGTH = 255


class Category(models.Model):
    """A kind of animal."""

    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    description = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "categories"
        ordering = ["id"]
        constraints = [models.CheckConstraint(name="category_has_a_name", condition=~Q(name=""))]

    def __str__(self) -> str:
        return self.name
