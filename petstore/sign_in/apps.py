"""The app's configuration."""

from django.apps import AppConfig


class SignInConfig(AppConfig):
    name = "petstore.sign_in"
    label = "sign_in"
    verbose_name = "Sign-in"

    def ready(self) -> None:
        from petstore.sign_in import receivers  # noqa: F401  Connects them.
