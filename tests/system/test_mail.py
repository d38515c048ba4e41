"""The service sends the mail that its pages queue. Outages: tests/pages/test_email_queue.py."""

import re
from pathlib import Path

import httpx

from tests.support.live import live_service
from tests.support.servers import wait_until
from tests.support.smtp import mail_server

EMAIL = "kim@example.com"
CREATE_USER = f"""
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
user = User.objects.create_user("kim", "{EMAIL}")
EmailAddress.objects.create(user=user, email="{EMAIL}", verified=True, primary=True)
"""


def test_requested_link_to_reset_a_password_is_mailed_and_not_logged(tmp_path: Path) -> None:
    with mail_server() as server:
        email_url = f"smtp://127.0.0.1:{server.port}?from=shop@pets.example"
        with live_service(tmp_path, workers=2, EMAIL_URL=email_url) as service:
            service.manage("shell", "--no-imports", "-c", CREATE_USER)
            with httpx.Client(base_url=service.url, follow_redirects=True, timeout=30) as client:
                page = client.get("/account/password/reset/").text
                [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[:1]
                form = {"email": EMAIL, "csrfmiddlewaretoken": token}
                assert "Check your email" in client.post("/account/password/reset/", data=form).text
                wait_until(lambda: bool(server.mails))
                [mail] = server.mails
                link = re.search(rf"{service.url}/account/password/reset/\S+", mail.get_content())
                assert link is not None
                assert "Choose a new password" in client.get(link[0]).text
    log = service.log()
    assert EMAIL not in log
    assert link[0].split("/")[-2] not in log
