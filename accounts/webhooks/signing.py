"""Secrets and signatures of webhooks, in the format of Standard Webhooks (D52, D53)."""

import hmac
from base64 import b64encode
from collections.abc import Iterable


def derive_secret(pepper: bytes, public_id: str, version: int) -> bytes:
    """Derive the secret of an endpoint, so that none has to be stored."""
    return hmac.digest(pepper, f"webhook:{public_id}:{version}".encode(), "sha256")


def format_secret(secret: bytes) -> str:
    return f"whsec_{b64encode(secret).decode()}"


def sign(secrets: Iterable[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`, with a signature for each secret."""
    content = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.digest(secret, content, "sha256") for secret in secrets)
    return " ".join(f"v1,{b64encode(digest).decode()}" for digest in digests)
