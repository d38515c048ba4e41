"""The reference: its search, links of the former reference, and "Try it"."""

import json
import re
from typing import Any

from playwright.sync_api import Page, Request, expect

from tests.support.live import Service
from tests.system.browser.conftest import DEMO_KEY, Open
from tests.system.browser.test_office_pages import find_problems
from tests.system.browser.test_public_pages import change


def open_operation(open_page: Open, operation: str, key: str = "", **display: bool) -> Page:
    """Open the page of an operation, and enter the key; an empty one sends none."""
    page = open_page(f"/docs/operations/{operation}", **display)
    page.get_by_label("API key").fill(key)
    return page


def send(page: Page) -> tuple[str, Any]:
    """Send the form; return status and body of the response."""
    page.get_by_role("button", name=re.compile("^Send ")).click()
    expect(page.locator(".answer")).to_have_text(re.compile(r"^\d{3} "))
    return page.locator(".answer").inner_text()[:3], json.loads(
        page.locator("[id='response.json']").inner_text()
    )


def test_operations_are_filtered_while_typing(open_page: Open) -> None:
    page = open_page("/docs")
    box = page.get_by_role("searchbox", name="Search the operations")
    operations = page.locator(".operations li:visible")
    expect(operations).to_have_count(11)
    box.press_sequentially("cancel ord")
    expect(operations).to_have_text([re.compile("DELETE.*Cancel an order")])
    expect(page.get_by_role("heading", level=3).locator("visible=true")).to_have_text(
        [re.compile("^Orders")]
    )
    expect(page.locator("#filter-status")).to_have_text(re.compile("^1 of 11 operations"))
    box.fill("getpet")
    expect(operations).to_have_count(1)
    box.press("Enter")
    page.wait_for_url("**/docs/search?q=getpet")


def test_links_of_the_former_reference_lead_to_the_operation(open_page: Open) -> None:
    page = open_page("/docs#/orders/placeOrder")
    page.wait_for_url("**/docs/operations/placeOrder")
    page = open_page("/docs")
    page.evaluate("location.hash = '#/orders'")
    page.wait_for_url("**/docs#orders")
    page.evaluate("location.hash = '#/pets/removedOperation'")
    page.wait_for_url("**/docs#pets")
    page.evaluate("location.hash = '#/pets/listPets'")
    page.wait_for_url("**/docs/operations/listPets")


def test_request_is_sent_with_its_parameters(open_page: Open, shop: Service) -> None:
    page = open_operation(open_page, "listPets", str(shop.issue("Reader", "pro")["key"]))
    page.get_by_role("textbox", name="limit").fill("2")
    page.get_by_role("combobox", name="status").select_option("available")
    status, pets = send(page)
    assert status == "200"
    assert [pet["status"] for pet in pets] == ["available"] * 2
    shown = page.locator(".response dl").inner_text()
    for name in ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id"):
        assert name in shown
    assert page.locator("[id='request.sh']").inner_text().splitlines() == [
        f"curl -i -X GET '{shop.url}/v1/pets?limit=2&status=available' \\",
        '  -H "Authorization: Bearer $PETSTORE_KEY"',
    ]
    assert not find_problems(page)


def test_pet_is_added_with_a_generated_idempotency_key(open_page: Open, shop: Service) -> None:
    key = str(shop.issue("Writer", "pro")["key"])
    page = open_operation(open_page, "createPet", key)
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request))  # noqa: PLW0108  Built-in methods won't do.
    page.get_by_role("textbox", name="Body").fill('{"name": "Biscuit \\"B\\" [1]", "categoryId": 1}')
    status, pet = send(page)
    assert status == "201"
    assert "idempotency-key" not in sent[-1].headers
    with shop.client(key) as client:
        assert client.get(f"/pets/{pet['id']}").json() == pet
    page.get_by_role("button", name="Generate a key").click()
    assert send(page)[1]["id"] != pet["id"]
    expect(page.locator(".response dl")).not_to_contain_text("Idempotent-Replayed")
    page.get_by_role("button", name="Send POST").click()
    expect(page.locator(".response dl")).to_contain_text("Idempotent-Replayed")
    assert re.fullmatch("[0-9a-f]{32}", sent[-1].headers["idempotency-key"])


def test_numbers_are_not_rounded(open_page: Open) -> None:
    page = open_operation(open_page, "getOrder")
    body = '{"id":9223372036854775807,"list":[],"text":"a, {b}: \\"c\\""}'
    page.route(
        "**/v1/store/orders/1", lambda route: route.fulfill(body=body, content_type="application/json")
    )
    send(page)
    expect(page.locator("[id='response.json']")).to_have_text(
        '{\n  "id": 9223372036854775807,\n  "list": [],\n  "text": "a, {b}: \\"c\\""\n}',
        use_inner_text=True,
    )
    page.unroute_all()


def test_request_is_shown_in_each_language_and_copied(open_page: Open, shop: Service) -> None:
    page = open_operation(open_page, "createPet", "psk_live_typed")
    page.get_by_role("textbox", name="Body").fill(r"""{"name": "O'Malley \\"}""")
    page.get_by_role("textbox", name="Idempotency-Key").fill("one-attempt")
    send(page)
    for suffix, body in (
        ("sh", r"""'{"name": "O'\''Malley \\"}'"""),
        ("php", r"""'{"name": "O\'Malley \\\\"}'"""),
        ("go", r""" strings.NewReader("{\"name\": \"O'Malley \\\\\"}")"""),
    ):
        code = page.locator(f"[id='request.{suffix}']").text_content() or ""
        assert body in code
        assert f"{shop.url}/v1/pets" in code
        assert "one-attempt" in code
        assert "typed" not in code
    request = page.locator(".request")
    request.get_by_role("tab", name="Ruby").click()
    request.get_by_role("button", name="Copy").locator("visible=true").click()
    expect(request.locator("[role=status]:visible")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "request['Idempotency-Key'] = 'one-attempt'" in copied


def test_error_links_to_its_documentation(open_page: Open) -> None:
    page = open_operation(open_page, "getOrder")
    status, error = send(page)
    assert (status, error["code"]) == ("401", "missing_api_key")
    page.get_by_role("link", name="What to do about missing_api_key").last.click()
    page.wait_for_url("**/docs/errors#missing_api_key")


def test_send_failures_are_reported(open_page: Open) -> None:
    page = open_operation(open_page, "listPets", "psk_live_☃")
    page.get_by_role("button", name="Send GET").click()
    expect(page.locator(".answer")).to_contain_text("Not sent: the key or a header contains an invalid")
    page.get_by_label("API key").fill("")
    page.route("**/v1/pets", lambda route: route.abort())
    page.get_by_role("button", name="Send GET").click()
    expect(page.locator(".answer")).to_contain_text("No response: the service can't be reached.")
    page.unroute_all()


def test_order_that_was_just_placed_is_offered(open_page: Open, shop: Service) -> None:
    key = str(shop.issue("Offered")["key"])
    with shop.client(key) as client:
        pet = client.get("/pets?status=available&limit=1").json()[0]["id"]
    page = open_operation(open_page, "placeOrder", key)
    page.get_by_role("textbox", name="Body").fill(f'{{"petId": {pet}}}')
    order = send(page)[1]["id"]
    for operation in ("getOrder", "cancelOrder"):
        page.goto(f"/docs/operations/{operation}")
        expect(page.get_by_label("orderId")).to_have_value(str(order))
        expect(page.get_by_text("You created this one in this tab.")).to_be_visible()
    page.goto("/docs/operations/getPet")
    expect(page.get_by_text("You created this one in this tab.")).to_have_count(0)


def test_key_is_stored_for_the_tab_only(open_page: Open) -> None:
    page = open_operation(open_page, "listCategories", "psk_live_typed")
    assert send(page)[1]["code"] == "invalid_api_key"
    page.goto("/docs/operations/getOrder")
    expect(page.get_by_label("API key")).to_have_value("psk_live_typed")
    assert page.evaluate("JSON.stringify(localStorage)") == "{}"


def test_demo_key_is_filled_in_but_not_copied(open_page: Open, shop: Service) -> None:
    key = str(shop.issue("Demonstration", "free", "--scopes", "pets:read")["key"])
    page = open_page()
    change(page, "/docs/operations/listPets", DEMO_KEY, key)
    page.goto("/docs/operations/listPets")
    assert send(page)[0] == "200"
    assert page.evaluate("sessionStorage.length") == 0
    samples = page.locator(".beside > .examples")
    samples.get_by_role("tab", name="curl").click()
    example = samples.locator("code[id$='.sh']")
    expect(example).to_contain_text(key)
    samples.get_by_role("button", name="Copy").locator("visible=true").click()
    expect(samples.locator("[role=status]:visible")).to_have_text("Copied")
    assert 'Bearer $PETSTORE_KEY"' in page.evaluate("navigator.clipboard.readText()")
    example.select_text()
    page.keyboard.press("Control+C")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert 'Bearer $PETSTORE_KEY"' in copied
    assert key not in copied


def test_page_is_complete_without_scripts(plain_page: Page) -> None:
    page = plain_page
    page.goto("/docs/operations/placeOrder")
    page.get_by_text("pet_not_available").first.click()
    expect(page.get_by_role("region", name="Example: pet_not_available")).to_be_visible()
    expect(page.locator(".beside > .examples .example")).to_have_count(10)
    expect(page.get_by_role("button", name="Send POST")).to_have_count(0)
    page.goto("/docs")
    box = page.get_by_role("searchbox", name="Search the operations")
    box.fill("cancelOrder")
    box.press("Enter")
    page.get_by_role("link", name="DELETE /store/orders/{orderId}").first.click()
    page.wait_for_url("**/docs/operations/cancelOrder")


def test_menu_shows_the_current_operation(open_page: Open) -> None:
    page = open_page("/docs/operations/getAccount")
    menu = page.get_by_role("navigation", name="Documentation")
    expect(menu.locator("[aria-current]")).to_be_in_viewport(ratio=0.99)  # Scrolls by whole pixels.


def test_response_is_in_view_and_focused(open_page: Open) -> None:
    page = open_operation(open_page, "placeOrder", narrow=True)
    send(page)
    expect(page.locator(".answer")).to_be_focused()
    expect(page.locator(".answer")).to_be_in_viewport(ratio=0.99)
    expect(page.locator("[id='response.json']")).to_be_in_viewport()
