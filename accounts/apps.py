"""The app of accounts, keys, plans and quota."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who is calling, and how much they may do."""

    name = "accounts"

    def ready(self) -> None:
        """Take the app's part at the gate, and register its checks and receivers."""
        from accounts import authentication, checks, refusing, throttling  # noqa: F401
        from accounts.quota import headers, publishing  # noqa: F401
        from petstore.api.gate import ApiGate, Steps

        ApiGate.steps = Steps(
            check_form=authentication.read_key,
            authenticate=authentication.authenticate,
            throttle=throttling.throttle,
            note_missing_scope=refusing.note_missing_scope,
            quota_headers=headers.quota_headers,
            untouched_headers=headers.untouched_headers,
        )

    def start_worker(self) -> None:
        """Write usage behind and number events from now on."""
        from accounts.events import numbering
        from accounts.quota import publishing

        publishing.begin()
        numbering.number_from_now_on()
