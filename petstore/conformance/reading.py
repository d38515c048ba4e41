"""Checks of lists, pages, caching, deprecation and the pages outside /v1."""

from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from petstore.api.errors import ErrorCode as Code
from petstore.api.openapi.lists import lists
from petstore.api.openapi.views import document
from petstore.conformance.checks import NothingToCheckError, check
from petstore.conformance.client import BrokenError
from petstore.conformance.document import expect_code, expect_members
from petstore.conformance.refusals import REMOVED
from petstore.conformance.responses import WINDOW
from petstore.conformance.session import Session

REQUEST_ID = "conformance.check-1"


def page(session: Session, path: str, limit: int) -> tuple[list[dict[str, Any]], str]:
    """Return a page's rows and the next page's path. Raises BrokenError for too many rows, or too few."""
    rows, response = session.rows(path)
    following = session.next_path(response)
    full = len(rows) == limit or (len(rows) < limit and not following)
    response.expect(full, f"{len(rows)} items came, not {limit}.")
    return rows, following


@check('The contract, "List pets"; D9, D10')
def lists_come_in_pages(session: Session) -> None:
    """The pages of each list have `limit` items, 20 without one, by ascending id, and follow by Link."""
    for one in lists():
        whole, _ = page(session, one.path, 20)
        limit = len(whole) // 2 + 1
        rows, following = page(session, f"{one.path}?limit={limit}", limit)
        if following:
            rows += page(session, following, limit)[0]
        ids, all_ids = ([row["id"] for row in found] for found in (rows, whole))
        if ids != sorted(set(ids)) or ids[: len(whole)] != all_ids:
            raise BrokenError(f"GET {one.path}: pages of {limit} have {ids}, and the first page {all_ids}.")


@check('The contract, "List pets"; D13')
def filters_are_obeyed(session: Session) -> None:
    """Each filter of a list, and all of them together, bring only rows that have their values."""
    for one in lists():
        if one.filters and (first := page(session, f"{one.path}?limit=100", 100)[0]):
            queries = [{each.name: word} for each in one.filters for word in each.words]
            together = {each.name: first[0][each.name] for each in one.filters}
            for query in [*queries, *([together] if together not in queries else [])]:
                rows, _ = page(session, f"{one.path}?{urlencode(query | {'limit': 5})}", 5)
                other = [row for row in rows if row | query != row]
                if other:
                    raise BrokenError(
                        f"GET {one.path}: rows came for {query} that have other values: {other}."
                    )


@check("D2, D6")
def accept_decides_nothing(session: Session) -> None:
    """The answer is JSON whatever Accept says, and unknown query parameters are ignored."""
    session.send("GET", "/pets?limit=1&x=1", headers={"Accept": "text/html"}).expect_status(200).json()


@check("D29")
def request_id_is_kept(session: Session) -> None:
    """A well-formed X-Request-Id comes back, another is replaced."""
    for sent, kept in ((REQUEST_ID, True), ("not well formed!", False)):
        response = session.send("GET", "/pets?limit=1", headers={"X-Request-Id": sent})
        came = response.header("X-Request-Id")
        response.expect((came == sent) is kept, f"X-Request-Id {sent!r} came back as {came!r}.")


@check("D32")
def etag_saves_the_body(session: Session) -> None:
    """If-None-Match with the current ETag is 304 without a body, with another 200."""
    etag = session.send("GET", "/categories").header("ETag")
    again = session.send("GET", "/categories", headers={"If-None-Match": etag})
    again.expect_status(304, "with the current ETag: ")
    again.expect(again.header("ETag") == etag and not again.body, "304 has another ETag, or a body.")
    other = session.send("GET", "/categories", headers={"If-None-Match": '"conformance"'})
    other.expect_status(200, "with another ETag: ")


@check("D2")
def head_is_get_without_a_body(session: Session) -> None:
    """HEAD answers as GET does, without a body."""
    got, head = (session.send(method, "/categories") for method in ("GET", "HEAD"))
    head.expect_status(200)
    head.expect(not head.body, "has a body.")
    for name in ("Content-Type", "ETag"):
        one, other = got.header(name), head.header(name)
        head.expect(one == other, f"{name} is {other!r}, and {one!r} for GET.")


@check('The contract, "Get a pet"; D33')
def pet_is_found_by_its_id(session: Session) -> None:
    """A pet is the same alone as in the list; only its status may have changed meanwhile."""
    pets, _ = session.rows("/pets?limit=1")
    if not pets:
        raise NothingToCheckError("There are no pets.")
    response = session.send("GET", f"/pets/{pets[0]['id']}")
    if REMOVED:
        expect_code(response, Code.ENDPOINT_REMOVED)
    else:
        expect_members(
            response, response.expect_status(200).json() | {"status": pets[0]["status"]}, pets[0]
        )


@check("D39")
def account_tells_what_is_left_and_is_free(session: Session) -> None:
    """The account shows what the headers show, and showing it uses nothing."""
    looks = [session.send("GET", "/account").expect_status(200) for _ in range(3)]
    for look in looks:
        told = {name: window["remaining"] for name, window in look.json()["quota"].items()}
        headers = {name: int(left) for name, left, _ in WINDOW.findall(look.header("RateLimit"))}
        look.expect(told == headers, f"it tells {told}, and RateLimit {headers}.")
    days = [look.json()["quota"]["day"]["used"] for look in looks]
    rises = {then - before for before, then in pairwise(days)}
    looks[-1].expect(rises != {1}, "each look uses a request of the day.")
    if rises != {0}:
        raise NothingToCheckError("Others use the account at the same time, or the day has ended.")


@check("D40, D42")
def feed_ends_where_it_goes_on(session: Session) -> None:
    """The feed has nothing of a time to come, and even its empty page says where to ask next."""
    events, session.feed_end = session.feed("/events?limit=100&since=9999-12-31T23:59:59Z")
    if events:
        raise BrokenError(f"GET /events: {len(events)} events came of a time that is to come.")


@check("D33")
def deprecation_is_announced(session: Session) -> None:
    """getPet says since when it is deprecated, when it goes, and what replaces it; on refusals too."""
    response = session.send("GET", "/pets/-1")
    since, sunset = response.header("Deprecation"), response.header("Sunset")
    response.expect(since[0] == "@" and int(since[1:]) <= response.now, f"Deprecation is {since!r}.")
    promised = "Thu, 05 Dec 2030 00:00:00 GMT"
    response.expect(sunset == promised, f"Sunset is {sunset!r}, not {promised!r}.")
    links = ", ".join(response.headers.get_all("Link", []))
    named = 'rel="successor-version"' in links and f"<{session.url}/pets" in links
    response.expect(named, f"Link {links!r} names no successor under {session.url}.")


@check("D38")
def pages_need_no_key(session: Session) -> None:
    """Documentation and health are open, and the served document has every operation."""
    for path in ("/", "/docs", "/healthz", "/readyz", "/openapi.yaml"):
        session.page(path).expect_status(200)
    response = session.page("/openapi.json")
    served = response.json()["paths"]
    missing = [
        f"{method.upper()} {path}"
        for path, methods in document()["paths"].items()
        for method in methods
        if method not in served.get(path, {})
    ]
    response.expect(not missing, f"the document lacks {', '.join(missing)}.")
