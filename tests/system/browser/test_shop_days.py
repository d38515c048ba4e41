"""What happens now and then in a back office, in a browser: orders, suspensions, the trail, codes."""

import base64
import re

from django_otp.oath import totp
from playwright.sync_api import Page, expect

from tests.support.live import Service
from tests.system.browser.conftest import Open, sign_in
from tests.system.browser.test_daily_work import get, press

NEW_COLLEAGUE = """
from django.contrib.auth.models import Group, User
user = User.objects.create_user({name!r}, password="a long pass phrase of the tests", is_staff=True)
user.groups.add(Group.objects.get(name="Viewer"))
"""


def stage(page: Page, name: str) -> None:
    """Open a tab of the list of orders."""
    page.goto("/admin/inventory/order/")
    page.get_by_role("navigation", name="Orders by stage").get_by_role(
        "link", name=re.compile(name)
    ).click()


def open_order(page: Page, number: int) -> None:
    page.get_by_role("link", name=str(number), exact=True).first.click()
    page.wait_for_url(f"**/order/{number}/change/**")


def test_an_order_goes_from_tab_to_tab_until_it_is_done(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Tabbed Pets", "pro")
    with shop.client(issued["key"]) as client:
        pet = client.get("/pets?status=available&limit=1").json()[0]["id"]
        order = client.post("/store/orders", json={"petId": pet}).json()["id"]
        page = open_page(as_="stock")
        for tab, verb in (("To approve", "Approve"), ("To ship", "Ship now"), ("Shipped", "Deliver...")):
            stage(page, tab)
            open_order(page, order)
            press(page, verb)
            if verb == "Deliver...":
                press(page, "Deliver")
            expect(page.get_by_text(re.compile(rf"Order {order} is ")).first).to_be_visible()
        stage(page, "Done")
        expect(page.get_by_role("link", name=str(order), exact=True).first).to_be_visible()
        assert client.get(f"/store/orders/{order}").json()["status"] == "delivered"
        assert client.get(f"/pets/{pet}").json()["status"] == "sold"


def test_a_suspended_account_is_refused_until_that_is_lifted(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Suspended Pets", "free")
    page = open_page("/admin/accounts/account/", as_="support")
    page.get_by_role("link", name="Suspended Pets", exact=True).click()
    press(page, "Suspend")
    page.get_by_label("Reason").fill("Has not paid")
    press(page, "Suspend the account")
    refused = get(shop, issued["key"])
    assert (refused.status_code, refused.json()["code"]) == (403, "account_suspended")
    press(page, "Lift the suspension")
    page.get_by_label("Reason").fill("Has paid")
    press(page, "Lift the suspension")
    expect(page.get_by_text("Has paid").first).to_be_visible()
    assert get(shop, issued["key"]).status_code == 200


def test_the_trail_shows_what_was_and_what_is_and_can_be_exported(shop: Service, open_page: Open) -> None:
    shop.issue("Trailing Pets", "free")
    page = open_page("/admin/accounts/account/", as_="owner")
    page.get_by_role("link", name="Trailing Pets", exact=True).click()
    page.locator("#id_name").fill("Trailing Pets Ltd")
    press(page, "Save")
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    page.goto("/admin/backoffice/auditentry/?q=Trailing+Pets+Ltd")
    expect(page.get_by_role("cell", name="name: Trailing Pets → Trailing Pets Ltd")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as CSV").click()
    assert (
        '{""name"": ""Trailing Pets""}","{""name"": ""Trailing Pets Ltd""}"'
        in download.value.path().read_text()
    )


def test_pets_are_exported_in_one_format_and_then_in_another(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/export/", as_="stock")
    for file_format in ("csv", "jsonl"):
        page.get_by_label("Format").select_option(file_format)
        with page.expect_download() as download:
            press(page, "Export")
        assert download.value.suggested_filename.endswith(f".{file_format}")


def test_recovery_codes_are_copied_and_downloaded(shop: Service, open_page: Open) -> None:
    shop.manage("shell", "--no-imports", "-c", NEW_COLLEAGUE.format(name="codes"))
    page = open_page()
    sign_in(page, "codes")
    page.goto("/admin/two-factor/")
    secret = base64.b32decode(page.locator("code.secret").inner_text().replace(" ", ""))
    page.get_by_label(re.compile("code", re.I)).first.fill(f"{totp(secret, t0=0):06}")
    page.keyboard.press("Enter")
    codes = page.get_by_role("list", name="Recovery codes").inner_text().split()
    press(page, "Copy the codes")
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").split() == codes
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the codes").click()
    assert download.value.path().read_text().split() == codes
