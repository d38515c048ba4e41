"""The search over guides, errors and operations."""

import html
import re
from unittest.mock import Mock

import pytest
from django.test import Client

from petstore.site import search as docs_search
from petstore.site.search import SearchResult, find_results

RESULT = re.compile(r'<li><a href="([^"]*)">([^<]*)</a> <span class="kind">(\w+)</span>')


def search(client: Client, query: str) -> list[tuple[str, ...]]:
    """Return address, title and kind of each result."""
    page = client.get("/docs/search", {"q": query}).text
    return [tuple(map(html.unescape, result)) for result in RESULT.findall(page)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("ship date", ("/docs/orders#ship-date", "Orders: Ship date", "Guide")),
        ("API_KEY_banned", ("/docs/errors#api_key_banned", "Errors: api_key_banned 429", "Error")),
        ("get /store/orders", ("/docs/operations/listOrders", "GET /store/orders", "Operation")),
        (
            "axios-retry",
            ("/docs/retry-clients#axios-retry", "Retries by client: axios-retry", "Guide"),
        ),
        ("environments", ("/docs/environments", "Environments", "Guide")),
    ],
)
def test_best_match_comes_first(client: Client, query: str, first: tuple[str, ...]) -> None:
    assert search(client, query)[0] == first


def test_unicode_normal_forms_are_equivalent() -> None:
    guide = SearchResult("Guide", "Caf\u00e9", "/docs/cafe", "E\u0301lan")
    assert find_results("cafe\u0301 \u00e9LAN", [guide]) == [guide]


def test_results_contain_every_word(client: Client) -> None:
    assert search(client, "ship date")
    assert not search(client, "ship date giraffe")
    assert "No results contain all of these words: giraffe" in client.get("/docs/search?q=giraffe").text


def test_results_link_to_existing_pages(client: Client) -> None:
    for address, _, kind in search(client, "pets"):
        page, _, anchor = address.partition("#")
        text = client.get(page).text
        assert kind == "Operation" or not anchor or f'id="{anchor}"' in text


def test_table_cells_are_separated(client: Client) -> None:
    assert "orders:read to list" in client.get("/docs/search?q=orders:read").text


@pytest.mark.parametrize("query", ["", "  ", "\x00", "<script>", "a" * 5_000, "'"])
def test_any_query_gets_a_page(client: Client, query: str) -> None:
    response = client.get("/docs/search", {"q": query})
    assert response.status_code == 200
    assert "<script>" not in response.text


def test_search_box_shows_the_query(client: Client) -> None:
    assert 'value="ship &quot;date&quot;"' in client.get("/docs/search", {"q": 'ship "date"'}).text


def test_each_text_is_normalized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fold_text = Mock(side_effect=str)
    monkeypatch.setattr(docs_search, "fold_text", fold_text)
    find_results("a " * 50, [SearchResult("Guide", "a", "/", "a")])
    assert fold_text.call_count < 10
