"""Django's mail settings, from EMAIL_URL."""

import re
from typing import Any
from urllib.parse import parse_qsl, unquote

from petstore.addresses import accepts, is_this_machine, split_url, to_ascii
from petstore.environment import require, text


def mail_server(name: str) -> dict[str, Any]:
    """Convert `smtp://user:password@host:port?from=address` to Django's settings, or {} if it is unset.

    `smtp` requires STARTTLS, except on this machine, and `smtps` uses TLS from the start.
    """
    value = text(name, "")
    if not value:
        return {}
    url = split_url(value)
    valid = url is not None and url.scheme in {"smtp", "smtps"} and url.hostname
    require(valid, name, "must look like smtp://user:password@host:587?from=shop@example.com.")
    assert url is not None
    parameters = dict(parse_qsl(url.query))
    sender = parameters.pop("from", "")
    is_address = "@" in sender and not re.search(r"[\s<>,]", sender) and accepts(to_ascii, sender)
    require(is_address, name, "must name a sender: ?from=address.")
    require(not parameters, name, f"has the unknown parameter {', '.join(parameters)}.")
    return {
        "EMAIL_BACKEND": "petstore.mail.email_queue.QueueBackend",
        "EMAIL_HOST": url.hostname,
        "EMAIL_PORT": url.port or (465 if url.scheme == "smtps" else 587),
        "EMAIL_HOST_USER": unquote(url.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(url.password or ""),
        "EMAIL_USE_SSL": url.scheme == "smtps",
        "EMAIL_USE_TLS": url.scheme == "smtp" and not is_this_machine(url.hostname),
        "DEFAULT_FROM_EMAIL": to_ascii(sender),
    }
