"""Forms of the pages for customers."""

from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from accounts.models import Role
from petstore.api.client_ip import get_client_network
from petstore.db.names import check_scripts
from petstore.sign_in.rate_limits import check_limits

NEW_USER_RATES = ("10/m", "100/d")  # Attempts per client network.


class NewUserForm(UserCreationForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Sets no email address, since an invitation link may have been copied and proves none."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, label_suffix="")
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
    email = forms.EmailField(label="Email address")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.DEVELOPER)
