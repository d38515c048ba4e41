"""Browsers change names and notes in a round trip; untouched text stays as stored."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.live import Service
from tests.system.browser.conftest import Open

TEXTS = [
    "Line1\nLine2\r\nLine3\rLine4 a\tb\x0b\x01\x7f\x85c\u2028d\u2029e\ufefff\u00a0g Cafe\u0301 \u202etxt",
    "\u200b",
]
STORE = "from accounts.models import Account; Account.objects.filter(name='Odd Names').update(notes={!r})"
SHOW = "from accounts.models import Account; print(ascii(Account.objects.get(name='Odd Names').notes))"


@pytest.fixture
def api(shop: Service) -> Iterator[httpx.Client]:
    with shop.client(shop.issue("Odd Names", "business")["key"]) as client:
        yield client


@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_submitted_form_keeps_an_untouched_name(api: httpx.Client, open_page: Open, name: str) -> None:
    pet = api.post("/pets", json={"name": name, "categoryId": 1}).json()
    page = open_page(f"/admin/inventory/pet/{pet['id']}/change/", as_="stock")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/admin/inventory/pet/")
    assert api.get(f"/pets/{pet['id']}").json()["name"] == name


@pytest.mark.parametrize("text", [*TEXTS, "\n\nOne\n\nTwo \n"], ids=ascii)
def test_submitted_form_keeps_untouched_notes(
    shop: Service, api: httpx.Client, open_page: Open, text: str
) -> None:
    shop.manage("shell", "--no-imports", "-c", STORE.format(text))
    page = open_page("/admin/accounts/account/?q=Odd+Names", as_="root")
    page.locator("#result_list a", has_text="Odd Names").first.click()
    page.get_by_label("Contact email").fill("odd@names.example")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/admin/accounts/account/?*")
    assert shop.manage("shell", "--no-imports", "-c", SHOW).strip() == ascii(text)
