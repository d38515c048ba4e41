"""A browser, and the shop that it looks at."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Response, sync_playwright

from tests.support.live import Service, live_service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 390, "height": 844}
PATIENCE = 15_000  # Milliseconds that a step may take on a busy machine.
PASSWORD = "a long pass phrase of the tests"
DEMO_KEY = "psk_live_demo"  # Nobody's.
GROUPS = ("Viewer", "Support", "Stock", "Owner")

MAKE_STAFF = f"""
from django.contrib.auth.models import Group, User
for name in {GROUPS!r}:
    user = User.objects.create_user(name.lower(), password={PASSWORD!r}, is_staff=True)
    user.groups.add(Group.objects.get(name=name))
User.objects.create_superuser("root", password={PASSWORD!r})
"""

Open = Callable[..., Page]


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """A headless Chromium; while Playwright runs, the thread of the tests can run no other event loop."""
    if CHROMIUM is None:
        assert os.environ.get("CI") != "true", "CI must test in a browser: install chromium."
        pytest.skip("No Chromium is installed, so nothing was tested in a browser.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with demo data and a member of each group of staff."""
    with live_service(tmp_path_factory.mktemp("shop"), workers=2, DEMO_KEY=DEMO_KEY) as service:
        service.manage("seed_demo", "--pets", "300")
        service.manage("shell", "--no-imports", "-c", MAKE_STAFF)
        yield service


@pytest.fixture(scope="package")
def signed_in(shop: Service) -> dict[str, Any]:
    """The cookies of each member of staff who has signed in: more than ten a minute are refused."""
    return {}


@pytest.fixture
def open_page(chromium: Browser, shop: Service, signed_in: dict[str, Any]) -> Iterator[Open]:
    """Opens pages of the shop, each in a browser profile of its own; no page may report a problem.

    A problem is an error or warning on the console (a violation of the Content-Security-Policy is one), an
    exception in a script, or a 5xx.
    """
    problems: list[str] = []
    contexts = []

    def note(message: ConsoleMessage) -> None:
        # The browser reports a 4xx as an error too; a page may well answer one.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            problems.append(f"{message.type}: {message.text}")

    def check(response: Response) -> None:
        if response.status >= 500 or (response.status == 404 and "/static/" in response.url):
            problems.append(f"{response.status}: {response.url}")

    def open_(path: str = "", *, as_: str = "", narrow: bool = False, dark: bool = False) -> Page:
        context = chromium.new_context(
            base_url=shop.url,
            viewport=NARROW if narrow else WIDE,  # type: ignore[arg-type]  # A dict will do.
            color_scheme="dark" if dark else "light",
            permissions=["clipboard-read", "clipboard-write"],
            storage_state=signed_in.get(as_),
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
        page.on("response", check)
        if as_ and as_ not in signed_in:
            sign_in(page, as_)
            signed_in[as_] = context.storage_state()
        if path:
            page.goto(path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not problems, problems


def sign_in(page: Page, name: str) -> None:
    """Sign in as a member of staff."""
    page.goto("/admin/login/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/admin/")
