"""Admin of the incidents on the status page."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import StackedInline

from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.palette import PaletteCommand
from petstore.health.models import Incident, IncidentUpdate, Stage


class UpdateInline(StackedInline):
    """The updates, of which an incident has at least one. They need the permissions for the incident."""

    model = IncidentUpdate
    formfield_overrides = PetstoreModelAdmin.formfield_overrides  # type: ignore[misc,assignment]
    fields = ["stage", "posted_at", "text"]
    ordering = ["posted_at", "pk"]
    min_num, max_num = 1, 50

    def get_extra(self, request: HttpRequest, obj: Incident | None = None, **kwargs: Any) -> int:
        return 1 if obj else 0

    def get_formset(self, request: HttpRequest, obj: Incident | None = None, **kwargs: Any) -> Any:
        """Start further updates at the incident's stage."""
        kwargs |= {"validate_min": True, "absolute_max": self.max_num}
        formset = super().get_formset(request, obj, **kwargs)
        if obj and obj.stage:
            formset.form.base_fields["stage"].initial = obj.stage
        return formset

    def has_view_permission(self, request: HttpRequest, obj: Incident | None = None) -> bool:
        return request.user.has_perm("health.view_incident")

    def has_change_permission(self, request: HttpRequest, obj: Incident | None = None) -> bool:
        return request.user.has_perm("health.change_incident")

    has_add_permission = has_delete_permission = has_change_permission


@admin.register(Incident)
class IncidentAdmin(PetstoreModelAdmin):
    list_display = ["title", "impact", "stage", "latest_update"]
    inlines = [UpdateInline]
    palette_commands = (PaletteCommand("campaign", "Add an incident"),)

    def get_queryset(self, request: HttpRequest) -> Any:
        incidents: Any = super().get_queryset(request)
        return incidents.with_stage(timezone.now())

    def stage(self, incident: Incident) -> str:
        return Stage(incident.stage).label if incident.stage else ""
