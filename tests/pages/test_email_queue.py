"""Emails, their recipients, and their delivery from the queue to a local mail server."""

import re
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from smtplib import SMTPNotSupportedError, SMTPRecipientsRefused
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from cryptography.hazmat.primitives.serialization import Encoding
from django.contrib.auth.models import Group, User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.mail import BadHeaderError, EmailMessage
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.events.warnings import send_expiry_warnings
from accounts.models import (
    Account,
    ApiKey,
    Invitation,
    Membership,
    Role,
    WebhookAttempt,
    WebhookEndpoint,
)  # fmt: skip
from accounts.webhooks.outcomes import apply_outcome
from accounts.webhooks.sender import Failure, Outcome
from petstore.mail import email_queue
from petstore.mail.email_url import mail_server as parse_mail_server
from petstore.mail.models import DISCARDED, QueuedMail
from petstore.observability.metrics import BACKGROUND_FAILURES
from petstore.sign_in import rate_limits
from petstore.sign_in.models import AttemptCounter
from tests.conftest import COMMITTED, OPERATOR
from tests.support.concurrency import run_concurrently
from tests.support.receiver import build_server_context, get_authority
from tests.support.smtp import MailServer, mail_server
from tests.support.staff import PASSWORD, enter_password, signed_in, superuser

FORGED = "evil.example"  # A Host header that ALLOWED_HOSTS accepts.
HOSTILE_NAME = "Döner\r\nBcc: all@evil.example\n\nPay\u2028here\u202e <b>&"
Configure = Callable[[str], None]


@pytest.fixture(autouse=True)
def configure(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Set the settings that EMAIL_URL determines."""

    def configure(url: str) -> None:
        monkeypatch.setenv("EMAIL_URL", url)
        settings.MAIL_SERVER = parse_mail_server("EMAIL_URL")
        for name, value in settings.MAIL_SERVER.items():
            setattr(settings, name, value)

    settings.BASE_URL = "https://pets.example/v1"
    settings.ALLOWED_HOSTS = ["testserver", FORGED]
    configure("smtp://127.0.0.1:9?from=shop@pets.example")
    return configure


@pytest.fixture
def server(configure: Configure) -> Iterator[MailServer]:
    with mail_server() as server:
        configure(f"smtp://127.0.0.1:{server.port}?from=shop@pets.example")
        yield server


def create_user(name: str, *, verified: bool = True, **options: Any) -> User:
    user = User.objects.create_user(name, f"{name}@example.com", PASSWORD, **options)
    EmailAddress.objects.create(user=user, email=user.email, verified=verified, primary=True)
    return user


@pytest.fixture
def kim(db: None) -> User:
    return create_user("kim")


def queue(*names: str) -> None:
    for name in names or ["ann"]:
        EmailMessage("Subject", "Body", to=[f"{name}@example.com"]).send()


def make_due() -> None:
    QueuedMail.objects.update(next_attempt_at=timezone.now())


def find_link(mail: QueuedMail) -> str:
    [link] = re.findall(r"\bhttps?://\S+", mail.body.partition("Questions?")[0])
    return str(link)


def get_path(link: str) -> str:
    """Return the path of a link."""
    return link.removeprefix("https://pets.example")


class CrashError(BaseException):
    """Ends the sending process like a signal."""


def crash(*_: Any) -> None:
    raise CrashError


@pytest.mark.django_db
def test_mail_is_delivered_once_and_then_deleted(server: MailServer) -> None:
    for subject, to in (("x\nBcc: c@d.example", "a@b.example"), ("x", "a@b.example\nBcc: c@d.example")):
        with pytest.raises(BadHeaderError):
            EmailMessage(subject, to=[to]).send()
    queue()
    identifier = QueuedMail.objects.get().pk
    assert server.mails == []
    email_queue.send_due()
    email_queue.send_due()
    [mail] = server.mails
    headers = [mail[name] for name in ("From", "To", "Subject", "Message-ID", "Auto-Submitted")]
    message_id = f"<{identifier}@pets.example>"
    assert headers == ["shop@pets.example", "ann@example.com", "Subject", message_id, "auto-generated"]
    assert (mail.get_content_type(), mail.get_content().strip()) == ("text/plain", "Body")
    assert not QueuedMail.objects.exists()


@pytest.mark.django_db
def test_crash_after_the_server_accepted_repeats_the_message_id(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue()
    with monkeypatch.context() as patch:
        patch.setattr(QueuedMail, "delete", crash)
        with pytest.raises(CrashError):
            email_queue.send_due()
    email_queue.send_due()
    assert len(server.mails) == 1  # The next attempt is later.
    make_due()
    email_queue.send_due()
    assert len(server.mails) == 2
    assert len({mail["Message-ID"] for mail in server.mails}) == 1
    assert not QueuedMail.objects.exists()


@COMMITTED
def test_concurrent_senders_send_each_mail_once(server: MailServer) -> None:
    names = [f"user-{number:02}" for number in range(20)]
    queue(*names)
    run_concurrently(*[email_queue.send_due] * 4)
    assert sorted(address for [address] in server.recipients) == [f"{name}@example.com" for name in names]
    assert not QueuedMail.objects.exists()


@pytest.mark.django_db
def test_rejected_mail_is_retried_later_and_delays_no_other(server: MailServer) -> None:
    queue("ann", "rejected", "ben")
    with pytest.raises(SMTPRecipientsRefused):
        email_queue.send_due()
    assert sorted(server.recipients) == [["ann@example.com"], ["ben@example.com"]]
    mail = QueuedMail.objects.get()
    delays = []
    for age in (timedelta(0), timedelta(minutes=10), timedelta(days=1)):
        mail.created_at = timezone.now() - age
        assert (mail.claim(), mail.claim()) == (True, False)  # The second as in another process.
        mail.refresh_from_db(fields=["next_attempt_at"])
        delays.append(round((mail.next_attempt_at - timezone.now()).total_seconds() / 60))
    assert delays == [2, 10, 60]


@pytest.mark.django_db
def test_old_mail_is_given_up_even_without_a_server(caplog: pytest.LogCaptureFixture) -> None:
    queue()
    QueuedMail.objects.update(created_at=timezone.now() - timedelta(days=3, minutes=1))
    counter = BACKGROUND_FAILURES.labels("mail")._value
    before = counter.get()
    email_queue.send_due()
    assert not QueuedMail.objects.exists()
    assert counter.get() == before + 1
    assert "1 emails could not be sent for days and were deleted." in caplog.text


@pytest.mark.django_db
def test_failures_are_counted_and_logged_without_addresses(
    server: MailServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue("rejected")
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise CrashError

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(connection, "close", lambda: None)
    before = BACKGROUND_FAILURES.labels("mail")._value.get()
    with pytest.raises(CrashError):
        email_queue.run()
    assert pauses == [email_queue.POLL_SECONDS, email_queue.RETRY_SECONDS, email_queue.POLL_SECONDS]
    assert BACKGROUND_FAILURES.labels("mail")._value.get() == before + 1
    assert "SMTPRecipientsRefused" in caplog.text
    assert "example.com" not in caplog.text


@pytest.mark.django_db
@pytest.mark.parametrize(("scheme", "option"), [("smtp", "starttls"), ("smtps", "tls")])
def test_certificate_of_the_server_is_verified(
    scheme: str, option: str, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue()
    contexts: dict[str, Any] = {option: build_server_context("localhost")}
    with mail_server(**contexts) as server:
        configure(f"{scheme}://localhost:{server.port}?from=shop@pets.example")
        monkeypatch.setattr("django.conf.settings.EMAIL_USE_TLS", scheme == "smtp")  # As for other hosts.
        with pytest.raises(ssl.SSLCertVerificationError):
            email_queue.send_due()
        (tmp_path / "authority.pem").write_bytes(get_authority()[0].public_bytes(Encoding.PEM))
        monkeypatch.setenv("SSL_CERT_FILE", f"{tmp_path}/authority.pem")
        email_queue.send_due()
        assert server.in_tls == [True]


@pytest.mark.django_db
def test_nothing_is_sent_to_a_server_without_required_starttls(server: MailServer, settings: Any) -> None:
    queue()
    settings.EMAIL_USE_TLS = True
    with pytest.raises(SMTPNotSupportedError):
        email_queue.send_due()
    assert server.mails == []


@pytest.fixture
def members(account: Account) -> None:
    """Members with every role; only owner and developer get mail about keys."""
    for name in (*Role.values, "unconfirmed", "inactive"):
        user = create_user(name, verified=name != "unconfirmed", is_active=name != "inactive")
        role = name if name in Role.values else Role.OWNER
        Membership.objects.create(account=account, user=user, role=role)
    other = Account.objects.create(name="Other", plan_id="free")
    Membership.objects.create(account=other, user=create_user("stranger"), role=Role.OWNER)


def take_mails() -> dict[str, QueuedMail]:
    """Take the emails from the queue, by recipient."""
    mails = {mail.recipient.partition("@")[0]: mail for mail in QueuedMail.objects.all()}
    assert len(mails) == QueuedMail.objects.count()
    QueuedMail.objects.all().delete()
    return mails


def take_one_text() -> str:
    """Take the mails about a key; their text."""
    mails = take_mails()
    assert set(mails) == {"owner", "developer"}
    [(subject, body)] = {(mail.subject, mail.body) for mail in mails.values()}
    return f"{subject}\n{body}"


@pytest.mark.usefixtures("members")
def test_owners_and_developers_get_mail_about_new_rotated_and_revoked_keys(account: Account) -> None:
    key, key_text = ApiKey.objects.issue(account, name="Shop", by=OPERATOR)
    text = take_one_text()
    assert text.startswith("A new API key in your Pet Store account\n")
    assert f"Key {key} of the account {account.public_id} was issued" in text
    assert f"https://pets.example/account/{account.public_id}/keys/" in text
    assert key_text not in text
    new, _ = key.rotate(by=OPERATOR)
    assert f"It replaces key {key}." in take_one_text()
    new.revoke(reason="Staff: leaked by Bob", by=OPERATOR)
    text = take_one_text()
    assert text.startswith("An API key in your Pet Store account was revoked\n")
    assert "Bob" not in text


@pytest.mark.usefixtures("members")
def test_key_that_expires_soon_is_announced_unless_it_was_rotated(account: Account) -> None:
    now = timezone.now()
    key, _ = ApiKey.objects.issue(account, expires_at=now + timedelta(days=6), by=OPERATOR)
    ApiKey.objects.issue(account, by=OPERATOR)[0].rotate(by=OPERATOR)
    QueuedMail.objects.all().delete()
    send_expiry_warnings(now)
    assert f"Key {key} of the account" in take_one_text()


def fail(endpoint: WebhookEndpoint, now: datetime, status: int = 503) -> None:
    apply_outcome(endpoint, WebhookAttempt(event_id=1), Outcome(Failure.STATUS, status), now)
    endpoint.save()


@pytest.fixture
def endpoint(account: Account, members: None) -> WebhookEndpoint:
    url = "https://93.184.216.34/secret"
    return WebhookEndpoint.objects.add(account, url=url, description=HOSTILE_NAME, by=OPERATOR)


def test_mails_about_webhooks_name_ids_and_times_only(endpoint: WebhookEndpoint) -> None:
    now = timezone.now()
    fail(endpoint, now - timedelta(hours=2))
    fail(endpoint, now)
    text = take_one_text()
    assert text.startswith("A webhook of your Pet Store account is failing\n")
    assert f"has accepted no event since {now - timedelta(hours=2):%Y-%m-%d at %H:%M} UTC" in text
    endpoint.disable(by=OPERATOR, by_staff=True, reason="Staff: floods Bob")
    disabled = take_one_text()
    assert f"was disabled on {endpoint.disabled_at:%Y-%m-%d at %H:%M} UTC by us." in disabled
    page = f"https://pets.example/account/{endpoint.account.public_id}/webhooks/"
    assert all(part in text and part in disabled for part in (endpoint.public_id, page))
    for part in ("Döner", "secret", "93.184.216.34", "Bob"):
        assert part not in text + disabled


def test_invitation_is_mailed_with_its_link(account: Account) -> None:
    _, link = Invitation.objects.invite(account, email="new@example.com", role=Role.OWNER, by=OPERATOR)
    mail = take_mails()["new"]
    assert mail.subject == "Your invitation to Pet Store"
    assert find_link(mail) == link
    assert f"join the account {account.public_id} as Account owner" in mail.body


@pytest.mark.usefixtures("members")
def test_mails_contain_no_text_that_others_chose(account: Account, server: MailServer) -> None:
    Account.objects.filter(pk=account.pk).update(name=HOSTILE_NAME)
    account.refresh_from_db()
    key, _ = ApiKey.objects.issue(account, name=HOSTILE_NAME, by=OPERATOR)
    key.revoke(reason="x", by=OPERATOR)
    Invitation.objects.invite(account, email="new@example.com", role=Role.READER, by=OPERATOR)
    email_queue.send_due()
    assert len(server.mails) == 5
    for mail, recipients in zip(server.mails, server.recipients, strict=True):
        assert recipients == [mail["To"]]
        assert mail["Bcc"] is None
        for text in ("Döner", "Bcc", "evil.example"):
            assert text not in mail["Subject"] + mail.get_content()


def test_subjects_are_constant() -> None:
    subjects = [*(Path(__file__).parents[2] / "templates").rglob("*_subject.txt")]
    assert len(subjects) == 8
    assert not any("{" in file.read_text() for file in subjects)


def request_reset(email: str, **headers: str) -> None:
    response = Client().post("/account/password/reset/", {"email": email}, headers=headers)
    assert (response.status_code, response["Location"]) == (302, "/account/password/reset/sent/")


def test_link_of_a_reset_mail_sets_a_password_once(kim: User) -> None:
    request_reset("Kim@Example.com", host=FORGED)
    mail = take_mails()["kim"]
    link = find_link(mail)
    assert link.startswith("https://pets.example/account/password/reset/")
    assert (mail.subject, "the password of kim" in mail.body) == ("Reset your Pet Store password", True)
    assert Client().get(get_path(link), follow=True).status_code == 200  # As by a scanner.
    browser = Client()
    page = browser.get(get_path(link), follow=True).request["PATH_INFO"]
    User.objects.update(is_staff=True)  # Staff get links from an Owner.
    assert "no longer valid" in Client().get(get_path(link), follow=True).text
    User.objects.update(is_staff=False)
    sent = {"password1": "another horse battery", "password2": "another horse battery"}
    assert "Your password has been changed." in browser.post(page, sent, follow=True).text
    kim.refresh_from_db()
    assert kim.check_password("another horse battery")
    assert "no longer valid" in Client().get(get_path(link), follow=True).text


def test_requests_for_unknown_addresses_cost_the_same_and_send_nothing(
    kim: User, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_user("colleague", is_staff=True)
    create_user("unconfirmed", verified=False)
    create_user("inactive", is_active=False)
    hashes: list[int] = []
    make_token = PasswordResetTokenGenerator.make_token

    def count_hash(generator: PasswordResetTokenGenerator, user: User) -> str:
        hashes.append(user.pk)
        return make_token(generator, user)

    monkeypatch.setattr(PasswordResetTokenGenerator, "make_token", count_hash)
    costs = {}
    for name in ("kim", "colleague", "unconfirmed", "inactive", "unknown"):
        hashes.clear()
        AttemptCounter.objects.all().delete()  # The first attempt takes fewer statements.
        before = QueuedMail.objects.count()
        with CaptureQueriesContext(connection) as queries:
            request_reset(f"{name}@example.com")
        statements = [query["sql"].split(" (")[0].split(" WHERE")[0].split(' "s')[0] for query in queries]
        costs[name] = statements, len(hashes), QueuedMail.objects.count() - before
    assert costs["kim"][1:] == (1, 1)
    assert all(cost == costs["kim"] for cost in costs.values()), costs
    assert QueuedMail.objects.filter(recipient=DISCARDED).count() == 4
    email_queue.send_due()
    assert server.recipients == [[kim.email]]
    assert not QueuedMail.objects.exists()


@pytest.fixture
def browser(db: None) -> Client:
    """A browser in which a customer without an address has just signed in."""
    User.objects.create_user("lee", password=PASSWORD)
    return enter_password("lee")


def test_only_a_post_confirms_an_address(browser: Client) -> None:
    form = {"action_add": "", "email": "lee@example.com"}
    for domain in ("\u00fc" * 60, "\u00ad", "\u05d0a"):  # Well-formed, but not valid in the DNS (IDNA).
        response = browser.post("/account/email/", form | {"email": f"a@{domain}.example"})
        assert "Enter a valid email address." in response.text
    assert browser.post("/account/email/", form, headers={"host": FORGED}).status_code == 302
    mail = take_mails()["lee"]
    link = find_link(mail)
    assert link.startswith("https://pets.example/account/email/confirm/")
    assert mail.subject == "Confirm your email address for Pet Store"
    other = signed_in(User.objects.create(username="other"))
    for method in (other.get, other.head):
        assert method(get_path(link)).status_code == 200
    assert "_auth_user_id" in other.session  # The owner of the browser.
    assert not EmailAddress.objects.get().verified
    assert Client().post(get_path(link)).status_code == 302
    assert EmailAddress.objects.get().verified


@pytest.mark.parametrize("by", ["the password", "a command", "promotion to staff"])
def test_new_password_ends_links_that_confirm_an_address(kim: User, by: str) -> None:
    """A thief of the old password may have entered the address."""
    browser = enter_password("kim")
    browser.post("/account/email/", {"action_add": "", "email": "thief@example.com"})
    link = find_link(take_mails()["thief"])
    if by == "the password":
        form = {"oldpassword": PASSWORD, **dict.fromkeys(("password1", "password2"), "a new pass phrase")}
        assert browser.post("/account/password/", form).status_code == 302
    elif by == "a command":
        kim.set_password("a new pass phrase")
        kim.save()
    else:  # They choose the password later.
        role = str(Group.objects.get(name="Viewer").pk)
        form = {"username": "kim", "groups": role, "reason": "Joins us"}
        assert signed_in(superuser()).post("/admin/auth/user/make-staff/", form).status_code == 200
    Client().post(get_path(link))
    assert list(EmailAddress.objects.values_list("email", "verified")) == [(kim.email, True)]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("action", ["action_add", "action_send"])
def test_confirmations_are_limited_also_if_their_page_fails(
    action: str, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(action: str, email: str = "lee@example.com") -> Any:
        return browser.post("/account/email/", {action: "", "email": email})

    monkeypatch.setattr(rate_limits, "MAILS_PER_EMAIL", "2/h")
    with monkeypatch.context() as patch:
        patch.setattr("petstore.mail.email_queue.QueueBackend.send_messages", crash)
        with pytest.raises(CrashError):
            submit("action_add")
    assert not EmailAddress.objects.exists()
    submit("action_add")
    if action == "action_add":
        submit("action_remove")
    addresses = EmailAddress.objects.count()
    response = submit(action, " Lee@example.com\t")
    assert (response.status_code, "Too many emails" in response.text) == (429, True)
    assert int(response["Retry-After"]) > 0
    assert (QueuedMail.objects.count(), EmailAddress.objects.count()) == (1, addresses)
