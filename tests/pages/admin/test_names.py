"""Names in the back office: bytes, direction and search."""

import html
import re
import unicodedata
from typing import Any

import pytest
from django.test import Client

from accounts.models import Account, Actor, ApiKey
from inventory.models import Category, Pet
from inventory.search import filter_by_prefix
from petstore.db.names import to_nfc, visible_name
from tests.support.staff import page_url

ODD_NAMES = (
    "Line1\nLine2\r\nLine3\rLine4", "\t Rex\u2003 ", "a\tb\x0b\x01\x7f\x85\u2028\u2029c\ufeff",
    "Cafe\u0301", " \n\t", "\u200b",
)  # fmt: skip
NFC, NFD = "\u00c9lan V\u00f6gel", unicodedata.normalize("NFD", "\u00c9lan V\u00f6gel")
INVISIBLE = [
    "\u200b", "\u3164", "\u2800", "\u0301", "\u202e", "\u00a0", "\U000e0fff", "\ufff0", "\ufffc", "\ufe0f",
    "\u200b\n",
]  # fmt: skip


def row_of(model: str, category: Category, **texts: str) -> Any:
    """Store a row with these texts, bypassing validation."""
    name = texts["name"]
    if model == "pet":
        return Pet.objects.bulk_create([Pet(name=name, category=category)])[0]
    if model == "category":
        return Category.objects.bulk_create([Category(name=name, description=texts["text"])])[0]
    if model == "account":
        [account] = Account.objects.bulk_create([Account(name=name, notes=texts["text"], plan_id="free")])
        return account
    account, _ = Account.objects.get_or_create(name="Acme Pets", plan_id="free")
    return ApiKey.objects.issue(account, name=name, by=Actor("tests"))[0]


def read_form_like_a_browser(page: str) -> dict[str, str]:
    """Return a page's form as a browser submits it (HTML 13.2.3.5, 13.2.5.1, 4.10.5.1.2, 4.10.11)."""
    page = page.replace("\r\n", "\n").replace("\r", "\n")
    sent = {}
    for tag in re.findall(r"<input\b[^>]*>", page):
        found = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if "name" in found and found.get("type") in {"text", "hidden", "email"}:
            value = html.unescape(found.get("value", ""))
            sent[found["name"]] = value if found["type"] == "hidden" else value.replace("\n", "")
    for name, text in re.findall(r'<textarea\b[^>]*?name="(\w+)"[^>]*>(.*?)</textarea>', page, re.DOTALL):
        sent[name] = html.unescape(text.removeprefix("\n")).replace("\n", "\r\n")
    for name, options in re.findall(r'<select\b[^>]*?name="(\w+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        if chosen := re.search(r'value="([^"]*)" selected', options):
            sent[name] = chosen[1]
    return sent


@pytest.mark.same_on_both
@pytest.mark.parametrize("model", ["pet", "category", "account", "key"])
def test_untouched_text_keeps_its_bytes(staff: Client, category: Category, model: str) -> None:
    other = Category.objects.latest("id")
    for name in ODD_NAMES:
        row, text = row_of(model, category, name=name, text=f"\n\n{name}\n"), f"\n\n{name}\n"
        sent = read_form_like_a_browser(staff.get(page_url(row)).text)
        assert sent["name"] == re.sub("[\r\n]", "", name)
        changed = {"category": str(other.pk)} if model == "pet" else {}
        assert staff.post(page_url(row), sent | changed).status_code == 302
        stored = type(row).objects.get(pk=row.pk)
        assert stored.name == name
        assert getattr(stored, "notes", text) == getattr(stored, "description", text) == text
        assert model != "pet" or stored.category == other
        if model == "account":
            staff.post(page_url(row), sent | {"name": f" Typed {row.pk}", "notes": "onetwo"})
            row.refresh_from_db()
            assert (row.name, row.notes) == (f"Typed {row.pk}", "onetwo")


def test_invisible_name_has_a_placeholder() -> None:
    for name in INVISIBLE:
        assert f"(invisible: U+{ord(name[0]):04X}" in visible_name(name)
    for visible in ("Rex", "\u2028Rex", "\u05e9\u05dc\u05d5\u05dd", "\U0001f436", "e\u0301", "0"):
        assert visible_name(visible) == visible


def test_bidi_controls_in_names_are_not_rendered(staff: Client, category: Category) -> None:
    pet = row_of("pet", category, name="\u202eRex\u2066\u2069\u2069\u202e", text="")
    assert str(pet) == f"Rex ({pet.pk})"
    key = row_of("key", category, name="\u202eTill")
    history = f"{page_url(key).removesuffix('change/')}history/"
    for name, page in (
        ("Rex", "/admin/inventory/pet/"), ("Till", history), ("Till", page_url(key.account)),
        ("Till", "/admin/backoffice/auditentry/"),
    ):  # fmt: skip
        shown = staff.get(page).text
        assert name in shown
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", shown)


@pytest.mark.parametrize("stored", [NFC, NFD])
def test_search_ignores_case_and_normal_form(staff: Client, category: Category, stored: str) -> None:
    pet, kind, account = (
        row_of(model, category, name=stored, text="") for model in ("pet", "category", "account")
    )
    key, _ = ApiKey.objects.issue(account, name=stored, by=Actor("tests"))
    for term in ("\u00e9lan v\u00f6", "e\u0301LAN VO\u0308"):
        for row in (pet, kind, account, key):
            page = f"/admin/{row._meta.label_lower.replace('.', '/')}/"
            [found] = staff.get(page, {"q": term}).context["cl"].result_list
            assert found.pk == row.pk
        results = [result.title for result in staff.post("/admin/search/", {"s": term}).context["results"]]
        assert {str(account), str(pet)} <= set(results)
    assert not staff.get("/admin/inventory/category/", {"q": "elan"}).context["cl"].result_list


def test_pet_search_matches_whole_characters_literally(category: Category) -> None:
    accented = ("Caf\u00e9", "cafe\u0301", "CAFE", "cafes", "\u00c9lan", "E\u0301lan", "elan")
    for name in (*accented, "Rex", "REX II", "A rex", "100% cat", "1000 cats", "_", "Roy"):
        row_of("pet", category, name=name)
    for start, found in {
        "caf": {"Caf\u00e9", "cafe\u0301", "CAFE", "cafes"},
        "CAFE": {"CAFE", "cafes"},
        "cafe\u0301": {"Caf\u00e9", "cafe\u0301"},
        "\u00e9": {"\u00c9lan", "E\u0301lan"},
        "e": {"elan"},
        "rex i": {"REX II"},
        "100%": {"100% cat"},
        "_": {"_"},
        "\\": set(),
    }.items():
        assert {pet.name for pet in filter_by_prefix(Pet.objects.all(), start)} == found


@pytest.mark.parametrize("model", ["account", "category"])
def test_duplicate_name_in_another_normal_form_is_rejected_but_existing_ones_can_be_edited(
    staff: Client, category: Category, model: str
) -> None:
    row = row_of(model, category, name=NFD, text="")
    plan = {"plan": "free", "notes": ""} if model == "account" else {"description": ""}
    response = staff.post(page_url(row).replace(f"{row.pk}/change", "add"), {"name": NFC} | plan)
    assert f"{row.pk} has this name already" in response.text
    assert [found.name for found in type(row).objects.all() if to_nfc(found.name) == NFC] == [NFD]
    row_of(model, category, name=NFC, text="")
    text = "notes" if model == "account" else "description"
    sent = read_form_like_a_browser(staff.get(page_url(row)).text) | {text: "New."}
    assert staff.post(page_url(row), sent).status_code == 302
    row.refresh_from_db()
    assert (row.name, getattr(row, text)) == (NFD, "New.")
