"""The search over guides, errors and operations."""

import html
import re
from unittest.mock import Mock

import pytest
from django.test import Client

from petstore.site import search as docs_search
from petstore.site.search import SearchResult, search_results

FOUND = re.compile(r'<li><a href="([^"]*)">([^<]*)</a> <span class="kind">(\w+)</span>')


def search(client: Client, question: str) -> list[tuple[str, ...]]:
    """Return address, title and kind of each result."""
    page = client.get("/docs/search", {"q": question}).text
    return [tuple(map(html.unescape, found)) for found in FOUND.findall(page)]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("ship date", ("/docs/orders#ship-date", "Orders: Ship date", "Guide")),
        ("API_KEY_banned", ("/docs/errors#api_key_banned", "Errors: api_key_banned 429", "Error")),
        ("get /store/orders", ("/docs#/orders/listOrders", "GET /store/orders", "Operation")),
        (
            "axios-retry",
            ("/docs/retry-clients#axios-retry", "Retries by client: axios-retry", "Guide"),
        ),
        ("environments", ("/docs/environments", "Environments", "Guide")),
    ],
)
def test_best_match_comes_first(client: Client, question: str, first: tuple[str, ...]) -> None:
    assert search(client, question)[0] == first


def test_a_word_is_found_in_every_normal_form_of_unicode() -> None:
    guide = SearchResult("Guide", "Caf\u00e9", "/docs/cafe", "E\u0301lan")
    assert search_results("cafe\u0301 \u00e9LAN", (guide,)) == [guide]


def test_every_word_must_be_there(client: Client) -> None:
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


@pytest.mark.parametrize("question", ["", "  ", "\x00", "<script>", "a" * 5_000, "'"])
def test_any_query_gets_a_page(client: Client, question: str) -> None:
    response = client.get("/docs/search", {"q": question})
    assert response.status_code == 200
    assert "<script>" not in response.text


def test_each_text_is_normalised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    search_key = Mock(side_effect=str)
    monkeypatch.setattr(docs_search, "fold_text", search_key)
    search_results("a " * 50, (SearchResult("Guide", "a", "/", "a"),))
    assert search_key.call_count < 10
