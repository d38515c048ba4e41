"""The app of accounts, keys, plans and quota."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who is calling, and how much they may do."""

    name = "accounts"

    def ready(self) -> None:
        """Take the app's part at the gate, and register its checks and receivers."""
        from accounts.keys import authentication
        from accounts.quota import headers, publication, throttle  # noqa: F401
        from accounts.usage import rejections
        from petstore.api.pipeline import ApiPipeline, Steps

        ApiPipeline.steps = Steps(
            check_key_format=authentication.read_key,
            authenticate=authentication.authenticate,
            throttle=throttle.throttle,
            note_missing_scope=rejections.note_missing_scope,
            quota_headers=headers.quota_headers,
            untouched_headers=headers.untouched_headers,
        )

    def start_worker(self) -> None:
        """Write usage behind and number events from now on."""
        from accounts.events import sequencing
        from accounts.quota import publication

        publication.begin()
        sequencing.number_from_now_on()
