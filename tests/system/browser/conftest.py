"""A browser and a running service with demo data."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Response,
    ViewportSize,
    sync_playwright,
)

from tests.support.live import Service, live_service
from tests.support.servers import free_port

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
TIMEOUT = 15_000  # Milliseconds per step, on a busy machine.
PASSWORD = "a long pass phrase of the tests"
DEMO_KEY = "psk_live_demo"  # An unknown key.
BLANK_PATH = "/healthz"  # A page without scripts.
GROUPS = ("Viewer", "Support", "Stock", "Owner")

MAKE_STAFF = f"""
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
password = make_password({PASSWORD!r})  # Once, since it is slow.
for name in {GROUPS!r}:
    user = User.objects.create(username=name.lower(), password=password, is_staff=True)
    user.groups.add(Group.objects.get(name=name))
User.objects.create(username="root", password=password, is_staff=True, is_superuser=True)
"""
SIGN_IN = """
from django.contrib.auth.models import User
from tests.support.members import sign_in
print(sign_in(User.objects.get(username={!r})).cookies["sessionid"].value)
"""

FILL_STATUS = """
import time
from petstore.health.models import Impact, Incident, StatusDay
today = int(time.time()) // 86400
days = [(1440, 0, 0), (1380, 0, 0), (1430, 10, 0), (1430, 0, 10)]
StatusDay.objects.bulk_create(StatusDay(today - 20 - ago, *day, *day) for ago, day in enumerate(days))
for impact in Impact:
    updates = Incident.objects.create(title=f"Slow {impact}", impact=impact).updates
    updates.create(text="We look.")
    if impact != Impact.MAJOR:
        updates.create(stage="resolved", text="Done.")
"""

Open = Callable[..., Page]


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """A headless Chromium. Playwright occupies the event loop of the test thread."""
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
    """A service with demo data and a user in each group of staff.

    It is at localhost, since browsers accept no passkeys for an IP address.
    """
    url = f"http://localhost:{(port := free_port())}"
    settings = {
        "PORT": str(port), "BASE_URL": f"{url}/v1", "DEMO_KEY": DEMO_KEY, "SIGN_UP": "open",
        "WEBHOOK_WORKERS": "0",
    }  # fmt: skip
    with live_service(tmp_path_factory.mktemp("shop"), workers=1, **settings) as service:
        service.url = url
        service.manage("seed_demo", "--pets", "300")
        service.manage("shell", "--no-imports", "-c", MAKE_STAFF + FILL_STATUS)
        yield service


class Profiles:
    """A browser profile per member of staff and one for anonymous users, each with one page.

    Tests share them: a new profile has to start a process and load every file, which takes longer than most
    tests.
    """

    def __init__(self, chromium: Browser, shop: Service) -> None:
        self.chromium = chromium
        self.shop = shop
        self.pages: dict[str, Page] = {}
        self.problems: list[str] = []

    def page(self, name: str) -> Page:
        """Return the page of a user; without a name, the anonymous one."""
        if name not in self.pages:
            context = self.chromium.new_context(
                base_url=self.shop.url, permissions=["clipboard-read", "clipboard-write"]
            )
            context.set_default_timeout(TIMEOUT)
            context.on("console", self.record_message)
            context.on("weberror", lambda error: self.problems.append(f"exception: {error.error}"))
            context.on("response", self.record_failure)
            if name:
                sign_in(context, self.shop, name)
            self.pages[name] = context.new_page()
        return self.pages[name]

    def record_message(self, message: ConsoleMessage) -> None:
        # The browser also logs a 4xx as an error, which a page may expect.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            self.problems.append(f"{message.type}: {message.text}")

    def record_failure(self, response: Response) -> None:
        if response.status >= 500 or (response.status == 404 and "/static/" in response.url):
            self.problems.append(f"{response.status}: {response.url}")

    def reset(self) -> list[str]:
        """Reset storage and pages; return the problems that occurred."""
        for name, page in self.pages.items():
            page.unroute_all()
            if not name:
                page.context.clear_cookies()
            if page.url not in {"about:blank", f"{self.shop.url}{BLANK_PATH}"}:
                page.goto(BLANK_PATH)
                page.evaluate("localStorage.clear(); sessionStorage.clear()")
        found, self.problems = self.problems, []
        return found


@pytest.fixture(scope="package")
def profiles(chromium: Browser, shop: Service) -> Profiles:
    return Profiles(chromium, shop)


@pytest.fixture
def open_page(profiles: Profiles) -> Iterator[Open]:
    """Open pages as a member of staff or anonymously. No page may report a problem.

    A problem is an error or warning on the console (a violation of the Content-Security-Policy is one), an
    exception in a script, or a 5xx.
    """

    def open_(path: str = "", *, as_: str = "", narrow: bool = False, dark: bool = False) -> Page:
        page = profiles.page(as_)
        page.set_viewport_size(NARROW if narrow else WIDE)
        page.emulate_media(color_scheme="dark" if dark else "light")
        if path:
            page.goto(path)
        return page

    yield open_
    problems = profiles.reset()
    assert not problems, problems


@pytest.fixture
def plain_page(chromium: Browser, shop: Service) -> Iterator[Page]:
    """A page of a browser that runs no scripts."""
    with chromium.new_context(base_url=shop.url, java_script_enabled=False, viewport=WIDE) as context:
        yield context.new_page()


def sign_in(context: BrowserContext, shop: Service, name: str) -> None:
    """Give the browser a new session of the user."""
    session = shop.manage("shell", "--no-imports", "-c", SIGN_IN.format(name)).strip()
    context.add_cookies([{"name": "sessionid", "value": session, "url": shop.url}])
