"""Names and headings, as pages of the back office show them."""

from django import template
from django.db.models import Model
from django.utils.text import capfirst

from petstore.db.names import visible_name

register = template.Library()
register.filter(visible_name)


@register.filter
def heading(part: object) -> str:
    """Capitalise a heading, unless it is a name, such as a public id, which tells upper case from lower."""
    text = str(part)
    is_name = isinstance(part, Model) and text != f"{part._meta.verbose_name} {part.pk}"
    return text if is_name else capfirst(text)
