"""The chips above a list: its search and each filter, with links that remove them."""

import re
from html import unescape

import pytest
from django.test import Client

from accounts.models import ApiKey
from inventory.models import Category

pytestmark = pytest.mark.same_on_both


def find_chips(client: Client, url: str) -> dict[str, str]:
    """Return the links of the chips by label, and of "Clear all"."""
    text = client.get(url).text
    found = re.search(r'<ul class="chips".*?</ul>', text, re.DOTALL)
    links = re.findall(r'href="([^"]*)"(?: aria-label="Remove ([^"]*)")?', found[0] if found else "")
    return {unescape(label) or "Clear all": unescape(link) for link, label in links}


CHIPS = {
    "inventory/order/": {},
    "inventory/order/?o=1&placed=7&q=Acme&stage=to_approve": {
        "Search: Acme": "?o=1&placed=7&stage=to_approve",
        "Stage: Placed": "?o=1&placed=7&q=Acme",
        "Time: Last 7 days": "?o=1&q=Acme&stage=to_approve",
        "Clear all": "?o=1",
    },
    "inventory/pet/?after=9&status__exact=sold": {"Status: Sold": "?", "Clear all": "?"},
    "accounts/apikey/?state=banned&mode__exact=test": {
        "State: Banned now": "?mode__exact=test", "Mode: Test": "?state=banned", "Clear all": "?",
    },
    "accounts/account/?plan__code__exact=pro": {"Plan: Pro": "?", "Clear all": "?"},
    "auth/user/?is_active__exact=1": {"Active: Yes": "?", "Clear all": "?"},
    "backoffice/auditentry/?sign_ins=shown": {"Sign-ins: Shown": "?", "Clear all": "?"},
    "accounts/apikey/?state=unknown": {},
}  # fmt: skip


def test_each_filter_that_applies_has_a_chip_that_removes_it(staff: Client, key: ApiKey) -> None:
    assert {url: find_chips(staff, f"/admin/{url}") for url in CHIPS} == CHIPS


def test_chip_names_the_related_record(staff: Client, category: Category) -> None:
    chips = find_chips(staff, f"/admin/inventory/pet/?category__id__exact={category.pk}")
    assert f"Category: {category}" in chips
    assert find_chips(staff, "/admin/inventory/pet/?category__id__exact=99999") == {}
