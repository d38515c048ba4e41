"""SECRET_KEY and peppers can be rotated while the service runs, and the old secrets removed."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.live import Service, stopped_service
from tests.support.migrated import migrated_database, temporary_database
from tests.support.servers import wait_until
from tests.support.skips import NEEDS_POSTGRESQL

PEPPERS = {1: "the-first-pepper-that-is-long-enough-here", 2: "the-second-pepper-that-is-long-enough"}
OLD, NEW = "the-old-secret-key-that-is-long-enough-for-tests", "the-new-secret-key-that-is-long-enough-too"
STAGES = [
    {"SECRET_KEY": OLD, "API_KEY_PEPPERS": f"1:{PEPPERS[1]}"},
    {
        "SECRET_KEY": OLD,
        "SECRET_KEY_FALLBACKS": NEW,
        "API_KEY_PEPPERS": f"1:{PEPPERS[1]},2:{PEPPERS[2]}",
        "API_KEY_PEPPER_NUMBER": "1",
    },
    {
        "SECRET_KEY": NEW,
        "SECRET_KEY_FALLBACKS": OLD,
        "API_KEY_PEPPERS": f"1:{PEPPERS[1]},2:{PEPPERS[2]}",
    },
    {"SECRET_KEY": NEW, "API_KEY_PEPPERS": f"2:{PEPPERS[2]}"},
]
FILL = """
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("seed_demo", pets=5)
User.objects.create_superuser("ann", "", "a-long-one")
"""


class SentRequest(NamedTuple):
    """A request during the rotation, and its status."""

    stage: int
    credential: str
    status: int


def sign_in(browser: httpx.Client, url: str) -> None:
    """Sign in as a member of staff."""
    page = browser.get(f"{url}/account/login/").text
    token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[0]
    form = {"login": "ann", "password": "a-long-one", "csrfmiddlewaretoken": token}
    assert browser.post(f"{url}/account/login/", data=form).status_code == 302


def send_to_both(
    stage: int, old: Service, new: Service, texts: list[str], browser: httpx.Client
) -> Iterator[SentRequest]:
    """Send requests to two instances: keys to both, cursors and the session from each to the other."""
    for first, second in ((old, new), (new, old)):
        for text in texts:
            with first.client(text) as client, second.client(text) as other_client:
                page = client.get("/pets?limit=1")
                yield SentRequest(stage, "a key", page.status_code)
                link = urlsplit(page.links["next"]["url"])
                follow = other_client.get(f"/pets?{link.query}")
                yield SentRequest(stage, "a cursor of the other instance", follow.status_code)
        for service in (first, second):
            yield SentRequest(stage, "a session", browser.get(f"{service.url}/admin/").status_code)


@NEEDS_POSTGRESQL
def test_no_request_fails_while_each_instance_is_replaced_by_one_of_the_next_stage(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """At the end, every key works with only the new secrets."""
    sent: list[SentRequest] = []
    texts: list[str] = []
    with ExitStack() as stack:
        url = stack.enter_context(
            temporary_database(tmp_path_factory.mktemp("database"), migrated_database())
        )
        services = [stopped_service(tmp_path_factory.mktemp("stage"), url, **stage) for stage in STAGES]
        for service in services:
            stack.callback(service.stop)
        services[0].manage("shell", "--no-imports", "-c", FILL)
        services[0].start(1)
        browser = stack.enter_context(httpx.Client(timeout=30))
        sign_in(browser, services[0].url)
        for number, (old, new) in enumerate(pairwise(services)):
            texts.append(old.issue_high_limit_key("Acme"))
            new.start(1)
            sent += send_to_both(number, old, new, texts, browser)
            if number == 1:  # The old pepper may be removed when no key depends on it.
                wait_until(partial(is_old_pepper_unused, old))
            old.stop()
        (only,) = json.loads(services[-1].manage("list_peppers", "--json"))
    assert (only["number"], only["keys"]) == (2, len(texts))
    assert [request for request in sent if request.status != 200] == []
    assert len(sent) == 2 * (2 * (1 + 2 + 3) + 3 * 2)


def is_old_pepper_unused(service: Service) -> bool:
    oldest = json.loads(service.manage("list_peppers", "--json"))[0]
    return (oldest["number"], oldest["keys"]) == (1, 0)
