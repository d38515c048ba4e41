"""Sign-ins and changes of second factors, as the audit trail records them."""

from django.db import models

from petstore.audit.actions import register


@register("password_accepted", "signed_in", "sign_in_failed", "signed_out")
class Action(models.TextChoices):
    PASSWORD_ACCEPTED = "password_accepted", "Entered the password"
    SIGNED_IN = "signed_in", "Signed in"
    SIGN_IN_FAILED = "sign_in_failed", "Failed to sign in"  # By versions before FailedSignIn.
    SIGNED_OUT = "signed_out", "Signed out"
    TWO_FACTOR_ON = "two_factor_on", "Turned on two-factor sign-in"
    TWO_FACTOR_OFF = "two_factor_off", "Turned off two-factor sign-in"
    TWO_FACTOR_RESET = "two_factor_reset", "Reset two-factor sign-in"
    RECOVERY_CODES = "recovery_codes", "Generated recovery codes"
