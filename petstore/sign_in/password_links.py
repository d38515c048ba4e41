"""One-time password links, which an Owner hands over to a colleague instead of an email.

A link expires after PASSWORD_RESET_TIMEOUT seconds, or when it is used or the user signs in. It also
becomes invalid when the permissions or accounts of the user change, or the permissions or password of its
issuer. Otherwise, an Owner's link for a Viewer could set the password of a superuser that the Viewer has
become.
"""

from typing import Any

from allauth.account.utils import user_pk_to_url_str
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import Permission, User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db.models import Q
from django.urls import reverse

from petstore.api.int64 import parse_id
from petstore.api.link_header import get_page_url


class PasswordLinkTokenGenerator(PasswordResetTokenGenerator):
    """Makes Django's tokens depend on their issuer, whose ID precedes them."""

    key_salt = "petstore.sign_in.password_links"
    issuer: User | None = None

    def make_token(self, user: Any) -> str:
        assert self.issuer is not None
        return f"{self.issuer.pk}-{super().make_token(user)}"

    def check_token(self, user: Any, token: str | None) -> bool:
        """Also require that the issuer is active staff."""
        issuer_id, _, token = (token or "").partition("-")
        staff = User.objects.filter(is_active=True, is_staff=True)
        self.issuer = staff.filter(pk=parse_id(issuer_id) or 0).first()
        return self.issuer is not None and super().check_token(user, token)

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
    tokens = PasswordLinkTokenGenerator()
    tokens.issuer = by
    key = [user_pk_to_url_str(user), tokens.make_token(user)]
    return get_page_url(reverse("account_reset_password_from_key", args=key))
