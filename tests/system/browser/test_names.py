"""Browsers change names and notes in a round trip; untouched text stays as stored.

tests/pages/admin/test_names.py has the other texts, with forms as browsers read them.
"""

from tests.support.live import Service
from tests.system.browser.conftest import Open

NAME = "Line1\nLine2\r\nLine3\rLine4 a\tb\x0b\x01\x7f\x85c\u2028d\u2029e\ufefff\u00a0g Cafe\u0301 \u202etxt"
NOTES = f"\n\n{NAME}\n\nTwo \n"
STORE = """
from accounts.models import Account
account = Account.objects.create(name={name!r}, notes={notes!r}, plan_id="free")
print(account.pk)
"""
SHOW = """
from accounts.models import Account
print(*map(ascii, Account.objects.values_list("name", "notes").get(pk={})))
"""


def test_submitted_form_keeps_untouched_name_and_notes(shop: Service, open_page: Open) -> None:
    pk = shop.manage("shell", "--no-imports", "-c", STORE.format(name=NAME, notes=NOTES)).strip()
    page = open_page(f"/admin/accounts/account/{pk}/change/", as_="root")
    page.get_by_label("Contact email").fill("odd@names.example")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/admin/accounts/account/")
    stored = shop.manage("shell", "--no-imports", "-c", SHOW.format(pk))
    assert stored.strip() == f"{NAME!a} {NOTES!a}"
