"""The search over guides, errors and operations."""

import difflib
import html
import re
from unittest.mock import Mock

import pytest
from django.test import Client
from django.utils.html import strip_tags

from petstore.site import search as docs_search
from petstore.site.search import (
    DATA,
    SearchIndex,
    SearchResult,
    build_index,
    extract_text,
    split_query,
    stem,
)

RESULT = re.compile(r'<li><a href="([^"]*)">(.*?)</a> <span class="kind">(\w+)</span>')
PACKAGES = "/docs/clients"
POSTMAN = "/docs/clients#postman"
PRICES = "/docs/rate-limits#plans"


def search(client: Client, query: str) -> list[tuple[str, ...]]:
    """Return address, title and kind of each result."""
    page = client.get("/docs/search", {"q": query}).text
    return [tuple(html.unescape(strip_tags(part)) for part in result) for result in RESULT.findall(page)]


def read_text(client: Client, query: str) -> str:
    """Return the text of the search page's content."""
    page = client.get("/docs/search", {"q": query}).text
    return " ".join(html.unescape(strip_tags(page.partition("<main")[2])).split())


@pytest.mark.parametrize(
    ("query", "address"),
    [
        ("webhook", "/docs/events#webhooks"),
        ("is there a websocket?", "/docs/events#webhooks"),
        ("webook", "/docs/events#webhooks"),
        ("polling", "/docs/events#often"),
        ("sandbox", "/docs/environments"),
        ("test environment", "/docs/environments"),
        ("sdk", PACKAGES),
        ("client library", PACKAGES),
        ("postman", POSTMAN),
        ("swagger", POSTMAN),
        ("cors", "/docs/authentication#cors"),
        ("price", PRICES),
        ("pricing", PRICES),
        ("how much does it cost", PRICES),
        ("pagnation", "/docs/pagination"),
        ("paging", "/docs/pagination"),
        ("how do I get a key", "/docs/quickstart#key"),
        ("rotate", "/docs/authentication#safe"),
        ("leaked key", "/docs/authentication#safe"),
        ("permissions", "/docs/authentication#scopes"),
        ("autentication", "/docs/authentication"),
        ("idempotent", "/docs/retries#idempotency"),
        ("retrying", "/docs/retries"),
        ("throttling", "/docs/rate-limits"),
        ("too many requests", "/docs/errors#rate_limit_exceeded"),
        ("429", "/docs/errors#rate_limit_exceeded"),
        ("API_KEY_banned", "/docs/errors#api_key_banned"),
        ("buy a pet", "/docs/quickstart#order"),
        ("cancelled", "/docs/orders#cancel"),
        ("ship date", "/docs/orders#ship-date"),
        ("axios-retry", "/docs/retry-clients#axios-retry"),
        ("changelog", "/docs/changes"),
        ("environments", "/docs/environments"),
        ("outage", "/status"),
        ("get /store/orders", "/docs/operations/listOrders"),
        ("listPets", "/docs/operations/listPets"),
        ("add a pet", "/docs/operations/createPet"),
    ],
)
def test_best_match_comes_first(client: Client, query: str, address: str) -> None:
    found = search(client, query)
    assert found[0][0] == address, found[:3]
    assert (found[0][2] == "Operation") is address.startswith("/docs/operations/")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("webhook", "There are no webhooks"),
        ("postman", "There is no Postman collection"),
        ("cors", "The API sends no CORS headers"),
        ("price", "Prices are not published."),
    ],
)
def test_excerpt_states_that_a_feature_does_not_exist(client: Client, query: str, sentence: str) -> None:
    assert sentence in read_text(client, query)


def test_synonyms_map_to_words_in_the_documentation() -> None:
    known = set(build_index()._stems.values())
    stems = [stem(word) for word in DATA["synonyms"]]
    assert len(stems) == len(set(stems))
    for word, others in DATA["synonyms"].items():
        assert {stem(other) for other in others.split()} & known, word


def test_unicode_normal_forms_are_equivalent() -> None:
    guide = SearchResult("Guide", "Caf\u00e9", "/docs/cafe", "E\u0301lan")
    assert SearchIndex([guide]).find(split_query("cafe\u0301 \u00e9LAN")).results == [guide]


def test_results_are_counted(client: Client) -> None:
    assert f" {len(search(client, 'webhook'))} results " in read_text(client, "webhook")
    assert len(search(client, "ship")) > 1
    assert f" {len(search(client, 'ship'))} results " in read_text(client, "ship")
    assert re.search(r"The first 20 of \d\d results", read_text(client, "pets"))


def test_matches_are_marked_in_title_and_text(client: Client) -> None:
    page = client.get("/docs/search?q=pagnation").text
    assert '<a href="/docs/pagination"><mark>Pagination</mark></a>' in page
    assert "Lists are <mark>paginated</mark>." in page


def test_marks_leave_markup_escaped() -> None:
    entry = SearchResult("Guide", "a <lt> 'x27'", "/", "&amp; <b>")
    shown = docs_search.highlight(entry, {"lt", "x27", "amp", "b"})
    assert shown.title == "a &lt;<mark>lt</mark>&gt; &#x27;<mark>x27</mark>&#x27;"
    assert shown.text == "&amp;<mark>amp</mark>; &lt;<mark>b</mark>&gt;"


def test_corrected_query_is_shown(client: Client) -> None:
    text = read_text(client, "pagnation")
    assert "Showing results for pagination. Nothing matches “pagnation”." in text
    assert "Showing results for" not in read_text(client, "pagination")


def test_without_results_the_nearest_and_help_are_shown(client: Client) -> None:
    text = read_text(client, "ship date giraffe")
    assert "No results for “ship date giraffe”. These sections have some of the words:" in text
    assert search(client, "ship date giraffe")[0][0] == "/docs/orders#ship-date"
    assert "To get help, contact us." in text
    assert "These sections" not in read_text(client, "giraffe")
    assert "To get help, contact us." in read_text(client, "giraffe")


def test_results_link_to_existing_pages(client: Client) -> None:
    for address, _, kind in search(client, "pets"):
        page, _, anchor = address.partition("#")
        text = client.get(page).text
        assert kind == "Operation" or not anchor or f'id="{anchor}"' in text


def test_table_cells_are_separated() -> None:
    row = "<tr><th>a</th>\n<td>b</td></tr>"
    table = f"<table><thead><tr><th>A</th><th>B</th></tr></thead>{row}{row}</table><p>c</p>"
    assert extract_text(table) == "a: b; a: b; c"


def test_excerpts_have_no_code_of_examples(client: Client) -> None:
    assert "curl" not in read_text(client, "cancel")


@pytest.mark.parametrize("query", ["", "  ", "\x00", "<script>", "a" * 5_000, "'", "?", "how", "& # ; lt"])
def test_any_query_gets_a_page(client: Client, query: str) -> None:
    response = client.get("/docs/search", {"q": query})
    assert response.status_code == 200
    assert "<script>" not in response.text


def test_search_box_shows_the_query(client: Client) -> None:
    assert 'value="ship &quot;date&quot;"' in client.get("/docs/search", {"q": 'ship "date"'}).text


def test_texts_are_normalized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    index = SearchIndex([SearchResult("Guide", "a", "/", "a")])
    fold_text = Mock(side_effect=str)
    monkeypatch.setattr(docs_search, "fold_text", fold_text)
    index.find(split_query("a " * 50))
    assert fold_text.call_count == 1


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/docs/quickstrat", "/docs/quickstart"),
        ("/docs/rate-limit", "/docs/rate-limits"),
        ("/webhooks", "/docs/events#webhooks"),
        ("/stauts", "/status"),
    ],
)
def test_missing_page_suggests_the_closest_match(client: Client, path: str, address: str) -> None:
    """Without the fixture `db`, any query would fail."""
    response = client.get(path)
    assert response.status_code == 404
    assert RESULT.findall(response.text)[0][0] == address
    assert 'aria-label="Documentation"' in response.text
    assert 'role="search"' in response.text


@pytest.mark.parametrize("words", [[f"xqz{number}kw" for number in range(50)], ["pagnation"] * 50])
def test_search_compares_few_words_of_a_query_with_all_known_ones(
    client: Client, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    docs_search.find.cache_clear()
    compare = Mock(side_effect=difflib.get_close_matches)
    monkeypatch.setattr(docs_search, "get_close_matches", compare)
    for _ in range(2):  # The second time from the cache.
        client.get("/docs/search", {"q": " ".join(words)})
        client.get("/" + "/".join(words)[:90])
    assert compare.call_count <= 4


def test_only_people_who_follow_a_short_link_get_suggestions(client: Client) -> None:
    assert "Did you mean" in client.get("/docs/quickstrat").text
    for response in (client.post("/docs/quickstrat"), client.get("/docs/quickstrat/" + "a/" * 50)):
        assert response.status_code == 404
        assert "Did you mean" not in response.text


def test_missing_page_suggests_the_operation(client: Client) -> None:
    assert RESULT.findall(client.get("/pets").text)[0][0] == "/docs/operations/listPets"


@pytest.mark.parametrize("path", ["/nothing", "/x" * 4_000, "/%00", "/%C3%A9"])
def test_missing_page_without_a_close_match_has_no_suggestions(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert "Did you mean" not in response.text
