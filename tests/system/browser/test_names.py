"""What a real browser does to names: it sends them back changed, and draws some of them as nothing."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.live import Service
from tests.system.browser.conftest import Open

TEXTS = [
    "Line1\nLine2\r\nLine3\rLine4",
    "a\tb\x0b\x01\x7f\x85c\u2028d\u2029e\ufefff\u00a0g",
    "\u200b",
    "Cafe\u0301 \u202etxt",
]
STORE = "from accounts.models import Account; Account.objects.filter(name='Odd Names').update(notes={!r})"
SHOW = "from accounts.models import Account; print(ascii(Account.objects.get(name='Odd Names').notes))"


@pytest.fixture
def api(shop: Service) -> Iterator[httpx.Client]:
    with shop.client(shop.issue("Odd Names", "business")["key"]) as client:
        yield client


@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_a_form_that_a_browser_sends_keeps_a_name_that_nobody_edited(
    api: httpx.Client, open_page: Open, name: str
) -> None:
    pet = api.post("/pets", json={"name": name, "categoryId": 1}).json()
    page = open_page(f"/admin/inventory/pet/{pet['id']}/change/", as_="stock")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/admin/inventory/pet/")
    assert api.get(f"/pets/{pet['id']}").json()["name"] == name


@pytest.mark.parametrize("text", [*TEXTS, "\n\nOne\n\nTwo \n"], ids=ascii)
def test_a_form_that_a_browser_sends_keeps_notes_that_nobody_edited(
    shop: Service, api: httpx.Client, open_page: Open, text: str
) -> None:
    shop.manage("shell", "--no-imports", "-c", STORE.format(text))
    page = open_page("/admin/accounts/account/?q=Odd+Names", as_="root")
    page.locator("#result_list a", has_text="Odd Names").first.click()
    page.get_by_label("Contact email").fill("odd@names.example")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/admin/accounts/account/?*")
    assert shop.manage("shell", "--no-imports", "-c", SHOW).strip() == ascii(text)


@pytest.mark.parametrize("name", ["\u200b", "\u202e\u202d"], ids=ascii)
def test_the_link_of_an_invisible_name_can_be_clicked(
    api: httpx.Client, open_page: Open, name: str
) -> None:
    pet = api.post("/pets", json={"name": name, "categoryId": 1}).json()
    page = open_page("/admin/inventory/pet/", as_="stock")
    link = page.locator(f'#result_list a[href*="/{pet["id"]}/change/"]').first
    box = link.bounding_box()
    assert box
    assert box["width"] > 40
    link.click()
    page.wait_for_url(f"**/{pet['id']}/change/*")


@pytest.mark.parametrize("name", ["\u202eRex", "Rex\u2069\u202e"], ids=ascii)
def test_a_name_does_not_reorder_the_text_beside_it(api: httpx.Client, open_page: Open, name: str) -> None:
    """The id stands right of the name in every heading, as it does for a name in Latin letters."""
    pet = api.post("/pets", json={"name": name, "categoryId": 1}).json()
    page = open_page(f"/admin/inventory/pet/{pet['id']}/change/", as_="stock")
    order = page.evaluate(
        """id => {
            const found = document.evaluate(`//*[not(self::script)]/text()[contains(., '(${id})')]`,
                document.body, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE)
            const edge = (node, at) => {
                const range = document.createRange()
                range.setStart(node, at); range.setEnd(node, at + 1)
                return range.getBoundingClientRect().left
            }
            return Array.from({length: found.snapshotLength}, (_, at) => found.snapshotItem(at))
                .filter(node => node.parentElement.checkVisibility())
                .map(node => edge(node, node.data.indexOf(`${id})`)) > edge(node, node.data.search(/\\S/)))
        }""",
        str(pet["id"]),
    )
    assert order
    assert all(order)
