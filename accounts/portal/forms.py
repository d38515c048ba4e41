"""Forms of the pages for customers."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpRequest, QueryDict
from django.utils import timezone

from accounts.explanations import get_error_code
from accounts.models import Account, ApiKey, Rejection, Role
from petstore.api.client_ip import get_client_network
from petstore.db.names import check_scripts, visible_name
from petstore.mail.email_queue import check_address
from petstore.sign_in.rate_limits import check_limits

NEW_USER_RATES = ("10/m", "100/d")  # Attempts per client network.


class NewUserForm(UserCreationForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Sets no email address, since an invitation link may have been copied and proves none."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request
        self.fields["username"].help_text = "Letters, digits and . + - _"
        self.fields["password1"].help_text = "At least 8 characters, not only digits. No common password."
        self.fields["password2"].label, self.fields["password2"].help_text = "Confirm the password", ""

    def clean_username(self) -> str:
        # Count the attempt first, because the next check reveals which names exist.
        network = get_client_network(self.request)
        check_limits(self.request, [(f"new user {rate}", network, rate) for rate in NEW_USER_RATES])
        username = str(super().clean_username())
        check_scripts(username)
        if "@" in username:  # People sign in with a username or an address.
            raise ValidationError("A username must not contain an @.")
        return username


class SignUpForm(NewUserForm):
    account_name = forms.CharField(
        max_length=100, help_text="For example, your company or project.", validators=[check_scripts]
    )


class InviteForm(forms.Form):
    email = forms.EmailField(label="Email address", validators=[check_address])
    role = forms.ChoiceField(choices=Role.choices, initial=Role.DEVELOPER)


class RejectionFilterForm(forms.Form):
    key = forms.ChoiceField(required=False)
    reason = forms.ChoiceField(
        required=False,
        choices=[("", "All reasons")]
        + [(reason, f"{get_error_code(reason).status} {reason.label}") for reason in Rejection.Reason],
    )
    day = forms.DateField(label="Day (UTC)", required=False, widget=forms.DateInput({"type": "date"}))

    def __init__(self, data: QueryDict, *, account: Account, **kwargs: Any) -> None:
        """Offer the active keys and the chosen one."""
        super().__init__(data, **kwargs)
        keys = ApiKey.objects.active_since(account, timezone.now())
        chosen = account.keys.filter(public_id=data.get("key", ""))
        names = {key.public_id: f"{visible_name(key.name)} {key}".strip() for key in (*keys, *chosen)}
        self.fields["key"].choices = [("", "All keys"), *names.items()]  # type: ignore[attr-defined]

    def get_condition(self) -> Q:
        """Match the key and the day. An invalid filter matches nothing."""
        if not self.is_valid():
            return Q(pk__in=())
        key, day = self.cleaned_data["key"], self.cleaned_data["day"]
        condition = Q(key__public_id=key) if key else Q()
        if day:  # As a range, which the index of times finds.
            start = datetime.combine(day, time(), UTC)
            condition &= Q(rejected_at__range=(start, start + timedelta(days=1, microseconds=-1)))
        return condition

    @property
    def reason_q(self) -> Q:
        reason = self.cleaned_data.get("reason")
        return Q(reason=reason) if reason else Q()
