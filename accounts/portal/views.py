"""The page that accepts an invitation (D47). Mail scanners open links, so only a POST spends it."""

from typing import Any

from django.conf import settings
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from accounts.models import Actor, Invitation


class NewUserForm(UserCreationForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Sets no address: the link may have been copied, so it proves none."""

    class Meta(UserCreationForm.Meta):
        help_texts = {"username": "For signing in. Letters, digits and . + - _ only."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, label_suffix="")
        self.fields["password1"].help_text = "At least 8 characters. Common passwords are rejected."
        self.fields["password2"].label, self.fields["password2"].help_text = "Confirm the password", ""

    def clean_username(self) -> str:
        username = str(super().clean_username())
        if "@" in username:  # People will sign in with a username or an address.
            raise ValidationError("A username must not contain an @.")
        return username


def join(request: HttpRequest, token: str) -> HttpResponse:
    """Let a signed-in user accept, or a new one choose a username and password."""
    invitation = Invitation.objects.find(token)
    if invitation is None:
        return render(request, "account/join.html", status=410)
    user: User | None = request.user if request.user.is_authenticated else None
    form, is_post = None, request.method == "POST"
    if user is None:
        form = NewUserForm(request.POST if is_post else None)
        if is_post and form.is_valid():
            user = form.save(commit=False)  # Hash the password before locking the account.
    sign_in_url = redirect_to_login(request.path, settings.LOGIN_URL).url
    context = {"invitation": invitation, "form": form, "user": user, "sign_in_url": sign_in_url}
    if user is None or not is_post:
        return render(request, "account/join.html", context)
    try:
        with transaction.atomic():
            if form is not None:
                user.save()
            invitation.accept(user, by=Actor.from_request(request, user))
    except ValidationError as error:
        return render(request, "account/join.html", context | {"errors": error.messages})
    return render(request, "account/joined.html", context)
