"""The panel of webhooks on the page of an account, and the pages behind its links.

Staff see the host only, since a URL may contain a secret, and nothing of what receivers respond (D52).
"""

from collections.abc import Iterator
from typing import Any

from django.db.models import DO_NOTHING, ForeignKey
from django.http import HttpRequest
from django.utils import timezone

from accounts.admin.account_panels import Panel, panel_factories
from accounts.models import Account, Actor, Event, WebhookEndpoint
from accounts.webhooks.backlog import get_oldest_time
from petstore.audit.forms import ReasonForm
from petstore.backoffice.history import EntryFormatter, HistoryEntry, extra_fields

ICONS = {"disabled": "pause_circle", "enabled": "play_circle"}
LABELS = {"disabled": "danger", "failing": "warning", "suspended": "warning"}
MAX_ENTRIES = 5  # Of each webhook.


class DisableForm(ReasonForm):
    verb, relation = "disable_webhook", "webhooks"
    title = "Disable this webhook?"
    button = "Disable the webhook"
    warning = (
        "No event is sent, and members can't enable it. Its events wait. Members don't see the reason."
    )
    danger = True
    success = "Webhook {} has been disabled."

    def save(self, by: Actor) -> None:
        self.row.disable(**self.cleaned_data, by=by, by_staff=True)


class EnableForm(ReasonForm):
    verb, relation = "enable_webhook", "webhooks"
    title = "Enable this webhook?"
    button = "Enable the webhook"
    warning = "Delivery continues with the first event that waits."
    success = "Webhook {} has been enabled."

    def save(self, by: Actor) -> None:
        self.row.enable(**self.cleaned_data, by=by, by_staff=True)


FORMS = (DisableForm, EnableForm)


def build_webhooks_panel(account: Account, request: HttpRequest) -> Panel | None:
    endpoints = list(account.webhooks.select_related("account"))
    rows = [build_row(endpoint) for endpoint in endpoints]
    entries = list(list_entries(endpoints, request))
    return Panel("admin/accounts/account/webhooks.html", rows, entries) if rows else None


def build_row(endpoint: WebhookEndpoint) -> dict[str, Any]:
    state, text = endpoint.describe_state(timezone.now())
    attempt = endpoint.attempt_log.first()
    return {
        "endpoint": endpoint,
        "badge": {"type": LABELS.get(state, "success"), "text": text},
        "oldest": get_oldest_time(endpoint),
        "attempt": attempt,
        "outcome": attempt and attempt.describe_outcome()[1],
        "by_staff": endpoint.disabled_by == endpoint.DisabledBy.STAFF,
    }


def list_entries(endpoints: list[WebhookEndpoint], request: HttpRequest) -> Iterator[HistoryEntry]:
    entries = [entry for endpoint in endpoints for entry in endpoint.audit_entries[:MAX_ENTRIES]]
    formatter = EntryFormatter(entries, request)
    for entry in entries:
        title = f"Webhook {entry.object_text}: {entry.get_action_display().lower()}"
        changes = formatter.list_changes(entry) if entry.action == "changed" else []
        yield formatter.build(entry, title=title, changes=changes, icon=ICONS.get(entry.action, "webhook"))


panel_factories.append(build_webhooks_panel)
extra_fields["accounts.webhookendpoint", "event"] = ForeignKey(Event, DO_NOTHING)
