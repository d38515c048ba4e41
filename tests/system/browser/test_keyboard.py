"""The back office by keyboard: panels, focus and Escape."""

from playwright.sync_api import Locator, Page, expect

from tests.system.browser.conftest import Open


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


def test_filters_close_by_escape_and_when_the_focus_leaves_them(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="owner")
    expect(page.get_by_role("button", name="Filters")).to_have_attribute("aria-expanded", "false")
    filters, sheet = open_filters(page)
    expect(filters).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(filters).to_be_focused()
    page.keyboard.press(" ")
    expect_focus_in(sheet)
    page.keyboard.press("Enter")  # Opens a select2 list, which takes the focus out of the panel.
    open_list = page.locator(".select2-container--open")
    expect(open_list.first).to_be_visible()
    expect(sheet).to_be_visible()
    page.keyboard.press("Enter")
    expect(open_list).to_have_count(0)
    sheet.get_by_role("button", name="Close").focus()
    page.keyboard.press("Tab")
    expect(sheet).to_be_hidden()


def test_filters_that_are_opened_again_at_once_keep_the_focus(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="owner")
    opener, sheet = open_filters(page)
    page.evaluate(
        """async ([opener, sheet]) => {
            const press = (key) =>
                document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            press("Escape");
            for (let i = 0; i < 1000 && sheet.getClientRects().length; i++) await null;
            press(" ");  // Before any timer runs.
            await new Promise((resolve) => setTimeout(resolve, 50));
        }""",
        [opener.element_handle(), sheet.element_handle()],
    )
    expect(sheet).to_be_visible()
    expect_focus_in(sheet)


def test_filter_list_closes_by_escape_and_applies_on_change(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="owner")
    for key in ("Escape", "ArrowDown"):
        filters, sheet = open_filters(page)
        page.keyboard.press("Enter")
        expect(page.locator(".select2-container--open").first).to_be_visible()
        page.keyboard.press(key)
        if key == "Escape":
            expect(sheet).to_be_hidden()
            expect(filters).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/pet/?status__exact=*")


def test_first_tab_stops_skip_to_the_form(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/1/change/", as_="owner")
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the form")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Name")).to_be_focused()


def test_bulk_action_runs_by_its_button_but_not_by_enter_in_a_checkbox(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="stock")
    button = page.get_by_role("button", name="Return to stock...")
    expect(button).to_be_hidden()
    for presses_button, expected in ((False, "No action selected."), (True, "Return 1 pet to stock")):
        page.locator("input.action-select").first.focus()
        page.keyboard.press(" ")
        expect(button).to_be_visible()
        if presses_button:
            button.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text(expected).first).to_be_visible()
