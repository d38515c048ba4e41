"""The forms with which members add and change webhooks."""

from datetime import timedelta
from typing import Any

from django import forms

from accounts.models import Actor, WebhookEndpoint
from accounts.models.events import TYPES
from accounts.models.webhooks import DEFAULT_TYPES
from accounts.webhooks.backlog import replay_since
from accounts.webhooks.targets import check_url
from petstore.audit.forms import ActionForm
from petstore.db.names import check_scripts

GROUPS = {
    "order": "Orders", "key": "Keys", "quota": "Quota", "plan": "Plan", "webhook": "Webhooks",
    "member": "Members", "pet": "Pets, of all accounts",
}  # fmt: skip


def build_type_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """Group each prefix with its types. Without a group, a prefix is one of another's types."""
    return [
        (
            title,
            [
                (prefix, f"{prefix}: all of these, and types that are added later"),
                *((kind.value, f"{kind.value}: {kind.label}") for kind in TYPES[prefix]),
            ],
        )
        for prefix, title in GROUPS.items()
    ]


class EndpointForm(ActionForm):
    url = forms.CharField(
        label="URL", max_length=2000, help_text="Starts with https://", widget=forms.URLInput
    )
    description = forms.CharField(required=False, max_length=255, validators=[check_scripts])
    types = forms.MultipleChoiceField(
        label="Events",
        choices=build_type_choices(),
        initial=DEFAULT_TYPES,
        widget=forms.CheckboxSelectMultiple,
    )

    def clean(self) -> dict[str, Any]:
        """Look up the address of a new URL. This takes time, so the account must not be locked."""
        data = super().clean() or self.cleaned_data
        if "url" in data:
            is_new = data["url"] != getattr(self.row, "url", "")
            data["url"] = check_url(data["url"]) if is_new else None
        return data


class AddForm(EndpointForm):
    """`row` is the account."""

    title = button = "Add a webhook"
    success = "The webhook is added. It gets the events from now on."
    send_test = forms.BooleanField(label="Send a test event at once", required=False, initial=True)

    def save(self, by: Actor) -> None:
        send_test = self.cleaned_data.pop("send_test")
        self.row = WebhookEndpoint.objects.add(self.row, **self.cleaned_data, by=by)
        if send_test:
            self.row.send_test(by=by)


class ChangeForm(EndpointForm):
    verb = "change"
    title = "Change this webhook"
    button = "Save"
    success = "The webhook is changed."

    def __init__(self, *args: Any, row: WebhookEndpoint, **kwargs: Any) -> None:
        initial = {"url": row.url, "description": row.description, "types": row.type_names}
        super().__init__(*args, row=row, initial=initial, **kwargs)


class RevealSecretForm(ActionForm):
    verb = "reveal_secret"
    title = button = "Show the secret"
    warning = "The history records who has seen it."


class RotateSecretForm(ActionForm):
    verb = "rotate_secret"
    title = button = "Rotate the secret"
    warning = "A new secret signs from the next attempt on."
    success = "The secret is rotated. Show the new one, and give it to your receiver."
    overlap = forms.TypedChoiceField(
        label="The old secret",
        coerce=int,
        choices=[("24", "Signs as well for 24 hours"), ("0", "Ends at once, since it has leaked")],
        initial="24",
        widget=forms.RadioSelect,
    )

    def save(self, by: Actor) -> None:
        self.row.rotate_secret(by=by, overlap=timedelta(hours=self.cleaned_data["overlap"]))


class SendTestForm(ActionForm):
    verb = "send_test"
    title = button = "Send a test"
    warning = "Sends an event webhook.ping within seconds. It does not count for the webhook's health."
    success = "The test will be sent within seconds. Reload this page to see its outcome."


class ReplayForm(ActionForm):
    verb = "replay"
    title = button = "Replay events"
    warning = (
        "Delivers all events since this time again, in order and with the same IDs, before newer events."
    )
    success = "The events are delivered again."
    since = forms.DateTimeField(
        label="Since (UTC)", widget=forms.DateTimeInput(attrs={"type": "datetime-local"})
    )

    def save(self, by: Actor) -> None:
        replay_since(self.row, self.cleaned_data["since"], by=by)


class DisableForm(ActionForm):
    verb = "disable"
    title = button = "Disable the webhook"
    warning = "No event is sent until you enable it. It then continues with the first event that waits."
    success = "The webhook is disabled. Its events wait."


class EnableForm(ActionForm):
    verb = "enable"
    title = button = "Enable the webhook"
    warning = "Delivers the events that wait, oldest first."
    success = "The webhook is enabled."


class RemoveForm(ActionForm):
    verb = "remove"
    title = button = "Remove the webhook"
    warning = "Its events are not sent, and its attempts are deleted. This can't be undone."
    danger = True
    success = "The webhook is removed."


CHANGES: dict[str, type[ActionForm]] = {
    form.verb.replace("_", "-"): form
    for form in (
        ChangeForm, SendTestForm, RevealSecretForm, RotateSecretForm, ReplayForm, DisableForm, EnableForm,
        RemoveForm,
    )
}  # fmt: skip
