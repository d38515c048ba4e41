"""What each group of staff does all day, in a browser, and what a client of the API sees of it at once."""

import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.live import Service
from tests.support.thorough import some
from tests.system.browser.conftest import NARROW, Open

IMPORT = """name,category,status
Bella,Dogs,available
,Dogs,available
Luna,Unicorns,available
Max,Cats,asleep
"""
BAN = """
import json, time
from accounts.models import ApiKey, KeyStanding
key = ApiKey.objects.get(public_id="{public_id}")
now = int(time.time() * 1_000_000)
KeyStanding.objects.update_or_create(
    key=key, defaults={{"banned_at": now, "banned_until": now + 300_000_000, "ban_level": 1}}
)
"""
KEPT = """
from accounts.models import Refusal
from tests.support.servers import wait_until
wait_until(lambda: Refusal.objects.get(request_id="{request_id}"))
"""


def get(shop: Service, key: str) -> httpx.Response:
    """Send a request with the key."""
    with shop.client(key) as client:
        return client.get("/pets?limit=1")


def wait_for_record(shop: Service, refused: httpx.Response) -> None:
    """Return once the refusal is on record, which takes it some seconds."""
    shop.manage("shell", "--no-imports", "-c", KEPT.format(request_id=refused.headers["X-Request-Id"]))


def press(page: Page, name: str) -> None:
    """Press the button, or follow the link, of this name in the page's own part."""
    words = re.compile(rf"(^|\s){re.escape(name)}$")  # Some have an icon before it.
    button, link = (page.get_by_role(role, name=words) for role in ("button", "link"))
    button.or_(link).last.click()


def choose(page: Page, label: str, words: str) -> None:
    """Choose from a box that searches."""
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("searchbox").fill(words)
    page.get_by_role("option", name=words).first.click()


def key_page(page: Page, public_id: str) -> None:
    """Find a key by its public id and open it."""
    page.goto("/admin/accounts/apikey/")
    page.get_by_placeholder(re.compile("public id")).fill(public_id)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=public_id).click()


def test_support_issues_a_key_which_is_copied_and_used(shop: Service, open_page: Open) -> None:
    shop.issue("Corner Pets", "free")
    page = open_page("/admin/accounts/apikey/add/", as_="support")
    choose(page, "Account", "Corner Pets")
    page.get_by_label("Name").fill("Till")
    press(page, "Issue the key")
    expect(page.get_by_text("It is shown only this once")).to_be_visible()
    press(page, "Copy the key")
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    key = page.evaluate("navigator.clipboard.readText()")
    assert get(shop, key).status_code == 200
    page.goto("/admin/accounts/apikey/")
    assert key not in page.content()


def test_two_clicks_issue_one_key(shop: Service, open_page: Open) -> None:
    shop.issue("Twice Pets", "free")
    page = open_page("/admin/accounts/apikey/add/", as_="support")
    choose(page, "Account", "Twice Pets")
    page.get_by_role("button", name="Issue the key").dblclick()
    expect(page.get_by_text("It is shown only this once")).to_be_visible()
    assert len(json.loads(shop.manage("list_keys", "--account", "Twice Pets", "--json"))) == 2


def test_click_while_an_answer_is_awaited_does_not_lose_it(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Impatient Pets", "free")
    page = open_page(as_="support")
    key_page(page, issued["id"])
    press(page, "Rotate")
    box = page.get_by_role("button", name="Rotate the key").bounding_box()
    assert box
    place = box["x"] + 5, box["y"] + 5

    def click_again(route: Route) -> None:
        answer = route.fetch()
        page.mouse.click(*place)
        route.fulfill(response=answer)

    page.route("**/rotate/", click_again, times=1)
    page.mouse.click(*place)
    new = page.get_by_label("The new key", exact=True).inner_text()
    assert get(shop, new).status_code == 200


def test_support_rotates_a_key_and_both_work(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Turning Pets", "free")
    page = open_page(as_="support")
    key_page(page, issued["id"])
    press(page, "Rotate")
    press(page, "Rotate the key")
    new = page.get_by_label("The new key", exact=True).inner_text()
    assert get(shop, new).status_code == 200
    assert get(shop, issued["key"]).status_code == 200


def test_revoked_key_is_refused_on_the_next_request(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Leaving Pets", "free")
    assert get(shop, issued["key"]).status_code == 200
    page = open_page(as_="support")
    key_page(page, issued["id"])
    press(page, "Revoke")
    expect(page.get_by_text("Leaving Pets").first).to_be_visible()
    page.get_by_label("Reason").fill("Found in a public repository")
    press(page, "Revoke the key")
    expect(page.get_by_text("is revoked").first).to_be_visible()
    assert get(shop, issued["key"]).status_code == 401


def test_why_a_request_was_refused_is_found_by_its_id(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Curious Pets", "enterprise", "--per-minute", "1", "--per-day", "1")
    get(shop, issued["key"])
    refused = get(shop, issued["key"])
    assert refused.status_code == 429
    wait_for_record(shop, refused)
    page = open_page("/admin/", as_="support")
    page.get_by_role("link", name="Why refused?").first.click()
    page.get_by_label(re.compile("request id", re.I)).fill(refused.headers["X-Request-Id"])
    page.keyboard.press("Enter")
    expect(page.get_by_text("Curious Pets").first).to_be_visible()


@pytest.mark.parametrize(
    "path",
    [
        "accounts/account/",
        "accounts/refusal/",
        "inventory/order/",
        "accounts/apikey/add/",
        "../docs/quickstart",
    ],
)
def test_key_that_is_pasted_into_a_search_gets_into_no_address(
    shop: Service, open_page: Open, path: str
) -> None:
    key = shop.issue("Pasting Pets", "pro")["key"]
    asked: list[str] = []
    page = open_page(f"/admin/{path}", as_="owner")
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("document.body.append(document.createElement('textarea'))")
    page.locator("body > textarea").fill(key)
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+x")
    if path.endswith("add/"):  # Searches while somebody types.
        page.get_by_role("combobox", name="Account").click()
    page.locator(".select2-search__field, [role=search] input:not([type=hidden])").last.click()
    page.keyboard.press("Control+v")
    with page.expect_request(re.compile("term=|q=")):
        page.keyboard.press("Enter")
    assert not [url for url in asked if "psk_" in url or key[30:] in url]


def test_stock_imports_a_file_once_its_three_bad_lines_are_mended(
    shop: Service, open_page: Open, tmp_path: Path
) -> None:
    file = tmp_path / "pets.csv"
    file.write_text(IMPORT)
    page = open_page("/admin/inventory/pet/import/", as_="stock")
    page.locator("input[type=file]").set_input_files(file)
    press(page, "Check the pets")
    for line in (3, 4, 5):
        expect(page.get_by_role("cell", name=str(line), exact=True)).to_be_visible()
    page.set_viewport_size(NARROW)
    lines = """cell => {
        const words = document.createRange();
        words.selectNodeContents(cell);
        return words.getClientRects().length;
    }"""
    assert page.get_by_role("columnheader", name="Line").evaluate(lines) == 1
    expect(page.get_by_text("Unicorns").first).to_be_visible()
    file.write_text("name,category,status\nBella the Imported,Dogs,available\n")
    page.goto("/admin/inventory/pet/import/")
    page.locator("input[type=file]").set_input_files(file)
    press(page, "Check the pets")
    press(page, "Import 1 pet")
    page.goto("/admin/inventory/pet/?q=Bella+the+Imported")
    expect(page.get_by_role("link", name="Bella the Imported")).to_be_visible()


def test_stock_chooses_more_than_a_page(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/", as_="stock")
    page.locator("#action-toggle").check()
    page.get_by_role("link", name="Select up to 200 of the list").click()
    page.locator("select[name=action]").select_option("Set pending")
    press(page, "Run")
    expect(page.get_by_role("heading", name="200 pets", exact=True)).to_be_visible()


def test_stock_adds_twenty_pets_with_four_clicks(open_page: Open) -> None:
    names = [f"Twenty {number}" for number in range(20)]
    page = open_page("/admin/", as_="stock")
    with page.add_init_script("addEventListener('click', () => sessionStorage.clicks += 'x', true)"):
        page.reload()
        page.evaluate("sessionStorage.clicks = ''")
        page.get_by_role("link", name="pets Pets", exact=True).click()
        press(page, "Import")
        expect(page.get_by_label("Paste pets")).to_be_focused()
        copied = "\n".join(["name\tcategory", *(f"{name}\tDogs" for name in names)])
        page.evaluate("text => navigator.clipboard.writeText(text)", copied)
        page.keyboard.press("Control+V")
        press(page, "Check the pets")
        press(page, "Import 20 pets")
        expect(page.get_by_text("20 pets imported from the pasted text.")).to_be_visible()
        assert page.get_by_role("link", name="Twenty").all_inner_texts() == names[::-1]
        assert page.evaluate("sessionStorage.clicks") == "xxxx"


def test_owner_changes_a_plan_knowing_whom_it_touches(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Business Pets", "business")
    page = open_page("/admin/accounts/plan/business/change/", as_="owner")
    page.get_by_label("Requests per minute").fill("2000")
    press(page, "Save")
    expect(page.get_by_text(re.compile(r"Change the limits of \d+ account"))).to_be_visible()
    assert get(shop, issued["key"]).headers["X-RateLimit-Limit"] == "1000"
    page.get_by_label(re.compile("Change the limits of")).check()
    press(page, "Save")
    expect(page.get_by_text("changed successfully")).to_be_visible()
    assert get(shop, issued["key"]).headers["X-RateLimit-Limit"] == "2000"


def test_viewer_sees_and_changes_nothing(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Quiet Pets", "free")
    page = open_page(as_="viewer")
    key_page(page, issued["id"])
    expect(page.get_by_role("link", name="Revoke")).to_have_count(0)
    for path in ("accounts/apikey/add/", "inventory/pet/add/", "inventory/pet/import/", "auth/user/"):
        response = page.goto(f"/admin/{path}")
        assert response is not None
        assert response.status == 403, path
        expect(page.get_by_text("Roles that can: ")).to_be_visible()
        expect(page.locator("#nav-sidebar").get_by_role("link", name="API keys")).to_be_visible()
    page.goto("/admin/nothing/")
    expect(page.get_by_text("There is no such page")).to_be_visible()
    page.locator("#nav-sidebar").get_by_role("link", name="API keys").click()
    expect(page.get_by_placeholder(re.compile("public id"))).to_be_visible()


TEXTS = ["<img src=x onerror=alert(1)>", "=1+1", "\U0001f415" * 50, "'; DROP TABLE inventory_pet; --"]


@pytest.mark.parametrize("text", some(TEXTS, 2))
def test_what_is_typed_is_shown_as_it_is(shop: Service, open_page: Open, text: str) -> None:
    page = open_page("/admin/inventory/pet/add/", as_="stock")
    page.get_by_label("Name").fill(text)
    choose(page, "Category", "Dogs")
    press(page, "Save")
    expect(page.get_by_text(text).first).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
