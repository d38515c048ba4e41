"""The app of accounts, keys, plans and quota."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who is calling, and how much they may do."""

    name = "accounts"

    def ready(self) -> None:
        """Register the checks and who hears of changes."""
        from accounts import checks  # noqa: F401
        from accounts.quota import publishing  # noqa: F401
