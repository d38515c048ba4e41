"""The pages that accept an invitation, and that create an account (D47)."""

from collections.abc import Callable
from typing import Any

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.generic import FormView

from accounts.models import Actor, Invitation, open_account
from accounts.portal.forms import NewUserForm, SignUpForm
from petstore.db.names import lock_names


class NewUserView(FormView):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Creates a user with a membership, and signs in."""

    add_membership: Callable[[User, dict[str, Any]], str]  # Returns the URL of the next page.

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"request": self.request}

    def form_valid(self, form: NewUserForm) -> HttpResponse:
        user = form.save(commit=False)  # Hash the password before locking the account.
        try:
            with transaction.atomic():
                lock_names("auth_user")  # Another person may have chosen this name in the meantime.
                if User.objects.filter(username__iexact=user.username).exists():
                    raise ValidationError({"username": user.unique_error_message(User, ["username"])})
                user.save()
                url = self.add_membership(user, form.cleaned_data)
        except ValidationError as error:
            form.add_error(None, error)
            return self.form_invalid(form)
        login = Login(user=user, redirect_url=url, signup=True)
        return perform_password_login(self.request, {"username": user.username}, login)


class JoinView(NewUserView):
    """Accepts an invitation. Mail scanners send GET, so only a POST spends the link."""

    template_name = "account/join.html"
    form_class = NewUserForm
    invitation: Invitation

    def dispatch(self, request: HttpRequest, *args: Any, token: str) -> HttpResponseBase:
        invitation = Invitation.objects.find(token)
        if invitation is None:
            return render(request, self.template_name, status=410)
        self.invitation = invitation
        sign_in_url = redirect_to_login(request.path, settings.LOGIN_URL).url
        self.extra_context = {"invitation": invitation, "sign_in_url": sign_in_url}
        return super().dispatch(request, *args)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not isinstance(request.user, User):
            return super().post(request, *args, **kwargs)
        try:
            return redirect(self.add_membership(request.user, {}))
        except ValidationError as error:
            return self.render_to_response(self.get_context_data(errors=error.messages))

    def add_membership(self, user: User, data: dict[str, Any]) -> str:
        member = self.invitation.accept(user, by=Actor.from_request(self.request, user))
        messages.success(self.request, f"You have joined {member.account} as {member.get_role_display()}.")
        return reverse("portal:overview", args=[member.account.public_id])


class SignUpView(NewUserView):
    """Creates an account on the plan Free, if SIGN_UP is open."""

    template_name = "account/sign_up.html"
    form_class = SignUpForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if settings.SIGN_UP != "open":
            return render(request, self.template_name, status=403)
        if request.user.is_authenticated:
            return redirect("portal:home")
        return super().dispatch(request, *args, **kwargs)

    def add_membership(self, user: User, data: dict[str, Any]) -> str:
        try:
            account = open_account(data["account_name"], user, by=Actor.from_request(self.request, user))
        except ValidationError as error:
            raise ValidationError({"account_name": error.messages}) from None
        return reverse("portal:keys", args=[account.public_id])
