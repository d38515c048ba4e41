"""A customer resets a password by mail, while the mail server is down at first."""

import re
from pathlib import Path

import httpx

from tests.support.live import live_service, manage
from tests.support.servers import free_port, wait_until
from tests.support.smtp import mail_server

EMAIL, PASSWORD = "kim@example.com", "correct horse battery staple"
CREATE_USER = f"""
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
user = User.objects.create_user("kim", "{EMAIL}")
EmailAddress.objects.create(user=user, email="{EMAIL}", verified=True, primary=True)
"""


def post(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    """Send the form of a page."""
    page = client.get(path)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert token is not None, page.text
    return client.post(page.url, data=fields | {"csrfmiddlewaretoken": token[1]})


def test_password_is_reset_by_mail_after_an_outage_of_the_mail_server(tmp_path: Path) -> None:
    port = free_port()
    url = f"smtp://127.0.0.1:{port}?from=shop@pets.example"
    with live_service(tmp_path, workers=2, EMAIL_URL=url) as service:
        manage(service.environment, "shell", "-c", CREATE_USER)
        with httpx.Client(base_url=service.url, follow_redirects=True, timeout=30) as client:
            response = post(client, "/account/password/reset/", email=EMAIL)
            assert "Check your email" in response.text
            wait_until(lambda: "Sending mail failed" in service.log())
            with mail_server(port) as server:
                wait_until(lambda: bool(server.mails), 60)
            [mail] = server.mails
            link = re.search(rf"{service.url}/account/password/reset/\S+", mail.get_content())
            assert link is not None
            response = post(client, link[0], password1=PASSWORD, password2=PASSWORD)
            assert "Your password has been changed." in response.text
            post(client, "/account/login/", login=EMAIL, password=PASSWORD)
            assert "kim" in client.get("/account/security/").text
        service.stop()
        log = service.log()
        assert "ConnectionRefusedError" in log
        assert EMAIL not in log
        assert link[0].split("/")[-2] not in log
