"""One-time password links: Django's reset tokens, which staff hand over instead of an email.

A link expires after PASSWORD_RESET_TIMEOUT seconds, or when it is used or the user signs in. It also
becomes invalid when the permissions or accounts of the user change, or the permissions or password of its
issuer. Otherwise, an Owner's link for a Viewer could set the password of a superuser that the Viewer has
become.
"""

from typing import Any

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import Permission, User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.contrib.auth.views import INTERNAL_RESET_SESSION_TOKEN, PasswordResetConfirmView
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse, reverse_lazy
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from petstore.api.link_header import get_page_url
from petstore.audit import record_password_change


class PasswordLinkTokenGenerator(PasswordResetTokenGenerator):
    key_salt = "petstore.backoffice.password_links"

    def __init__(self, issuer: User | None) -> None:
        super().__init__()
        self.issuer = issuer

    def _make_hash_value(self, user: AbstractBaseUser, timestamp: int) -> str:
        assert isinstance(user, User)
        assert self.issuer is not None
        user_state = super()._make_hash_value(user, timestamp), get_permission_state(user)
        accounts = sorted(user.memberships.values_list("account", flat=True))
        issuer_state = self.issuer.pk, self.issuer.password, get_permission_state(self.issuer)
        return repr((*user_state, accounts, *issuer_state))


def get_permission_state(user: User) -> tuple[Any, ...]:
    """Read everything that determines the user's permissions from the database."""
    permissions = Permission.objects.filter(Q(user=user) | Q(group__user=user)).values_list("pk", flat=True)
    groups = list(user.groups.order_by("pk").values_list("pk", flat=True))
    return user.is_active, user.is_staff, user.is_superuser, groups, sorted(set(permissions))


def create_link(user: User, *, by: User) -> str:
    uid = urlsafe_base64_encode(f"{user.pk}.{by.pk}".encode())
    token = PasswordLinkTokenGenerator(by).make_token(user)
    return get_page_url(reverse("admin:new_password", args=[uid, token]))


class NewPasswordView(PasswordResetConfirmView):
    """The page of a link. Users still have to sign in with their new password."""

    site: Any = None
    reset_url_token = "choose"  # noqa: S105  Replaces the token in the URL. The session stores the token.
    success_url = reverse_lazy("account_login")

    def get_user(self, uidb64: str) -> User | None:
        """Return the user of the link, or None unless user and issuer are active staff."""
        try:
            user_id, issuer_id = (int(part) for part in urlsafe_base64_decode(uidb64).decode().split("."))
        except ValueError:
            return None
        staff = User.objects.filter(is_active=True, is_staff=True).in_bulk([user_id, issuer_id])
        self.token_generator = PasswordLinkTokenGenerator(staff.get(issuer_id))
        return staff.get(user_id) if issuer_id in staff else None

    @transaction.atomic
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Lock the user and check the token again, so that only one of two concurrent requests succeeds."""
        assert self.user is not None
        list(User.objects.select_for_update().filter(pk=self.user.pk).values_list("pk"))
        self.user = self.get_user(kwargs["uidb64"])
        token = request.session.get(INTERNAL_RESET_SESSION_TOKEN)
        self.validlink = self.token_generator.check_token(self.user, token)
        if not self.validlink:
            return self.render_to_response(self.get_context_data())
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        assert self.user is not None
        record_password_change(self.request, self.user, "Used a one-time link.")
        messages.success(self.request, "Your password has been set. Sign in with it.")
        return response

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        status, title = 200, "Choose your password"
        if not self.validlink:
            status, title = 410, "This link is no longer valid"
        options = {"status": status, "form": context["form"], "name": self.user}
        response: HttpResponse = self.site.render_page(self.request, "new_password", title, **options)
        return response
