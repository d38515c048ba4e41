"""Checks of lists, pages, caching, deprecation and the pages outside /v1."""

from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings

from petstore.api.errors import ErrorCode as Code
from petstore.api.openapi.lists import List, lists
from petstore.conformance.answers import Answer, BrokenError, NothingToCheckError
from petstore.conformance.checks import check
from petstore.conformance.contract import WINDOW, check_error, operations
from petstore.conformance.session import Session

LOOKS = 3  # At the account.
PAGES = 8  # How many pages are followed at most.
REQUEST_ID = "conformance.check-1"


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def removed(answer: Answer) -> bool:
    """Tell whether `getPet` is gone by now, as the contract has it, and answers so (D33)."""
    if answer.now < settings.GET_PET_REMOVED_AT.timestamp():
        return False
    check_error(answer, Code.ENDPOINT_REMOVED)
    return True


@check('The contract, "Endpoints"; D9')
def lists_are_as_documented(session: Session) -> None:
    """Each list is an array of at most 20 items of its documented shape, by ascending id."""
    for one in lists():
        rows, answer = session.rows(one.operation_id, one.path)
        session.first_pages[one.path] = rows
        answer.expect(len(rows) <= 20, f"{len(rows)} items came without a limit, and 20 are most.")
        answer.expect(ids(rows) == sorted(set(ids(rows))), "ids are not ascending.")


@check('The contract, "List pets"')
def limit_is_obeyed(session: Session) -> None:
    """A page has at most `limit` items, and exactly so many if another follows."""
    for limit in (1, 100):
        rows, answer = session.rows("listPets", "/pets", limit=limit)
        least = limit if session.next_path(answer) else 0
        answer.expect(least <= len(rows) <= limit, f"{len(rows)} items came, not {limit}.")


@check('The contract, "List pets"; D13')
def filters_are_obeyed(session: Session) -> None:
    """Each filter of a list, and all of them together, bring only rows that have their values."""
    for one in lists():
        if not (rows := session.first_pages.get(one.path, [])):
            continue
        for each in one.filters:
            for word in each.words:
                check_rows(session, one, {each.name: word})
        together = {each.name: rows[0][each.name] for each in one.filters}
        if len(together) > 1 or any(not each.words for each in one.filters):
            check_rows(session, one, together)


def check_rows(session: Session, one: List, query: dict[str, object]) -> None:
    """Ask for a list with these filters. Raises BrokenError for a row with another value."""
    rows, answer = session.rows(one.operation_id, one.path, **query, limit=5)
    for row in rows:
        other = {name: row[name] for name, value in query.items() if row[name] != value}
        answer.expect(not other, f"a row came that has {other}.")


@check("D9, D10")
def pages_follow_each_other(session: Session) -> None:
    """Pages follow each other by Link, repeat the query, and repeat no row."""
    asked = {"limit": "2", "status": "available"}
    rows, answer = session.rows("listPets", "/pets", **asked)
    followed = 0
    while (path := session.next_path(answer)) and followed < 3:
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        answer.expect("cursor" in query, "the next page's URL has no cursor.")
        for name, value in asked.items():
            answer.expect(query.get(name) == value, f"the next page's URL doesn't repeat {name}.")
        answer = session.call("listPets", "GET", path)
        rows += answer.json()
        followed += 1
    ascend = ids(rows) == sorted(set(ids(rows)))
    answer.expect(ascend, f"rows repeat, or ids don't ascend, over pages: {ids(rows)}.")
    if not followed:
        raise NothingToCheckError("There is only one page of available pets.")


@check("D9")
def last_page_has_no_next(session: Session) -> None:
    """The pages of the categories end, with no next page, and together are the whole list."""
    whole, answer = session.rows("listCategories", "/categories", limit=100)
    if session.next_path(answer) is not None:
        raise NothingToCheckError("There are more than 100 categories: the end is too far away.")
    if not whole:
        raise NothingToCheckError("There are no categories.")
    size = max(1, -(-len(whole) // PAGES))
    rows, answer = session.rows("listCategories", "/categories", limit=size)
    for _ in range(PAGES):
        path = session.next_path(answer)
        if path is None:
            break
        answer = session.call("listCategories", "GET", path)
        rows += answer.json()
    answer.expect(ids(rows) == ids(whole), "the pages together are not the whole list.")
    answer.expect(session.next_path(answer) is None, "the last page names a next one.")


@check("D2, D6")
def accept_decides_nothing(session: Session) -> None:
    """The answer is JSON whatever Accept says, and unknown query parameters are ignored."""
    session.call("listPets", "GET", "/pets?limit=1&x=1", headers={"Accept": "text/html"}).expect_status(200)


@check("D29")
def request_id_is_kept(session: Session) -> None:
    """A well-formed X-Request-Id comes back, another is replaced."""
    for sent, kept in ((REQUEST_ID, True), ("not well formed!", False)):
        answer = session.send("GET", "/pets?limit=1", headers={"X-Request-Id": sent})
        came = answer.header("X-Request-Id")
        answer.expect((came == sent) is kept, f"X-Request-Id {sent!r} came back as {came!r}.")


@check("D32")
def etag_saves_the_body(session: Session) -> None:
    """If-None-Match with the current ETag is 304 without a body, with another 200."""
    path = "/categories"
    etag = session.call("listCategories", "GET", path).header("ETag")
    again = session.call("listCategories", "GET", path, headers={"If-None-Match": etag})
    again.expect_status(304, "with the current ETag: ")
    again.expect(again.header("ETag") == etag, "304 has another ETag.")
    other = session.call("listCategories", "GET", path, headers={"If-None-Match": '"conformance"'})
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


@check('The contract, "Get a pet"')
def pet_is_found_by_its_id(session: Session) -> None:
    """A pet is the same alone as in the list; only its status may have changed meanwhile."""
    pet = session.first("listPets", "/pets", "pets")
    answer = session.call("getPet", "GET", f"/pets/{pet['id']}")
    if not removed(answer):
        answer.expect_status(200)
        alone = answer.json() | {"status": pet["status"]}
        answer.expect(alone == pet, f"{answer.json()}, but {pet} in the list.")


@check("D7")
def unknown_pet_is_not_found(session: Session) -> None:
    """A pet id that names nothing, or is no int64, is 404 pet_not_found."""
    for pet_id in ("-1", "conformance", "9223372036854775808"):
        answer = session.send("GET", f"/pets/{pet_id}")
        if not removed(answer):
            check_error(answer, Code.PET_NOT_FOUND)


@check("D39")
def account_tells_what_is_left_and_is_free(session: Session) -> None:
    """The account shows what the headers show, and showing it uses nothing."""
    looks = [session.call("getAccount", "GET", "/account").expect_status(200) for _ in range(LOOKS)]
    for look in looks:
        told = {name: window["remaining"] for name, window in look.json()["quota"].items()}
        headers = {name: int(left) for name, left, _ in WINDOW.findall(look.header("RateLimit"))}
        look.expect(told == headers, f"it tells {told}, and RateLimit {headers}.")
    days = [look.json()["quota"]["day"] for look in looks]
    rises = {then["used"] - before["used"] for before, then in pairwise(days)}
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
    answer = session.send("GET", "/pets/-1")
    since = answer.header("Deprecation")
    answer.expect(since.startswith("@") and since[1:].isdigit(), f"Deprecation is {since!r}.")
    answer.expect(int(since[1:]) <= answer.now, f"Deprecation {since} is in the future.")
    sunset = answer.header("Sunset")
    promised = "Thu, 05 Dec 2030 00:00:00 GMT"
    answer.expect(sunset == promised, f"Sunset is {sunset!r}, not {promised!r}.")
    links = ", ".join(answer.headers.get_all("Link") or [])
    successor = 'rel="successor-version"' in links and f"<{session.url}/pets" in links
    answer.expect(successor, f"Link {links!r} names no successor under {session.url}.")


@check("D38")
def pages_need_no_key(session: Session) -> None:
    """Documentation and health are open, and the served document has every operation."""
    for path in ("/", "/docs", "/healthz", "/readyz", "/openapi.yaml"):
        session.page(path).expect_status(200)
    answer = session.page("/openapi.json")
    served = {
        operation["operationId"] for path in answer.json()["paths"].values() for operation in path.values()
    }
    missing = operations().keys() - served
    answer.expect(not missing, f"the document lacks {', '.join(sorted(missing))}.")
