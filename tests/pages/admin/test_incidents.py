"""Incidents of the status page in the back office."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from petstore.audit.models import AuditEntry
from petstore.health.models import Impact, Incident, Stage

pytestmark = pytest.mark.same_on_both
ADD = "/admin/health/incident/add/"
START = datetime(2026, 11, 25, 10, tzinfo=UTC)


def fill_in(*updates: dict[str, Any], initial: int = 0, **fields: Any) -> dict[str, Any]:
    """Fill in the form of an incident, of whose updates the first `initial` are stored."""
    sent = {"title": "Slow responses", "impact": "minor", **fields}
    sent |= {"updates-TOTAL_FORMS": len(updates), "updates-INITIAL_FORMS": initial}
    for number, update in enumerate(updates):
        values = {"stage": "investigating", "posted_at_0": "2026-11-25", "posted_at_1": "10:00:00"}
        values |= {"text": "Requests took up to 4 seconds.", **update}
        sent |= {f"updates-{number}-{name}": value for name, value in values.items()}
    return sent


@pytest.fixture
def incident(db: None) -> Incident:
    incident = Incident.objects.create(title="Slow responses", impact=Impact.MINOR)
    incident.updates.create(posted_at=START, text="Requests took up to 4 seconds.")
    return incident


def get_url(incident: Incident) -> str:
    return f"/admin/health/incident/{incident.pk}/change/"


def get_version(staff: Client, incident: Incident) -> str:
    version: str = staff.get(get_url(incident)).context["adminform"].form.version
    return version


def test_incident_is_added_resolved_and_audited(staff: Client) -> None:
    assert staff.post(ADD, fill_in({})).status_code == 302
    incident = Incident.objects.get()
    first = incident.updates.get()
    assert first.posted_at == START
    page = staff.get(get_url(incident)).text
    assert page.count('name="updates-1-text"') == 1  # Further updates need no JavaScript.
    resolved = {"stage": "resolved", "posted_at_1": "10:30:00", "text": "A fix is live."}
    sent = fill_in({"id": first.pk}, resolved, initial=1, impact="major")
    response = staff.post(get_url(incident), sent | {"_version": get_version(staff, incident)})
    assert response.status_code == 302
    second = incident.updates.get(stage=Stage.RESOLVED)
    added, changed = AuditEntry.objects.filter(model="health.incident").order_by("pk")
    text = "Investigating, 2026-11-25 10:00 UTC: Requests took up to 4 seconds."
    assert (added.action, added.after["title"]) == ("added", "Slow responses")
    assert added.after[f"update {first.pk}"] == text
    assert changed.before == {"impact": "minor"}
    assert changed.after == {
        "impact": "major",
        f"update {second.pk}": "Resolved, 2026-11-25 10:30 UTC: A fix is live.",
    }
    staff.post(f"/admin/health/incident/{incident.pk}/delete/", {"post": "yes"})
    assert AuditEntry.objects.latest("pk").before[f"update {first.pk}"] == text
    assert not Incident.objects.exists()


def test_untouched_further_update_is_not_saved(staff: Client, incident: Incident) -> None:
    form = staff.get(get_url(incident)).context["inline_admin_formsets"][0].formset.forms[1]
    date, time = f"{form['posted_at'].value():%Y-%m-%d %H:%M:%S}".split()
    sent = fill_in(
        {"id": incident.updates.get().pk}, {"posted_at_0": date, "posted_at_1": time, "text": ""}, initial=1
    )
    sent |= {"initial-updates-1-posted_at_0": date, "initial-updates-1-posted_at_1": time}
    assert staff.post(get_url(incident), sent).status_code == 302
    assert incident.updates.count() == 1


TAMPERED = [
    *({"updates-TOTAL_FORMS": number} for number in ("", "x", "-1", "9" * 30)),
    *({"updates-INITIAL_FORMS": number} for number in ("", "5", "-1")),
    *({"updates-0-id": number} for number in ("", "x", "9" * 30)),
    *({"updates-0-posted_at_0": date} for date in ("0001-01-01", "9999-12-31")),
    {"updates-0-incident": "9" * 30}, {"impact": "x"}, {"_version": "x"},
]  # fmt: skip


def test_tampered_form_is_no_server_error(staff: Client, incident: Incident) -> None:
    sent = fill_in({"id": incident.updates.get().pk}, initial=1)
    for fields in TAMPERED:
        for path in (get_url(incident), ADD):
            assert staff.post(path, sent | fields).status_code in {200, 302}, fields
        assert incident.updates.exists()
    for path in (get_url(incident), "/admin/health/incident/", "/status", "/status.rss"):
        assert staff.get(path).status_code == 200


def test_edit_of_an_update_that_has_changed_is_rejected(staff: Client, incident: Incident) -> None:
    version = get_version(staff, incident)
    incident.updates.update(text="Their text.")
    sent = fill_in({"id": incident.updates.get().pk, "text": "My text."}, initial=1, _version=version)
    assert "changed this while you had it open." in staff.post(get_url(incident), sent).text
    assert incident.updates.get().text == "Their text."


def test_update_of_another_incident_stays(staff: Client, incident: Incident) -> None:
    other = Incident.objects.create(title="Other").updates.create(text="Other.")
    first = {"id": incident.updates.get().pk}
    staff.post(get_url(incident), fill_in(first, {"id": other.pk, "text": "Changed."}, initial=2))
    other.refresh_from_db()
    assert other.text == "Other."
