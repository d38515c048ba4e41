"""The search over guides, errors and operations."""

import html
import re

import pytest
from django.test import Client
from django.utils.html import strip_tags

from petstore.site.search import (
    DATA,
    MAX_WORDS,
    SearchIndex,
    SearchResult,
    build_index,
    extract_text,
    split_query,
)

pytestmark = pytest.mark.same_on_both
RESULT = re.compile(r'<li><a href="([^"]*)">(.*?)</a> <span class="kind">([\w ]+)</span>')


def search(client: Client, query: str) -> list[tuple[str, ...]]:
    page = client.get("/docs/search", {"q": query}).text
    return [tuple(html.unescape(strip_tags(part)) for part in result) for result in RESULT.findall(page)]


def read_text(client: Client, query: str) -> str:
    page = client.get("/docs/search", {"q": query}).text
    return " ".join(html.unescape(strip_tags(page.partition("<main")[2])).split())


BEST_MATCHES = {
    "/docs/webhooks": ["webhook", "is there a websocket?", "webook"],
    "/docs/events#often": ["polling"],
    "/docs/environments": ["sandbox", "test environment", "environments"],
    "/docs/clients": ["sdk", "client library"],
    "/docs/clients#postman": ["postman", "swagger"],
    "/docs/authentication#cors": ["cors"],
    "/docs/rate-limits#plans": ["price", "pricing", "how much does it cost", "invoice"],
    "/docs/pagination": ["pagnation", "paging"],
    "/docs/quickstart#key": ["how do I get a key"],
    "/docs/authentication#safe": ["rotate", "leaked key", "ip allowlist"],
    "/docs/orders": ["order", "orders"],
    "/docs/account": ["usage"],
    "/docs/your-account#get-in": ["2fa", "two-factor"],
    "/docs/your-account#people": ["team"],
    "/account/login/help/": ["forgot password", "lost phone"],
    "/docs/authentication#scopes": ["permissions"],
    "/docs/retries#idempotency": ["idempotent"],
    "/docs/rate-limits": ["throttling"],
    "/docs/errors#rate_limit_exceeded": ["too many requests", "429"],
    "/docs/errors#api_key_banned": ["API_KEY_banned"],
    "/docs/quickstart#order": ["buy a pet"],
    "/docs/orders#ship-date": ["ship date"],
    "/docs/retry-clients#axios-retry": ["axios-retry"],
    "/status": ["outage", "sla", "support"],
    "/docs/operations/listOrders": ["get /store/orders"],
    "/docs/operations/listPets": ["listPets", "sort by name"],
    "/docs/operations/createPet": ["add a pet"],
    "/docs/operations/createPets": ["bulk", "bulk order"],
    "/docs/events": ["update pet", "patch a pet"],
    "/docs/orders#states": ["delete a pet", "delete"],
    "/docs": ["graphql"],
}


@pytest.mark.parametrize("address", BEST_MATCHES)
def test_best_match_comes_first(client: Client, address: str) -> None:
    for query in BEST_MATCHES[address]:
        found = search(client, query)
        assert found[0][0] == address, found[:3]
        assert (found[0][2] in {"Operation", "Not available"}) >= address.startswith("/docs/operations/")
    page, _, anchor = address.partition("#")
    assert not anchor or f'id="{anchor}"' in client.get(page).text


def test_synonyms_map_to_words_in_the_documentation() -> None:
    for word, others in DATA["synonyms"].items():
        assert any(build_index().find([other]).total for other in others.split()), word


def test_unicode_normal_forms_are_equivalent() -> None:
    guide = SearchResult("Guide", "Caf\u00e9", "/docs/cafe", "E\u0301lan")
    assert SearchIndex([guide]).find(split_query("cafe\u0301 \u00e9LAN")).total == 1


def test_results_are_counted(client: Client) -> None:
    for query in ("webhook", "ship"):
        assert f" {len(search(client, query))} results " in read_text(client, query)
    assert re.search(r"The first 20 of \d\d results", read_text(client, "pets"))


def test_corrected_query_is_shown_and_matches_are_marked(client: Client) -> None:
    text = read_text(client, "pagnation")
    assert "Showing results for pagination. Nothing matches “pagnation”." in text
    page = client.get("/docs/search?q=pagnation").text
    assert '<a href="/docs/pagination"><mark>Pagination</mark></a>' in page
    assert "Lists are <mark>paginated</mark>." in page


def test_any_query_gets_a_page_that_shows_it_escaped(client: Client) -> None:
    for query in ("", "\x00", "<script>", "a" * 5_000, '"', "?", "how", "& # ; lt"):
        response = client.get("/docs/search", {"q": query})
        assert response.status_code == 200
        assert "<script>" not in response.text
        assert 'value="""' not in response.text


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/docs/quickstrat", "/docs/quickstart"), ("/webhooks", "/docs/webhooks"), ("/stauts", "/status"),
        ("/nothing", None), ("/x" * 4_000, None), ("/%00", None), ("/docs/quickstrat/" + "a/" * 50, None),
    ],
)  # fmt: skip
def test_missing_page_suggests_the_closest_match(client: Client, path: str, address: str | None) -> None:
    """Without the fixture `db`, any query would fail."""
    response = client.get(path)
    assert (response.status_code, response.headers["Content-Type"][:9]) == (404, "text/html")
    assert ("Did you mean" in response.text) is (address is not None)
    assert [found for found, *_ in RESULT.findall(response.text)][:1] == ([address] if address else [])
    assert "Did you mean" not in client.post(path).text


def test_marks_leave_markup_escaped() -> None:
    index = SearchIndex([SearchResult("Guide", "a <lt> 'x27'", "/", "&amp; <b>")])
    (shown,) = index.find(["lt", "x27", "amp", "b"]).results
    assert shown.title == "a &lt;<mark>lt</mark>&gt; &#x27;<mark>x27</mark>&#x27;"
    assert shown.text == "&amp;<mark>amp</mark>; &lt;<mark>b</mark>&gt;"


def test_without_results_the_nearest_and_help_are_shown(client: Client) -> None:
    some, none = (read_text(client, query) for query in ("ship date giraffe", "giraffe"))
    assert "No results for “ship date giraffe”. These sections have some of the words:" in some
    assert search(client, "ship date giraffe")[0][0] == "/docs/orders#ship-date"
    assert "These sections" not in none
    assert "This service publishes no contact" in some
    assert "This service publishes no contact" in none


def test_table_cells_are_separated_and_code_of_examples_is_left_out(client: Client) -> None:
    row = "<tr><th>a</th>\n<td>b</td></tr>"
    table = f"<table><thead><tr><th>A</th><th>B</th></tr></thead>{row}{row}</table><p>c</p>"
    assert extract_text(table) == "a: b; a: b; c"
    assert "curl" not in read_text(client, "cancel")


def test_a_query_costs_a_bounded_number_of_statements() -> None:
    index, statements = SearchIndex([SearchResult("Guide", "Pagination", "/", "e")]), list[str]()
    index._database.set_trace_callback(statements.append)
    for words in ([f"xqz{number}kw" for number in range(50)], ["pagnation"] * 50, ["e"] * 50):
        statements.clear()
        index.find(split_query(" ".join(words)))
        assert len([text for text in statements if not text.startswith("--")]) <= 4 * MAX_WORDS + 2


def test_word_is_corrected_only_if_it_is_one_typo_away() -> None:
    index = SearchIndex([SearchResult("Guide", "Pagination", "/", "text")])
    for query in ("pagnation", "paginattion", "pagimation", "pagniation"):
        assert index.find([query]).words == ["pagination"]
    for query in ("tests", "ratination", "pagnatin"):
        assert index.find([query]).words == [query]


def test_a_word_is_never_corrected_to_another_meaning(client: Client) -> None:
    for query in ("ip allowlist", "pets", "go", "sla", "update pet", "patch", "quote"):
        assert "Showing results for" not in read_text(client, query), query
