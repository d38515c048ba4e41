"""`{{ key.name|visible_name }}`: a name as pages show it."""

from django import template

from petstore.db.names import visible_name

register = template.Library()
register.filter(visible_name)
