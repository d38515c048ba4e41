"""A mail server that stores the mail it accepts."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.support.servers import free_port

logging.getLogger("mail.log").setLevel(logging.ERROR)  # It would log every command, and addresses.


class MailServer:
    """A handler for aiosmtpd. It rejects recipients whose address starts with "rejected"."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.recipients: list[list[str]] = []
        self.mails: list[EmailMessage] = []
        self.in_tls: list[bool] = []

    async def handle_RCPT(  # noqa: N802  aiosmtpd's name.
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.startswith("rejected"):
            return f"550 {address} is unknown"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        mail: Any = message_from_bytes(envelope.content, policy=policy.default)
        self.recipients.append(envelope.rcpt_tos)
        assert server.transport is not None
        self.in_tls.append(server.transport.get_extra_info("ssl_object") is not None)
        self.mails.append(mail)
        return "250 OK"


@contextmanager
def mail_server(
    port: int = 0, tls: ssl.SSLContext | None = None, starttls: ssl.SSLContext | None = None
) -> Iterator[MailServer]:
    """Run a mail server on this machine, with TLS from the start, with STARTTLS, or without both."""
    server = MailServer(port or free_port())
    controller = Controller(
        server, "127.0.0.1", server.port, ssl_context=tls, tls_context=starttls,
        require_starttls=starttls is not None,
    )  # fmt: skip
    controller.start()
    try:
        yield server
    finally:
        controller.stop()
