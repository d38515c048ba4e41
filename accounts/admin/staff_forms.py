"""Forms of staff and their roles. staff.py has the pages."""

from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm
from unfold.forms import UserChangeForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from accounts.actions import Action
from petstore.audit import Actor, record_changes
from petstore.audit.forms import ReasonForm
from petstore.backoffice.forms import EditForm
from petstore.db.names import check_scripts
from petstore.sign_in.second_factors import reset_two_factor

ROLE_DESCRIPTIONS = {
    "Viewer": "read-only access to everything except staff and the audit trail",
    "Support": "a Viewer who also manages keys, accounts and incidents",
    "Stock": "manages pets, categories and orders; no access to accounts",
    "Owner": "full access, including plans, staff and the audit trail",
}
LABELS = {"is_active": "May sign in", "is_superuser": "Superuser"}
HELP_TEXTS = {
    "username": "For signing in. Letters, digits and @ . + - _ only.",
    "is_active": "Turn this off when they leave. Their entries in the audit trail remain.",
    "is_superuser": "Has all permissions, regardless of the role. The Owner role is enough for daily work.",
    "user_permissions": "Permissions in addition to the role.",
}


class RoleField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # Generic in its stubs only.
    widget = UnfoldAdminCheckboxSelectMultipleWidget

    def label_from_instance(self, group: Any) -> str:
        description = ROLE_DESCRIPTIONS.get(group.name)
        return f"{group.name}: {description}" if description else group.name


class StaffForm(EditForm, UserChangeForm):
    class Meta(UserChangeForm.Meta):
        labels, help_texts = LABELS, HELP_TEXTS


class NewStaffForm(UserCreationForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Has no password fields, since new staff choose their password with a link."""

    password1 = password2 = None  # type: ignore[assignment]  # Removes the inherited fields.

    class Meta(UserCreationForm.Meta):
        labels, help_texts = LABELS, HELP_TEXTS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["groups"].required = True

    def clean_username(self) -> str:
        username = str(super().clean_username())
        check_scripts(username)
        return username

    def save(self, commit: bool = True) -> Any:
        self.instance.set_unusable_password()
        return forms.ModelForm.save(self, commit)


class MakeStaffForm(ReasonForm):
    title = "Make a person staff"
    button = "Make staff"
    warning = (
        "For a person who can already sign in, such as a customer. They are signed out, lose their "
        "authenticator app and passkeys, and choose a new password with a link that you pass on to them. "
        "They remain a member of their accounts."
    )
    username = forms.CharField(max_length=150, help_text="The person's username.")

    def __init__(self, *args: Any, role: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["groups"] = role
        role.required = True
        self.order_fields(["username", "groups", "reason"])


class ResetTwoFactorForm(ReasonForm):
    verb = "reset_two_factor"
    title = "Reset two-factor sign-in?"
    button = "Reset two-factor sign-in"
    warning = (
        "Their authenticator app, passkeys and recovery codes stop working. Make sure that the request "
        "really comes from them: until they set up a new app, their password alone is enough to sign in."
    )
    danger = True
    success = "{} can now sign in with just the password, and set up a new app."

    def save(self, by: Actor) -> None:
        reset_two_factor(self.row, **self.cleaned_data, by=by)


class ResetPasswordForm(ReasonForm):
    verb = "reset_password"
    title = "Reset the password?"
    button = "Create a link"
    warning = (
        "Creates a link for choosing a new password. Make sure that the request really comes from them. "
        "Their old password works until they use the link."
    )

    def save(self, by: Actor) -> None:
        """Do nothing: the response records the link, and shows it."""


class RemoveFromStaffForm(ReasonForm):
    verb = "remove_from_staff"
    title = "Remove from staff?"
    button = "Remove from staff"
    warning = (
        "They lose their role, and can no longer open the back office. They remain a member of their "
        "accounts. Their entries in the audit trail remain."
    )
    danger = True
    success = "{} is no longer a member of staff."

    def save(self, by: Actor) -> None:
        user, reason = self.row, self.cleaned_data["reason"]
        with record_changes(by, user, Action.REMOVED_FROM_STAFF, reason=reason):
            user.is_staff = user.is_superuser = False
            user.save(update_fields=["is_staff", "is_superuser"])
            user.groups.clear()
            user.user_permissions.clear()
