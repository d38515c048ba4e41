"""Accounts, keys, plans, quota and events."""

from threading import Thread

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        """Register the deployment checks and the steps of the request pipeline."""
        from accounts import checks  # noqa: F401
        from accounts.keys import authentication
        from accounts.quota import headers, throttle
        from petstore.api.pipeline import ApiPipeline, Steps

        ApiPipeline.steps = Steps(
            check_key_format=authentication.parse_authorization,
            authenticate=authentication.authenticate,
            throttle=throttle.throttle,
            record_missing_scope=authentication.record_missing_scope,
            get_quota_headers=headers.build_quota_headers,
            get_unused_quota_headers=headers.build_unused_quota_headers,
        )

    def start_worker(self) -> None:
        """Start the threads that write usage and sequence events."""
        from accounts.events import sequencing
        from accounts.usage import write_behind

        write_behind.recorder.start()
        Thread(target=sequencing.run_sequencing, name="events", daemon=True).start()
