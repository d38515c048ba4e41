"""Staff input is saved, or a page says that it was not."""

from pathlib import Path

from tests.system.browser.conftest import PASSWORD, Open


def test_text_of_maximum_length_is_saved(open_page: Open) -> None:
    page = open_page("/admin/accounts/account/add/", as_="root")
    page.get_by_label("Name").fill("Full notes")
    notes = page.get_by_label("Notes")
    notes.fill("\n".join("x" * 99 for _ in range(50)) + "y")
    assert notes.evaluate("box => [box.value.length, box.maxLength]") == [5000, 5000]
    page.get_by_label("Plan").select_option("free")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/change/")


def test_oversized_file_gets_an_error_page(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "film.csv"
    file.write_bytes(b"x" * 20_000_000)
    page = open_page("/admin/inventory/pet/import/", as_="root")
    page.get_by_label("Or choose a file").set_input_files(file)
    page.get_by_role("button", name="Check").click()
    page.get_by_text("The form is too large and was not saved").wait_for()


def test_form_posted_after_session_expiry_reopens_with_a_warning(open_page: Open) -> None:
    page = open_page("/admin/inventory/category/add/", as_="stock")
    page.get_by_label("Name").fill("Newts")
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("so your form was not saved").wait_for()
    page.get_by_label("Username").fill("stock")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/admin/inventory/category/add/")
    page.get_by_text("You were signed out, so your form was not saved").wait_for()
    page.get_by_label("Name").fill("Newts")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/admin/inventory/category/")
    assert page.get_by_text("was not saved").count() == 0
