"""Sign-in for staff and customers by password, authenticator app or passkey, built on django-allauth."""
