"""The command palette by keyboard."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from tests.support.live import Service
from tests.system.browser.conftest import Open
from tests.system.browser.test_office_pages import find_problems


@pytest.fixture(scope="module", autouse=True)
def customer(shop: Service) -> dict[str, Any]:
    """An account with a key."""
    return shop.issue("Palette Pets", "pro")


def palette(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Search")


def results(page: Page) -> Locator:
    return palette(page).get_by_role("link")


def search(page: Page, text: str) -> None:
    page.keyboard.press("Control+k")
    expect(palette(page).get_by_role("searchbox")).to_be_focused()
    page.keyboard.insert_text(text)


@pytest.mark.parametrize("path", ["", "inventory/pet/1/change/", "accounts/apikey/add/"])
def test_palette_opens_and_closes_on_every_page(open_page: Open, path: str) -> None:
    page = open_page(f"/admin/{path}", as_="owner")
    for close in ("Escape", "Control+k"):
        search(page, "pets")
        expect(results(page).first).to_be_visible()
        page.keyboard.press(close)
        expect(palette(page)).to_be_hidden()


def test_enter_follows_the_first_result_before_it_is_displayed(open_page: Open) -> None:
    page = open_page("/admin/", as_="owner")
    search(page, "palette pets")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/admin/accounts/account/\d+/change/"))


def test_arrow_keys_move_through_the_results(open_page: Open) -> None:
    page = open_page("/admin/", as_="support")
    search(page, "palette pets")
    expect(results(page)).to_have_count(2)
    for key, focused in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowDown", 1), ("ArrowUp", 0)):
        page.keyboard.press(key)
        expect(results(page).nth(focused)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/apikey/add/?account=*")
    expect(page.get_by_role("combobox", name="Account")).to_contain_text("Palette Pets")


def test_typing_on_a_result_continues_the_search_and_closing_returns_the_focus(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/add/", as_="owner")
    page.get_by_label("Name").focus()
    search(page, "order")
    expect(results(page).first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.type("s")
    expect(palette(page).get_by_role("searchbox")).to_have_value("orders")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Name")).to_be_focused()


def test_late_results_leave_the_focus_on_the_first(open_page: Open) -> None:
    page = open_page("/admin/", as_="owner")
    page.keyboard.press("Control+k")
    expect(results(page).first).to_be_visible()
    late: list[Route] = []
    page.route("**/admin/search/", lambda route: late.append(route))  # noqa: PLW0108  Built-in methods won't do.
    with page.expect_request("**/admin/search/"):
        page.keyboard.insert_text("rejected")
    page.keyboard.press("ArrowDown")
    expect(results(page).first).to_be_focused()
    late[0].continue_()
    expect(results(page).first).to_contain_text("Rejected")
    expect(results(page).first).to_be_focused()


def test_pasted_key_is_truncated_before_it_is_sent(open_page: Open, customer: dict[str, Any]) -> None:
    page = open_page("/admin/", as_="owner")
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request))  # noqa: PLW0108  Built-in methods won't do.
    search(page, f"Authorization: Bearer {customer['key']}")
    expect(results(page).first).to_contain_text(customer["id"])
    asked = [f"{request.url} {request.post_data}" for request in sent if "/search/" in request.url]
    assert any(customer["id"] in text for text in asked)
    assert not any("psk_" in text or customer["key"][-20:] in text for text in asked)
    assert all("?" not in request.url for request in sent if "/search/" in request.url)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/admin/accounts/apikey/\d+/change/"))
    assert page.evaluate("JSON.stringify(localStorage)").find(customer["id"]) < 0


def test_palette_announces_the_number_of_results(open_page: Open) -> None:
    page = open_page("/admin/", as_="owner")
    search(page, "palette pets")
    expect(palette(page).get_by_role("status")).to_have_text("2 results")
    page.keyboard.insert_text(" of the north")
    expect(palette(page).get_by_role("status")).to_contain_text("No results.")
    expect(results(page)).to_have_count(0)
    page.keyboard.press("Enter")
    expect(palette(page)).to_be_visible()


def test_palette_reports_a_failed_search(open_page: Open) -> None:
    page = open_page("/admin/", as_="owner")
    page.route("**/admin/search/", lambda route: route.fulfill(status=403))
    search(page, "orders")
    expect(palette(page).get_by_role("status")).to_have_text(
        "The search failed. Try again or reload the page."
    )


def test_palette_is_accessible_and_has_a_button(open_page: Open) -> None:
    page = open_page("/admin/", as_="owner", narrow=True, dark=True)
    page.get_by_role("button", name="Menu").last.click()
    page.get_by_role("button", name="Search").first.click()
    page.keyboard.insert_text("pets")
    expect(results(page).first).to_have_text(re.compile("Pets"))
    assert not find_problems(page)
