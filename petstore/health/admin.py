"""Admin of the incidents on the status page."""

from django.contrib import admin

from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.palette import PaletteCommand
from petstore.health.models import Incident


@admin.register(Incident)
class IncidentAdmin(PetstoreModelAdmin):
    list_display = ["title", "starts_at", "ends_at"]
    palette_commands = (PaletteCommand("campaign", "Add an incident"),)
