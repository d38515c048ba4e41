"""Rows whose changes are put on record with themselves."""

from typing import Any

from django.db import models, transaction


class Published(models.Model):
    """A row of which the facts of keys are made: see Publication.

    A save is one transaction with what answers to its signals, also where the caller has opened none: that
    Redis has to be told is stored with the change, or neither is.
    """

    class Meta:
        abstract = True

    def save(self, *args: Any, **options: Any) -> None:
        """Save, and put on record that Redis has to be told."""
        with transaction.atomic(savepoint=False):
            super().save(*args, **options)
