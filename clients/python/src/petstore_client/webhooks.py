"""Verifies webhooks (Standard Webhooks 1.0)."""

import base64
import hmac
import json
import time
from collections.abc import Iterable, Mapping

from petstore_client.errors import WebhookError
from petstore_client.models import Event, decode


def verify_webhook(
    headers: Mapping[str, str], body: bytes | str, secrets: str | Iterable[str], *,
    tolerance: float = 300, now: float | None = None,
) -> Event:  # fmt: skip
    """Return the event of a webhook. Raises WebhookError.

    `body` is the request body as received, not parsed. Pass both secrets while one is being rotated.
    `tolerance` is in seconds: an older or newer timestamp is rejected, since it may be a replay.
    """
    found = {name.lower(): value for name, value in headers.items()}
    try:
        signatures = found["webhook-signature"].split()
        signed = f"{found['webhook-id']}.{found['webhook-timestamp']}.".encode()
        age = (time.time() if now is None else now) - int(found["webhook-timestamp"])
    except (KeyError, ValueError):
        raise WebhookError("The webhook's headers are missing or malformed.") from None
    if abs(age) > tolerance:
        raise WebhookError("The webhook's timestamp is too old or too new.")
    payload = body.encode() if isinstance(body, str) else body
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        try:
            signing_key = base64.b64decode(secret.removeprefix("whsec_"))
        except ValueError:
            raise WebhookError("A secret is malformed.") from None
        digest = hmac.digest(signing_key, signed + payload, "sha256")
        expected = b"v1," + base64.b64encode(digest)
        if any(hmac.compare_digest(expected, signature.encode()) for signature in signatures):
            return decode(Event, json.loads(payload))
    raise WebhookError("The webhook's signature matches no secret.")
