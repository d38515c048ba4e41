"""Verifies webhooks (Standard Webhooks 1.0)."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping

from petstore_client.errors import PetstoreError
from petstore_client.models import Event, decode

PREFIX = "whsec_"


class WebhookError(PetstoreError):
    """The webhook is not signed with any of the secrets, or is too old. Respond with 400."""


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes | str,
    secrets: str | Iterable[str],
    *,
    tolerance: float = 300,
    now: float | None = None,
) -> Event:
    """Return the event of a webhook. Raises WebhookError.

    `body` is the request body as received, not parsed. Pass both secrets while one is being rotated.
    `tolerance` is in seconds: an older or newer timestamp is rejected, since it may be a replay.
    """
    found = {name.lower(): value for name, value in headers.items()}
    try:
        event_id, timestamp = found["webhook-id"], found["webhook-timestamp"]
        signatures = [
            base64.b64decode(value[3:])
            for value in found["webhook-signature"].split()
            if value[:3] == "v1,"
        ]
        age = (time.time() if now is None else now) - int(timestamp)
    except (KeyError, ValueError, binascii.Error):
        raise WebhookError("The webhook's headers are missing or malformed.") from None
    if abs(age) > tolerance:
        raise WebhookError("The webhook's timestamp is too old or too new.")
    payload = body.encode() if isinstance(body, str) else body
    signed = f"{event_id}.{timestamp}.".encode() + payload
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        expected = hmac.digest(base64.b64decode(secret.removeprefix(PREFIX)), signed, hashlib.sha256)
        if any(hmac.compare_digest(expected, signature) for signature in signatures):
            event: Event = decode(Event, json.loads(payload))
            return event
    raise WebhookError("The webhook's signature matches no secret.")
