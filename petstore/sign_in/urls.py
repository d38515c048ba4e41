"""URLs of sign-in and personal security. The names are those that django-allauth reverses."""

from allauth.account import views as account
from allauth.account.decorators import reauthentication_required
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as passkeys
from django.urls import path, re_path

from petstore.sign_in import views
from petstore.sign_in.rate_limits import limit_changes

urlpatterns = [
    path("login/", views.LoginView.as_view(), name="account_login"),
    path("login/code/", views.AuthenticateView.as_view(), name="mfa_authenticate"),
    path("login/passkey/", views.LoginPasskeyView.as_view(), name="mfa_login_webauthn"),
    path("login/help/", views.sign_in_help, name="sign_in_help"),
    path("logout/", account.logout, name="account_logout"),
    path("inactive/", account.account_inactive, name="account_inactive"),
    # Password
    path("password/", limit_changes(views.ChangePasswordView.as_view()), name="account_change_password"),
    path("password/set/", account.password_set, name="account_set_password"),
    path("password/reset/", account.password_reset, name="account_reset_password"),
    path("password/reset/sent/", account.password_reset_done, name="account_reset_password_done"),
    re_path(
        r"^password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[0-9A-Za-z-]+)/$",
        views.PasswordLinkView.as_view(),
        name="account_reset_password_from_key",
    ),
    # Email address
    path("email/", reauthentication_required(views.EmailView.as_view()), name="account_email"),
    re_path(
        r"^email/confirm/(?P<key>[-:\w]+)/$",
        views.ConfirmEmailView.as_view(),
        name="account_confirm_email",
    ),
    # Confirming one's identity again
    path("confirm/", account.reauthenticate, name="account_reauthenticate"),
    path("confirm/code/", mfa.reauthenticate, name="mfa_reauthenticate"),
    path("confirm/passkey/", passkeys.reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"),
    # Second factor and sessions
    path("security/", mfa.index, name="mfa_index"),
    path("security/app/", limit_changes(views.ActivateTOTPView.as_view()), name="mfa_activate_totp"),
    path("security/app/off/", limit_changes(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path("security/recovery-codes/", recovery_codes.view_recovery_codes, name="mfa_view_recovery_codes"),
    path(
        "security/recovery-codes/new/",
        limit_changes(recovery_codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path("security/passkeys/", passkeys.list_webauthn, name="mfa_list_webauthn"),
    path("security/passkeys/add/", limit_changes(views.AddPasskeyView.as_view()), name="mfa_add_webauthn"),
    path("security/passkeys/<int:pk>/", passkeys.edit_webauthn, name="mfa_edit_webauthn"),
    path(
        "security/passkeys/<int:pk>/remove/",
        limit_changes(views.RemovePasskeyView.as_view()),
        name="mfa_remove_webauthn",
    ),
    path(
        "security/sessions/",
        reauthentication_required(views.SessionsView.as_view()),
        name="usersessions_list",
    ),
]
