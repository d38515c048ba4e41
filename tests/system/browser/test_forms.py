"""Staff input is saved, or a page says that it was not."""

from tests.system.browser.conftest import Open


def test_text_of_maximum_length_is_saved(open_page: Open) -> None:
    page = open_page("/admin/accounts/account/add/", as_="root")
    page.get_by_label("Name").fill("Full notes")
    notes = page.get_by_label("Notes")
    notes.fill("\n".join("x" * 99 for _ in range(50)) + "y")
    assert notes.evaluate("box => [box.value.length, box.maxLength]") == [5000, 5000]
    page.get_by_label("Plan").select_option("free")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/change/")
