"""Staff see the webhooks of an account, and can disable them (D51, D52)."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import Account, WebhookEndpoint
from tests.conftest import OPERATOR
from tests.support.staff import member_of, signed_in

URL = "https://93.184.216.34/hook?token=Zx81secret"


@pytest.fixture
def endpoint(account: Account) -> WebhookEndpoint:
    return WebhookEndpoint.objects.add(account, url=URL, description="Warehouse", by=OPERATOR)


def page(account: Account, name: str = "", endpoint: WebhookEndpoint | None = None) -> str:
    return f"/admin/accounts/account/{account.pk}/" + (f"{name}/{endpoint.pk}/" if endpoint else "change/")


def disable(client: Client, endpoint: WebhookEndpoint, reason: str = "Floods their host") -> Any:
    return client.post(page(endpoint.account, "disable-webhook", endpoint), {"reason": reason})


def test_staff_see_state_and_host_but_neither_the_url_nor_what_receivers_respond(
    staff: Client, account: Account, endpoint: WebhookEndpoint
) -> None:
    values: Any = {"event_type": "order.placed", "status": 503, "error": "status"}
    endpoint.attempt_log.create(event_id=1, response="Private text", milliseconds=12, **values)
    text = staff.get(page(account)).text
    for part in (endpoint.public_id, "93.184.216.34", "Up to date", "503, 12 ms"):
        assert part in text
    for part in ("Zx81secret", "Private text", "Warehouse"):
        assert part not in text
    viewed = signed_in(member_of("Viewer")).get(page(account)).text
    assert (endpoint.public_id in viewed, "disable-webhook" in viewed) == (True, False)


def test_staff_disable_with_a_reason_and_only_they_enable(staff: Client, endpoint: WebhookEndpoint) -> None:
    assert "This field is required." in disable(staff, endpoint, reason="").text
    assert disable(staff, endpoint).status_code == 302
    endpoint.refresh_from_db()
    assert endpoint.disabled_by == "staff"
    entry = endpoint.audit_entries.first()
    assert entry is not None
    assert (entry.action, entry.actor_name, entry.reason) == ("disabled", "boss", "Floods their host")
    assert "Floods their host" in staff.get(page(endpoint.account)).text
    assert "already disabled" in disable(staff, endpoint).text
    enable = page(endpoint.account, "enable-webhook", endpoint)
    assert staff.post(enable, {"reason": "Mended"}).status_code == 302
    endpoint.refresh_from_db()
    assert endpoint.disabled_by == ""
