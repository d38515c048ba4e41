"""The home page, the guides and the reference: use and accessibility."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from petstore.site.docs import GUIDES
from tests.support.live import Service
from tests.support.thorough import some
from tests.system.browser.conftest import DEMO_KEY, Open
from tests.system.browser.test_office_pages import serious_findings

PAGES = ["/", *(f"/docs/{name}" for name in GUIDES), "/docs/search?q=pets", "/status", "/nothing"]
PAGES += ["/admin/login/", "/admin/sign-in-help/"]
LOOKS = [
    pytest.param({"narrow": narrow, "dark": dark}, id=f"{width} {look}")
    for narrow, width in ((False, "wide"), (True, "narrow"))
    for dark, look in ((False, "light"), (True, "dark"))
]


def faults(page: Page) -> list[str]:
    """Return the accessibility problems of a page."""
    found = serious_findings(page)
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("The page scrolls sideways.")
    return found


def change(page: Page, path: str, old: str, new: str) -> None:
    """Replace a text in the body of this page from now on; keep its headers."""

    def changed(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace(old, new))

    page.route(path, changed)


@pytest.mark.parametrize("look", some(LOOKS, 3))
def test_no_page_has_a_serious_finding(open_page: Open, look: dict[str, bool]) -> None:
    page = open_page(**look)
    findings = {}
    for path in some(PAGES[look["dark"] :] + PAGES[: look["dark"]], 2):  # Outside CI, each in one theme.
        page.goto(path)
        if found := faults(page):
            findings[path] = found
    assert not findings, json.dumps(findings, indent=1)


@pytest.mark.parametrize("look", some([LOOKS[3], LOOKS[0]], 2))  # A long page, slow to check.
def test_reference_has_no_serious_finding_with_every_operation_open(
    open_page: Open, look: dict[str, bool]
) -> None:
    page = open_page(**look)
    # Opening one after the other would render the open ones again each time.
    closed, opened = (
        "{&quot;deepLinking&quot;",
        "{&quot;docExpansion&quot;: &quot;full&quot;, &quot;deepLinking&quot;",
    )
    change(page, "/docs", closed, opened)
    page.goto("/docs")
    page.locator(".opblock .responses-wrapper").nth(9).wait_for()
    assert page.locator(".opblock").count() == 10
    assert page.locator("main").count() == 1
    for operation in page.locator(".opblock").all():
        expect(operation.locator(".sample .example code").first).to_be_visible()
        operation.locator("details").first.evaluate("one => { one.open = true }")  # Its others look alike.
    assert not faults(page)


def test_menu_is_collapsed_on_narrow_pages_and_sticky_on_wide_ones(open_page: Open) -> None:
    for narrow in (True, False):
        page = open_page("/docs/orders", narrow=narrow)
        link = page.get_by_role("link", name="Rate limits", exact=True).first
        expect(link).to_be_visible(visible=not narrow)
        if narrow:
            page.get_by_text("All guides and search").click()
        else:
            page.mouse.wheel(0, 10_000)
            expect(link).to_be_in_viewport()
        link.click()
        expect(page).to_have_title("Rate limits · Pet Store")


def test_reference_shows_a_sample_beside_each_open_operation(open_page: Open) -> None:
    page = open_page("/docs")
    expect(page.locator(".opblock-tag").first).to_contain_text("pets")
    expect(page.locator("#reference")).not_to_contain_text("is loading")
    assert page.locator(".model-container").count() == 0  # The schemas come last, collapsed.
    add, order = (page.locator(f"[id$='-{name}']") for name in ("createPet", "placeOrder"))
    for opened in (add, order, add, add):  # The last but one closes it.
        opened.locator(".opblock-summary-control").click()
    add.get_by_role("tab", name="Python").click()
    for operation, said in ((add, "Biscuit"), (order, "order.json")):
        expect(operation.locator(".sample").get_by_role("tabpanel")).to_contain_text(said)
        parameters, sample = (
            operation.locator(part).bounding_box() for part in (".parameters-container", ".sample")
        )
        assert parameters
        assert sample
        assert parameters["x"] + parameters["width"] <= sample["x"]
        fits = "table => table.offsetWidth <= table.parentElement.clientWidth"
        assert operation.locator(".responses-table").first.evaluate(fits)
    expect(page.locator("#samples")).to_be_hidden()


def test_demo_home_page_shows_the_response_of_the_first_call(open_page: Open, shop: Service) -> None:
    key = str(shop.issue("Demo", "free", "--scopes", "pets:read")["key"])
    page = open_page("/")
    shown = page.get_by_role("region", name="The response")
    expect(shown).to_contain_text("HTTP/1.1 401 Unauthorized")
    change(page, "/", DEMO_KEY, key)
    page.reload()
    expect(shown).to_contain_text("HTTP/1.1 200 OK\nX-RateLimit-Remaining: 59")
    pets = json.loads(shown.inner_text().partition("\n\n")[2])
    assert [pet["status"] for pet in pets] == ["available"] * 3
    assert page.locator("[id='set-key.sh']").inner_text() == f"export PETSTORE_KEY='{key}'"


def authorize(page: Page, key: str) -> None:
    """Enter the key in the reference."""
    dialog = open_dialog(page)
    dialog.locator("input").fill(key)
    dialog.get_by_role("button", name="Apply credentials").click()
    close(dialog)


def open_dialog(page: Page) -> Locator:
    page.get_by_role("button", name="Authorize").click()
    return page.locator(".dialog-ux")


def close(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Close").first.click()


def execute(page: Page, operation: str, body: dict[str, Any] | None = None) -> Locator:
    """Try an operation; return its block with the response."""
    block = page.locator(f"[id$='-{operation}']")
    block.locator(".opblock-summary-control").click()
    block.get_by_role("button", name="Try it out").click()
    if body is not None:
        block.locator("textarea.body-param__text").fill(json.dumps(body))
    block.get_by_role("button", name="Execute").click()
    block.locator(".live-responses-table").wait_for()
    return block


def answer(block: Locator) -> tuple[str, Any]:
    """Return status and body of the displayed response."""
    live = block.locator(".live-responses-table")
    status = live.locator("tbody td.response-col_status").inner_text().split()[0]
    return status, json.loads(live.locator(".highlight-code code").first.inner_text())


def test_reference_authorizes_and_tries_operations(open_page: Open, shop: Service) -> None:
    key = str(shop.issue("Reader", "pro")["key"])
    page = open_page("/docs")
    authorize(page, key)
    dialog = open_dialog(page)
    assert not serious_findings(page)
    close(dialog)
    status, pets = answer(execute(page, "listPets"))
    assert status == "200"
    assert len(pets) == 20
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request))  # noqa: PLW0108  Built-in methods won't do.
    block = execute(page, "createPet", {"name": "Biscuit", "categoryId": 1})
    status, made = answer(block)
    assert status == "201"
    assert made["name"] == "Biscuit"
    with shop.client(key) as client:
        assert client.get(f"/pets/{made['id']}").json() == made
    assert not faults(page)
    block.locator("textarea.body-param__text").fill('{"name": "Waffles", "categoryId": 1}')
    block.get_by_role("button", name="Execute").click()
    expect(block.locator(".live-responses-table")).to_contain_text("Waffles")
    assert answer(block)[0] == "201"
    posts = [request.headers for request in sent if request.method == "POST"]
    assert ["idempotency-key" in headers for headers in posts] == [False] * 2  # Examples are not prefilled.


def test_reference_forgets_the_key_on_leaving(open_page: Open, shop: Service) -> None:
    page = open_page("/docs")
    authorize(page, str(shop.issue("Forgotten", "free")["key"]))
    page.reload()
    status, body = answer(execute(page, "listPets"))
    assert (status, body["code"]) == ("401", "missing_api_key")
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0


def test_reference_reports_a_missing_document(open_page: Open) -> None:
    page = open_page()
    page.route("**/openapi.json", lambda route: route.fulfill(status=404))
    page.goto("/docs")
    expect(page.locator("#reference")).to_contain_text("Reload the page to try again. (Status 404.)")


def test_first_tab_stop_skips_to_the_content(open_page: Open) -> None:
    page = open_page("/docs/errors")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.url.endswith("/docs/errors#content")


def test_examples_are_tabs_with_a_stored_language(open_page: Open) -> None:
    page = open_page("/docs/quickstart")
    group = page.locator(".examples").first
    expect(group.get_by_role("tab", name="curl")).to_have_attribute("aria-selected", "true")
    group.get_by_role("tab", name="Python").click()
    for one in page.locator(".examples").all():
        expect(one.get_by_role("tabpanel")).to_have_attribute("id", re.compile(r"\.py-example$"))
    page.goto("/docs/retries")
    expect(page.get_by_role("tab", name="Python")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Tab")
    page.get_by_role("tab", name="Python").press("ArrowRight")
    expect(page.get_by_role("tab", name="JavaScript")).to_be_focused()
    expect(page.get_by_role("tabpanel")).to_have_attribute("id", "retries.mjs-example")


def test_example_is_copied_unchanged(open_page: Open) -> None:
    page = open_page("/docs/orders")
    panel = page.get_by_role("tabpanel")
    panel.get_by_role("button", name="Copy").click()
    expect(panel.get_by_role("status")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == panel.locator("code").first.text_content()


def test_all_languages_are_visible_without_scripts(chromium: Browser, shop: Service) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{shop.url}/docs/orders")
    for language in ("curl", "Python", "JavaScript"):
        expect(page.get_by_text(language, exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
    context.close()
