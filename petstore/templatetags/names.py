"""Template filters for names and headings of the back office."""

from django import template
from django.db.models import Model
from django.utils.text import capfirst

from petstore.db.names import visible_name

register = template.Library()
register.filter(visible_name)

LIST_TITLES = {"audit trail entries": "Audit trail"}  # Lists that are not named after their rows.


@register.filter
def heading(part: object) -> str:
    """Capitalize a heading unless it is a name or a case-sensitive ID."""
    text = str(part)
    is_name = isinstance(part, Model) and text != f"{part._meta.verbose_name} {part.pk}"
    return text if is_name else LIST_TITLES.get(text, capfirst(text))
