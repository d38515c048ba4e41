"""Incidents of the status page in the back office."""

from typing import Any

from django.test import Client

from petstore.audit.models import AuditEntry
from petstore.health.models import Incident

ADD = "/admin/health/incident/add/"


def fill_in(**fields: Any) -> dict[str, Any]:
    times = {"starts_at_0": "2026-11-25", "starts_at_1": "10:00:00", "ends_at_0": "", "ends_at_1": ""}
    return {"title": "Slow responses", "text": "Requests took up to 4 seconds.", **times, **fields}


def test_incident_is_added_ended_and_audited(staff: Client) -> None:
    assert staff.post(ADD, fill_in()).status_code == 302
    incident = Incident.objects.get()
    assert f"{incident.starts_at:%Y-%m-%d %H:%M %Z}" == "2026-11-25 10:00 UTC"
    page = f"/admin/health/incident/{incident.pk}/change/"
    version = staff.get(page).context["adminform"].form.version
    sent = fill_in(ends_at_0="2026-11-25", ends_at_1="10:30:00", version=version)
    assert staff.post(page, sent).status_code == 302
    added, ended = AuditEntry.objects.filter(model="health.incident").order_by("pk")
    assert (added.action, added.after["title"]) == ("added", "Slow responses")
    assert ended.after == {"ends_at": "2026-11-25T10:30:00+00:00"}


def test_incident_ending_before_its_start_is_rejected(staff: Client) -> None:
    response = staff.post(ADD, fill_in(ends_at_0="2026-11-25", ends_at_1="09:00:00"))
    assert "An incident can&#x27;t end before it starts." in response.text
    assert not Incident.objects.exists()
