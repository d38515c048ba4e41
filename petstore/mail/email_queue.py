"""An email backend that stores emails in a queue, and the thread that sends them.

Every worker polls the queue. The one that claims an entry sends it, then deletes it. If it crashes in
between, the mail is sent again. While the mail server is unavailable, no entry is claimed, so that all are
sent soon after it is back.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from smtplib import SMTPRecipientsRefused
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import Error, connection
from django.template.loader import render_to_string
from django.utils import timezone

from petstore.mail.models import DISCARDED, QueuedMail, find_expired
from petstore.observability.metrics import BACKGROUND_FAILURES

logger = logging.getLogger(__name__)

POLL_SECONDS = 2.0
RETRY_SECONDS = 15.0


class QueueBackend(BaseEmailBackend):
    """Stores recipients, subject and plain text in the current transaction."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        mails = [
            QueuedMail(recipient=recipient, subject=str(message.subject), body=str(message.body))
            for message in email_messages
            for recipient in message.recipients()
        ]
        for mail in mails:
            build_message(mail).message()  # Raises ValueError for an invalid header.
        return len(QueuedMail.objects.bulk_create(mails))


def build_message(mail: QueuedMail, smtp: Any = None) -> EmailMessage:
    """Build the message. Its Message-ID, the same in each attempt, identifies duplicates."""
    message_id = f"<{mail.pk}@{settings.DEFAULT_FROM_EMAIL.rpartition('@')[2]}>"
    headers = {"Message-ID": message_id, "Auto-Submitted": "auto-generated"}  # RFC 3834
    return EmailMessage(mail.subject, mail.body, to=[mail.recipient], connection=smtp, headers=headers)


def check_address(address: str) -> None:
    """Raise ValidationError if mail can't be addressed to it, for example if IDNA rejects its domain."""
    try:
        build_message(QueuedMail(recipient=address)).message()
    except ValueError:
        raise ValidationError("Enter a valid email address.") from None


def send_mail(template: str, recipients: Iterable[str], context: dict[str, Any]) -> None:
    """Send a mail to each of the recipients. The subject is a template without variables."""
    contacts = {"support_url": settings.SUPPORT_URL, "support_email": settings.SUPPORT_EMAIL}
    subject = render_to_string(f"{template}_subject.txt").strip()
    body = render_to_string(f"{template}_message.txt", context | contacts)
    get_connection().send_messages([EmailMessage(subject, body, to=[address]) for address in recipients])


def send_due() -> None:
    """Delete expired mails and send due ones. Raises the exception of a failure.

    A failure ends it, except that of a rejected recipient, which must not delay the others.
    """
    # Read first: on SQLite, even a DELETE of no rows blocks other writers.
    if find_expired().exists() and (count := find_expired().delete()[0]):
        BACKGROUND_FAILURES.labels("mail").inc(count)
        logger.error("%d emails could not be sent for days and were deleted.", count)
    due = QueuedMail.objects.filter(next_attempt_at__lte=timezone.now())
    # Newest first, so that no mail waits for the retries of rejected ones.
    rejection = None
    if mails := list(due.order_by("-created_at")[:100]):
        with get_connection("django.core.mail.backends.smtp.EmailBackend") as server:
            for mail in mails:
                if mail.claim():
                    try:
                        if mail.recipient != DISCARDED:
                            build_message(mail, server).send()
                        mail.delete()
                    except SMTPRecipientsRefused as error:
                        rejection = error
    if rejection is not None:
        raise rejection


def run() -> None:
    while True:
        time.sleep(POLL_SECONDS)
        try:
            send_due()
        except Exception as error:  # noqa: BLE001  Its text may contain an address.
            BACKGROUND_FAILURES.labels("mail").inc()
            reason = type(error).__name__, getattr(error, "smtp_code", "no code")
            logger.warning("Sending mail failed and will be retried: %s (%s).", *reason)
            with suppress(Error):
                connection.close()
            time.sleep(RETRY_SECONDS)
