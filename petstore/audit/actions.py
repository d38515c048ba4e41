"""The actions that the audit trail records. The app that performs an action registers it."""

from collections.abc import Callable
from typing import TypeVar

from django.db import models

Actions = TypeVar("Actions", bound=type[models.TextChoices])

labels: dict[str, str] = {}
# The list hides these by default, because they are frequent and change no data.
routine: set[str] = set()


def register(*routine_actions: str) -> Callable[[Actions], Actions]:
    """Register the actions of a class. `routine_actions` are the values of those that are routine."""

    def add(actions: Actions) -> Actions:
        labels.update((action.value, str(action.label)) for action in actions)
        routine.update(routine_actions)
        return actions

    return add


@register()
class Action(models.TextChoices):
    """Actions on rows of any app."""

    ADDED = "added", "Added"
    CHANGED = "changed", "Changed"
    DELETED = "deleted", "Deleted"
    EXPORTED = "exported", "Exported"
