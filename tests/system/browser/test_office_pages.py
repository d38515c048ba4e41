"""The main pages of the back office pass axe-core and the CSP, in every theme and width."""

import json
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from tests.support.live import Service
from tests.support.thorough import some_pages
from tests.system.browser.conftest import Open

PAGES = [
    "", "inventory/order/", "inventory/pet/", "inventory/pet/1/change/", "inventory/pet/add/",
    "inventory/pet/import/", "inventory/pet/export/", "inventory/category/", "accounts/account/",
    "accounts/account/1/change/", "accounts/account/1/what-if/", "accounts/account/1/suspend/",
    "accounts/account/1/change-plan/", "accounts/account/1/invite/", "accounts/apikey/",
    "accounts/apikey/add/",
    "accounts/apikey/1/change/", "accounts/apikey/1/revoke/", "accounts/apikey/1/history/",
    "accounts/apikey/1/rotate/", "accounts/plan/", "accounts/plan/free/change/",
    "accounts/plan/free/what-if/", "accounts/event/", "accounts/event/1/change/", "accounts/rejection/",
    "health/incident/", "health/incident/add/", "backoffice/auditentry/", "auth/user/",
    "auth/user/make-staff/", "auth/user/1/change/", "auth/group/", "auth/group/1/delete/",
]  # fmt: skip
CONTRAST = "color-contrast"
# Checking colour contrast is slow, so axe checks it for one visible element of each style.
RUN_AXE = """async (contrast) => {
    const fills = new Map();
    const filled = (element) => {
        if (!element) return "";
        if (!fills.has(element)) {
            const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
            const own = `${backgroundColor} ${backgroundImage} ${opacity}`;
            const parentFill = filled(element.parentElement);
            fills.set(element, parentFill.endsWith(own) ? parentFill : `${parentFill},${own}`);
        }
        return fills.get(element);
    };
    const isText = ({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim();
    const styles = new Set();
    for (const candidate of document.querySelectorAll("body *")) {
        candidate.removeAttribute("data-contrast-sample");
        if (candidate.matches(":has(:not(option))") && ![...candidate.childNodes].some(isText)) continue;
        if (!candidate.checkVisibility()) continue;
        const { color, fontSize, fontWeight, position } = getComputedStyle(candidate);
        const style = [candidate.disabled, color, fontSize, fontWeight, position, filled(candidate)].join();
        if (!styles.has(style)) candidate.setAttribute("data-contrast-sample", "");
        styles.add(style);
    }
    // Preloading would add styles that the CSP forbids. Listing the elements that pass would be slow.
    const options = { preload: false, resultTypes: ["violations"] };
    const rules = { [contrast]: { enabled: false }, "target-size": { enabled: true } };
    const otherResults = await axe.run({ ...options, rules });
    const samples = { include: [["[data-contrast-sample]"]] };
    const contrastResults = await axe.run(samples, { ...options, runOnly: [contrast] });
    return [...otherResults.violations, ...contrastResults.violations];
}"""


def find_problems(page: Page) -> list[str]:
    """Return the violations of axe-core's rules, and whether the page scrolls horizontally.

    The rules include best practices and the size of targets.
    """
    page.evaluate(AXE_SCRIPT)
    problems = [
        f"{found['id']}: {json.dumps([node['target'] for node in found['nodes']][:5])} {found['help']}"
        for found in page.evaluate(RUN_AXE, CONTRAST)
    ]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        problems.append("The page scrolls horizontally.")
    return problems


def check_both_themes(page: Page) -> None:
    """Check a page that only a submitted form leads to."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert find_problems(page) == [], page.url


@pytest.fixture(scope="module", autouse=True)
def customer(shop: Service) -> None:
    """An account with a key."""
    shop.issue("Acme Pets", "pro")


@pytest.mark.parametrize(
    ("display", "pages"),
    [({}, some_pages(PAGES)), ({"narrow": True, "dark": True}, some_pages([*PAGES[1:], PAGES[0]]))],
    ids=["wide light", "narrow dark"],
)
def test_pages_violate_neither_accessibility_rules_nor_the_csp(
    open_page: Open, display: dict[str, bool], pages: list[str]
) -> None:
    page = open_page(as_="root", **display)
    findings = {}
    for path in pages:
        response = page.goto(f"/admin/{path}")
        assert response is not None
        assert response.status == 200, path
        if found := find_problems(page):
            findings[path] = found
    assert not findings, json.dumps(findings, indent=1)


def test_pages_of_a_password_link_are_accessible(open_page: Open) -> None:
    owner = open_page("/admin/auth/user/add/", as_="owner", narrow=True)
    owner.get_by_label("Username").fill("linked")
    owner.get_by_role("checkbox", name="Viewer:").check()
    owner.get_by_role("button", name="Save").click()
    owner.get_by_role("button", name="Copy the link").click()
    expect(owner.get_by_text("Copied", exact=True)).to_be_visible()
    check_both_themes(owner)
    path = urlsplit(owner.evaluate("navigator.clipboard.readText()")).path
    user = open_page(path, narrow=True, dark=True)
    expect(user.get_by_role("button", name="Set password")).to_be_visible()
    assert not find_problems(user)
    user.context.clear_cookies()
    user.goto(path.rstrip("/") + "x/")
    expect(user.get_by_text("This link is no longer valid")).to_be_visible()
    assert not find_problems(user)
