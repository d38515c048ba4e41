"""The search over guides, errors and operations."""

import html
import re

import pytest
from django.test import Client
from django.utils.html import strip_tags

from petstore.site.search import MAX_WORDS, SYNONYMS, build_index, extract_text, find, to_markup

pytestmark = pytest.mark.same_on_both
RESULT = re.compile(r'<li><a href="([^"]*)">(.*?)</a> <span class="kind">([\w ]+)</span>')


def read_text(client: Client, query: str) -> str:
    page = client.get("/docs/search", {"q": query}).text
    return " ".join(html.unescape(strip_tags(page.partition("<main")[2])).split())


FOUND = {  # Among the first four results.
    "/docs/webhooks": ["webhook", "is there a websocket?"],
    "/docs/environments": ["sandbox", "test environment"],
    "/docs/clients": ["sdk", "client library"],
    "/docs/rate-limits#plans": ["price", "pricing", "how much does it cost"],
    "/docs/pagination": ["paginat", "paging"],
    "/docs/quickstart#key": ["how do I get a key"],
    "/docs/authentication#safe": ["rotate", "leaked key", "ip allowlist"],
    "/docs/orders": ["order", "orders"],
    "/docs/your-account#get-in": ["2fa", "two-factor"],
    "/account/login/help/": ["forgot password"],
    "/docs/authentication#scopes": ["permissions"],
    "/docs/errors#rate_limit_exceeded": ["too many requests", "429"],
    "/docs/errors#api_key_banned": ["API_KEY_banned"],
    "/status": ["outage", "sla", "support"],
    "/docs/operations/listOrders": ["get /store/orders"],
    "/docs/operations/listPets": ["listPets", "sort by name"],
    "/docs/operations/createPet": ["add a pet"],
    "/docs/orders#ship-date": ["ship date", "ship date giraffe"],
    "/docs/orders#states": ["delete a pet"],
}


@pytest.mark.parametrize("address", FOUND)
def test_search_finds_word_forms_prefixes_and_synonyms(client: Client, address: str) -> None:
    for query in FOUND[address]:
        found = RESULT.findall(client.get("/docs/search", {"q": query}).text)
        assert address in [url for url, *_ in found[:4]], (query, found[:4])
    page, _, anchor = address.partition("#")
    assert not anchor or f'id="{anchor}"' in client.get(page).text


def test_synonyms_map_to_words_in_the_documentation() -> None:
    for word, others in SYNONYMS.items():
        assert all(find(other) for other in others.split()), word


def test_results_are_counted_and_their_matches_marked(client: Client) -> None:
    assert " 20 results " in read_text(client, "pets")
    page = client.get("/docs/search?q=pagination").text
    assert '<a href="/docs/pagination"><mark>Pagination</mark></a>' in page
    assert "Lists are <mark>paginated</mark>." in page
    assert to_markup("a <lt> \x02'x27'\x03") == "a &lt;lt&gt; <mark>&#x27;x27&#x27;</mark>"


def test_any_query_gets_a_page_that_shows_it_escaped(client: Client) -> None:
    for query in (
        "",
        "\x00",
        "<script>",
        "a" * 5_000,
        '"',
        "?",
        "how",
        "& # ; lt",
        "NEAR OR",
        "E\u0301lan",
    ):
        response = client.get("/docs/search", {"q": query})
        assert response.status_code == 200
        assert "<script>" not in response.text
        assert 'value="""' not in response.text
    for query in ("giraffe", "how"):
        assert f"No results for “{query}”. Try other words" in read_text(client, query)
        assert "This service publishes no contact" in read_text(client, query)


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/docs/quickstrat", "/docs/quickstart"), ("/webhooks", "/docs/webhooks"), ("/support", "/status"),
        ("/nothing", None), ("/x" * 4_000, None), ("/%00", None),
    ],
)  # fmt: skip
def test_missing_page_suggests_the_closest_match(client: Client, path: str, address: str | None) -> None:
    """Without the fixture `db`, any query would fail."""
    response = client.get(path)
    assert (response.status_code, response.headers["Content-Type"][:9]) == (404, "text/html")
    assert ("Did you mean" in response.text) is (address is not None)
    assert [found for found, *_ in RESULT.findall(response.text)][:1] == ([address] if address else [])
    assert "Did you mean" not in client.post(path).text


def test_code_of_examples_is_left_out(client: Client) -> None:
    assert extract_text('<td>a</td><td>b</td><pre tabindex="0"><code id="c">curl</code></pre>') == "a b"
    assert "curl" not in read_text(client, "cancel")


def test_a_query_reads_a_bounded_number_of_words() -> None:
    statements = list[str]()
    build_index().set_trace_callback(statements.append)
    find(" ".join(f"xqz{number}kw" for number in range(50)))
    build_index().set_trace_callback(None)
    assert [text.count('"*') for text in statements if not text.startswith("--")] == [MAX_WORDS, MAX_WORDS]
