"""Pages and the OpenAPI document show the support contacts."""

import re
from typing import Any

import pytest
from django.test import Client

pytestmark = pytest.mark.same_on_both
PAGES = ["/", "/docs/quickstart", "/docs/authentication", "/docs/environments", "/docs/errors"]


def test_pages_link_to_support(client: Client, db: None, settings: Any) -> None:
    for page in (client.get(path).text for path in PAGES):
        assert "mailto:" not in page
        assert "This service publishes no contact: ask its operator." in page
    settings.SUPPORT_URL, settings.SUPPORT_EMAIL = "https://help.example/?a=1&b=2", "help@pets.example"
    subject = r"\?subject=Pet%20Store%3A%20Get%20[a-z%20]+"
    for page in (client.get(path).text for path in PAGES):
        assert '<a href="https://help.example/?a=1&amp;b=2">' in page
        assert re.search(rf'<a href="mailto:help@pets\.example{subject}">help@pets\.example</a>', page)


def test_errors_that_need_support_link_to_it(client: Client, settings: Any) -> None:
    settings.SUPPORT_EMAIL = "help@pets.example"
    sections = re.findall(r'<section class="code" aria-labelledby="(\w+)">(.*?)</section>',
                          client.get("/docs/errors").text, re.DOTALL)  # fmt: skip
    codes = {code for code, text in sections if "help@pets.example" in text}
    assert codes == {
        "invalid_api_key", "expired_api_key", "insufficient_scope", "account_suspended",
        "order_not_cancellable", "daily_quota_exceeded", "api_key_banned", "internal_error",
    }  # fmt: skip
