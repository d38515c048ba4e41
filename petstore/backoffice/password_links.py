"""One-time links by which somebody chooses their own password: Django's tokens, handed over without e-mail.

A link ends once a password was chosen with it, when they sign in otherwise, and after
PASSWORD_RESET_TIMEOUT seconds.
"""

from typing import Any

from django.contrib import messages
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.views import INTERNAL_RESET_SESSION_TOKEN, PasswordResetConfirmView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse, reverse_lazy
from django.utils.http import urlsafe_base64_encode
from unfold.widgets import UnfoldAdminPasswordWidget

from petstore.api.links import page_url
from petstore.backoffice.audit import Action, Actor, record


def link_for(user: User) -> str:
    parts = [urlsafe_base64_encode(str(user.pk).encode()), default_token_generator.make_token(user)]
    return page_url(reverse("admin:new_password", args=parts).removeprefix("/"))


class NewPasswordForm(SetPasswordForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget = UnfoldAdminPasswordWidget(attrs=field.widget.attrs)


class NewPassword(PasswordResetConfirmView):
    """The page that a link opens. Whoever has chosen a password still signs in with it, as anybody does."""

    site: Any = None
    form_class = NewPasswordForm
    reset_url_token = "choose"  # noqa: S105  Instead of the token: from now on, the session has it.
    success_url = reverse_lazy("admin:login")

    def get_user(self, uidb64: str) -> User | None:
        user: User | None = super().get_user(uidb64)
        return user if user is not None and user.is_active and user.is_staff else None

    @transaction.atomic
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Set the password; who uses a link second, at the same moment, finds that it has ended."""
        assert self.user is not None
        self.user = User.objects.select_for_update().get(pk=self.user.pk)
        token = request.session.get(INTERNAL_RESET_SESSION_TOKEN)
        self.validlink = self.token_generator.check_token(self.user, token)
        if not self.validlink:
            return self.render_to_response(self.get_context_data())
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        by, old, new = Actor.of(self.request, self.user), {"password": "old"}, {"password": "new"}
        record(by, self.user, Action.CHANGED, before=old, after=new, reason="By a one-time link.")
        messages.success(self.request, "Your password is set. Sign in with it.")
        return response

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        title = "Choose your password" if self.validlink else "This link has ended"
        response: HttpResponse = self.site.page(
            self.request, "new_password", title, form=context["form"], name=self.user
        )
        response.status_code = 200 if self.validlink else 410
        return response
