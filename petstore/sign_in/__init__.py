"""Sign-in for staff and customers: password, authenticator app, passkeys. django-allauth does the work."""
