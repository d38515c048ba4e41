"""The app of accounts, keys, plans and quota."""

from django.apps import AppConfig

from petstore.observability import health
from petstore.serving.signals import worker_started


class AccountsConfig(AppConfig):
    """Who is calling, and how much they may do."""

    name = "accounts"

    def ready(self) -> None:
        """Take the app's part at the gate, register its checks, and who hears of what."""
        from accounts import authentication, checks, refusing, throttling  # noqa: F401
        from accounts.events import numbering
        from accounts.quota import headers, publishing, store  # noqa: F401
        from petstore.api.gate import ApiGate, Steps

        ApiGate.steps = Steps(
            check_form=authentication.read_key,
            authenticate=authentication.authenticate,
            throttle=throttling.throttle,
            note_missing_scope=refusing.note_missing_scope,
            quota_headers=headers.quota_headers,
            untouched_headers=headers.untouched_headers,
        )
        worker_started.connect(numbering.number_from_now_on)
        # `database` although Redis is set up means that Redis is away, which stops nobody.
        health.tell(lambda: {"quota": store.state()})
