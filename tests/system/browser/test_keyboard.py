"""The back office by keyboard: panels, focus and Escape."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.support.live import Service
from tests.system.browser.conftest import Open


def test_all_controls_are_reachable_by_keyboard(shop: Service, open_page: Open) -> None:
    page = open_page("/admin/", as_="owner")
    missing = {"Orders", "Pets", "Accounts", "API keys", "Plans"}
    for _ in range(60):
        page.keyboard.press("Tab")
        reached = page.evaluate("document.activeElement.textContent.trim()")
        missing = {name for name in missing if name not in reached}
        if not missing:
            return
    raise AssertionError(missing)


def test_mobile_menu_opens_by_keyboard(open_page: Open) -> None:
    page = open_page("/admin/", as_="owner", narrow=True)
    orders = page.get_by_role("link", name="Orders", exact=False).first
    opener, menu = page.get_by_role("button", name="Menu").last, page.locator("#nav-sidebar-inner")
    opener.focus()
    page.keyboard.press("Enter")
    expect(menu).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    orders.click()
    page.wait_for_url("**/inventory/order/**")


def open_filters(page: Page) -> tuple[Locator, Locator]:
    """Open the filters of a list by keyboard; return button and panel."""
    opener, sheet = (
        page.get_by_role("button", name="Filters"),
        page.locator("#changelist-filter"),
    )
    opener.focus()
    page.keyboard.press("Enter")
    expect_focus_in(sheet)
    return opener, sheet


def expect_focus_in(panel: Locator) -> None:
    expect(panel.locator(":focus")).to_have_count(1)


def test_filters_open_and_close_by_keyboard(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="owner")
    expect(page.get_by_role("button", name="Filters")).to_have_attribute("aria-expanded", "false")
    filters, sheet = open_filters(page)
    expect(filters).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(filters).to_be_focused()
    expect(filters).to_have_attribute("aria-expanded", "false")
    page.keyboard.press(" ")
    expect_focus_in(sheet)


def test_filters_close_only_when_the_focus_leaves_them(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="owner")
    _, sheet = open_filters(page)
    page.keyboard.press("Enter")  # Opens a select2 list, which takes the focus out of the panel.
    expect(page.locator(".select2-container--open").first).to_be_visible()
    expect(sheet).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".select2-container--open")).to_have_count(0)
    sheet.get_by_role("button", name="Close").focus()
    page.keyboard.press("Tab")
    expect(sheet).to_be_hidden()


def test_escape_in_a_filter_list_returns_the_focus_to_the_button(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="owner")
    filters, sheet = open_filters(page)
    page.keyboard.press("Enter")
    expect(page.locator(".select2-container--open").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(filters).to_be_focused()


def test_dropdown_filter_applies_on_change(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="owner")
    filters, _ = open_filters(page)
    page.keyboard.press("Enter")
    expect(page.locator(".select2-container--open").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/pet/?status__exact=*")
    filters.click()
    page.get_by_role("link", name="Clear all filters").click()
    page.wait_for_url(re.compile(r"/pet/\??$"))


def test_account_is_renamed_by_keyboard_in_a_few_steps(shop: Service, open_page: Open) -> None:
    shop.issue("Before", "free")
    page = open_page("/admin/accounts/account/?q=Before", as_="owner")
    page.get_by_role("link", name="Before", exact=True).click()
    page.wait_for_url("**/change/**")
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the form")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("After")
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("“After” was changed successfully")).to_be_visible()


def test_user_menu_and_theme_switch_work_by_keyboard(open_page: Open) -> None:
    page = open_page("/admin/", as_="owner")
    opener = page.get_by_role("button", name="owner")
    menu = page.locator("nav[x-show=openUserLinks]")
    opener.focus()
    for theme, tabs in (("dark", 1), ("light", 0)):
        page.keyboard.press("Enter")
        expect(menu).to_be_visible()
        expect_focus_in(menu)
        for _ in range(tabs):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("html")).to_have_css("color-scheme", theme)
        page.keyboard.press("Escape")
        expect(menu).to_be_hidden()
        expect(opener).to_be_focused()


def test_bulk_action_runs_by_its_button_but_not_by_enter_in_a_checkbox(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="stock")
    box = page.locator("input.action-select").first
    button = page.get_by_role("button", name="Return to stock...")
    expect(button).to_be_hidden()
    for key, expected in (("Enter", "No action selected."), ("Shift+Tab", "Return 1 pet to stock")):
        box.focus()
        page.keyboard.press(" ")
        expect(button).to_be_visible()
        if key == "Shift+Tab":  # The buttons precede the list.
            while not button.evaluate("button => button === document.activeElement"):
                page.keyboard.press(key)
        page.keyboard.press("Enter")
        expect(page.get_by_text(expected).first).to_be_visible()
