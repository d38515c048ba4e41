"""The home page, the guides and the reference: use and accessibility."""

import base64
import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from petstore.site.docs import GUIDES
from petstore.site.reference import SAMPLES
from tests.support.live import Service
from tests.support.thorough import some, some_pages
from tests.system.browser.conftest import DEMO_KEY, Open, Profiles
from tests.system.browser.test_office_pages import find_problems

PAGES = ["/", *(f"/docs/{name}" for name in GUIDES), "/status", "/nothing", "/docs"]
PAGES += [f"/docs/operations/{name}" for name in SAMPLES]
PAGES += [
    "/docs/search?q=pets",
    "/docs/search?q=paginat",
    "/docs/search?q=giraffe",
    "/docs/search",
    "/docs/webhook",
]
SIGN_IN_PAGES = ["/account/login/", "/account/login/help/", "/account/password/reset/"]
MIN_TARGET = 24  # CSS pixels (WCAG 2.5.8). Links in sentences are exempt.
# Targets that are too small. A link is in a sentence if its block has other text.
TARGETS = "a, button, input, summary"
SMALL_TARGETS = """(all, minimum) => all.filter((one) => {
    const { width, height } = one.getBoundingClientRect();
    const block = one.closest("p, li, td, dd, dt, figcaption") ?? one;
    const isText = ({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim();
    const inSentence = [...block.childNodes].some(isText);
    return one.checkVisibility() && width && !inSentence && (width < minimum || height < minimum);
}).map((one) => one.outerHTML)"""
# The brightness of an image in its middle, and of its edges within the border.
BRIGHTNESS = """async (source) => {
    const image = Object.assign(new Image(), { src: source });
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    return [0.5, 3 / image.width, 1 - 3 / image.width].map((share) => {
        const [red, green, blue] = context.getImageData(image.width * share, image.height / 2, 1, 1).data;
        return red + green + blue;
    });
}"""
# Scrollable elements that the keyboard can't reach, or that have no name.
UNREACHABLE = """() => [...document.querySelectorAll("main *")].filter((one) => {
    const { overflowX } = getComputedStyle(one);
    const scrolls = one.scrollWidth > one.clientWidth && ["auto", "scroll"].includes(overflowX);
    const isNamed = one.ariaLabel || document.getElementById(one.getAttribute("aria-labelledby"));
    return scrolls && !(one.tabIndex === 0 && one.role && isNamed);
}).map((one) => one.outerHTML.slice(0, 200))"""
BOXES = "all => all.map((one) => JSON.stringify(one.getBoundingClientRect()))"
DISPLAYS = [
    pytest.param({"narrow": narrow, "dark": dark}, id=f"{width} {theme}")
    for narrow, width in ((False, "wide"), (True, "narrow"))
    for dark, theme in ((False, "light"), (True, "dark"))
]


def change(page: Page, path: str, old: str, new: str) -> None:
    """Replace text in the body of all further responses for this page."""

    def changed(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, body=response.text().replace(old, new))

    page.route(path, changed)


@pytest.mark.parametrize("display", some(DISPLAYS, 3))
def test_public_pages_are_accessible_and_logo_and_search_stay_in_place(
    open_page: Open, display: dict[str, bool]
) -> None:
    page = open_page(**display)
    findings = {}
    boxes = set()
    paths = PAGES + SIGN_IN_PAGES
    for path in some_pages(paths[display["dark"] :] + paths[: display["dark"]]):
        page.goto(path)
        found = find_problems(page)
        if path in PAGES:
            found += page.locator(TARGETS).evaluate_all(SMALL_TARGETS, MIN_TARGET)
            found += page.evaluate(UNREACHABLE)
            boxes.add(tuple(page.locator(".brand, .top input").evaluate_all(BOXES)))
        if found:
            findings[path] = found
    assert not findings, json.dumps(findings, indent=1)
    (box,) = boxes
    assert len(box) == 2


def test_response_samples_are_never_truncated(open_page: Open) -> None:
    page = open_page(narrow=True)
    for path in ("/", "/docs/account", "/docs/errors"):
        page.goto(path)
        cut = "one => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight"
        samples = page.locator("pre.output:visible").all()
        assert samples
        assert not any(sample.evaluate(cut) for sample in samples), path


def test_menu_is_collapsed_on_narrow_pages_and_sticky_on_wide_ones(open_page: Open) -> None:
    for narrow in (True, False):
        page = open_page("/docs/orders", narrow=narrow)
        link = page.get_by_role("link", name="Rate limits", exact=True).first
        expect(link).to_be_visible(visible=not narrow)
        if narrow:
            page.get_by_text("All guides and operations").click()
        else:
            page.mouse.move(800, 400)  # Over the content, not over the menu.
            page.mouse.wheel(0, 10_000)
            expect(link).to_be_in_viewport()
        link.click()
        expect(page).to_have_title("Rate limits · Pet Store")


def test_demo_home_page_shows_the_response_of_the_first_call(open_page: Open, shop: Service) -> None:
    key = str(shop.issue("Demo", "free", "--scopes", "pets:read")["key"])
    page = open_page("/")
    shown, explanation = page.get_by_role("region", name="The response"), page.locator("#answer p")
    expect(shown).to_contain_text("HTTP/1.1 401 Unauthorized")
    expect(explanation).to_contain_text("The demo key no longer works.")
    change(page, "/", DEMO_KEY, key)
    page.reload()
    expect(shown).to_contain_text("HTTP/1.1 200 OK\nX-RateLimit-Remaining: 59")
    pets = json.loads(shown.inner_text().partition("\n\n")[2])
    assert [pet["status"] for pet in pets] == ["available"] * 3
    expect(explanation).to_have_text(
        "This page has just sent this request with the demo key. The response:"
    )
    assert page.locator("[id='set-key.sh']").inner_text() == f"export PETSTORE_KEY='{key}'"
    shop.send(key, 59, threads=4)
    page.reload()
    expect(shown).to_contain_text("HTTP/1.1 429 Too Many Requests")
    seconds = re.findall(r"Retry-After: (\d+)", shown.inner_text())[0]
    expect(explanation).to_contain_text("The demo key has used up its requests for this minute.")
    expect(explanation).to_contain_text(f"Reload the page in {seconds} second")


DEMO_RESPONSES = [
    (429, "daily_quota_exceeded", "7200", "used up its requests for today. Reload the page after "),
    (
        429,
        "api_key_banned",
        "300",
        "is banned for a while, because a client ignored 429. Reload the page after ",
    ),
    (403, "account_suspended", "", "The service rejected the demo key: In short."),
    (
        503,
        "service_unavailable",
        "5",
        "can't serve this request at the moment. Reload the page in 5 seconds.",
    ),
    (502, "", "", "can't serve this request at the moment. Reload the page in a minute."),
]


def test_demo_home_page_explains_a_failed_first_call(open_page: Open, profiles: Profiles) -> None:
    page = open_page()
    responses = iter(DEMO_RESPONSES)

    def respond(route: Route) -> None:
        status, code, wait, _ = next(responses)
        body = json.dumps({"code": code, "message": "In short."}) if code else "<html>"
        route.fulfill(status=status, body=body, headers={"Retry-After": wait} if wait else {})

    page.route("**/v1/pets?*", respond, times=len(DEMO_RESPONSES))
    for *_, text in DEMO_RESPONSES:
        page.goto("/")
        expect(page.locator("#answer p")).to_contain_text(text)
    assert len(profiles.problems) == 2  # The 5xx.
    profiles.problems.clear()
    page.route("**/v1/pets?*", lambda route: route.abort())
    page.goto("/")
    expect(page.locator("#answer p")).to_contain_text("The service did not respond.")
    expect(page.get_by_role("region", name="The response")).to_be_hidden()


def test_examples_are_tabs_with_a_stored_language(open_page: Open) -> None:
    page = open_page("/docs/quickstart")
    group = page.locator(".examples").first
    expect(group.get_by_role("tab").first).to_have_attribute("aria-selected", "true")
    group.get_by_role("tab", name="Python", exact=True).click()
    for one in page.locator(".examples").all():
        expect(one.get_by_role("tabpanel")).to_have_attribute("id", re.compile(r"\.py-example$"))
    page.goto("/docs/retries")
    python = page.get_by_role("tab", name="Python", exact=True)
    expect(python).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Tab")
    python.press("ArrowRight")
    expect(page.get_by_role("tab", name="JavaScript", exact=True)).to_be_focused()
    expect(page.get_by_role("tabpanel")).to_have_attribute("id", "retries.mjs-example")


def test_all_languages_are_visible_without_scripts(plain_page: Page) -> None:
    plain_page.goto("/docs/orders")
    for language in ("curl", "Python", "JavaScript"):
        expect(plain_page.get_by_text(language, exact=True)).to_be_visible()
    expect(plain_page.get_by_role("button", name="Copy")).to_have_count(0)


def test_search_is_focused_by_slash_and_shows_results_while_typing(open_page: Open) -> None:
    page = open_page("/docs/orders", narrow=True)
    page.keyboard.press("/")
    search = page.get_by_role("searchbox", name="Search the documentation")
    expect(search).to_be_focused()
    search.press_sequentially("cancel ord")
    hits = page.locator(".hits")
    expect(hits.get_by_role("status")).to_have_text(re.compile(r"^\d+ results$"))
    assert find_problems(page) == []
    search.press("ArrowDown")
    expect(hits.get_by_role("link").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(hits).to_be_hidden()
    expect(search).to_be_focused()
    search.fill("xqzkw")
    expect(hits.get_by_role("status")).to_have_text("No results.")
    search.fill("get /events")
    hits.get_by_role("link", name="List events: GET /events").click()
    page.wait_for_url("**/docs/operations/listEvents")


def test_scrollable_content_has_a_shadow_at_the_edge_that_hides_more(open_page: Open) -> None:
    page = open_page("/docs/quickstart", narrow=True)
    code = page.get_by_role("region", name="Example: client_place_order.py")
    code.evaluate("""one => {
        one.textContent = "x".repeat(999);
        Object.assign(one.style, { color: "transparent", whiteSpace: "nowrap" });
    }""")
    for share, edges in ((0, [False, True]), (0.5, [True, True]), (1, [True, False])):
        code.evaluate("(one, share) => one.scrollTo(one.scrollWidth * share, 0)", share)
        shot = base64.b64encode(code.screenshot()).decode()
        middle, *ends = page.evaluate(BRIGHTNESS, f"data:image/png;base64,{shot}")
        assert [end < middle - 5 for end in ends] == edges
