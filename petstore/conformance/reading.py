"""Checks of lists, pages, caching, deprecation and the pages outside /v1."""

from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings

from petstore.api.openapi.lists import List, lists
from petstore.conformance.answers import Answer
from petstore.conformance.checks import check
from petstore.conformance.contract import check_error, operations
from petstore.conformance.findings import NothingToCheckError, expect
from petstore.conformance.session import Session

PAGES = 8  # How many pages are followed at most.
REQUEST_ID = "conformance.check-1"


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def some_pet(session: Session) -> dict[str, Any]:
    rows, _ = session.rows("listPets", "/pets", limit=1)
    if not rows:
        raise NothingToCheckError("There are no animals.")
    return rows[0]


def removed(answer: Answer) -> bool:
    """Tell whether `getPet` is gone by now, as the contract has it, and answers so (D33)."""
    if answer.now < settings.GET_PET_REMOVED_AT.timestamp():
        return False
    check_error(answer, 410, "endpoint_removed")
    return True


@check('The contract, "Endpoints"; D9')
def lists_are_as_documented(session: Session) -> None:
    """Each list is an array of at most 20 items of its documented shape, by ascending id."""
    for one in lists():
        rows, answer = session.rows(one.operation_id, one.path)
        session.first_pages[one.path] = rows
        expect(len(rows) <= 20, f"{answer.sent}: {len(rows)} items came without a limit, and 20 are most.")
        expect(ids(rows) == sorted(set(ids(rows))), f"{answer.sent}: ids are not ascending.")


@check('The contract, "List animals"')
def limit_is_obeyed(session: Session) -> None:
    """A page has at most `limit` items, and exactly so many if another follows."""
    for limit in (1, 100):
        rows, answer = session.rows("listPets", "/pets", limit=limit)
        full = session.next_path(answer) is not None
        expect(
            len(rows) == limit if full else len(rows) <= limit,
            f"{answer.sent}: {len(rows)} items came, not {limit}.",
        )


@check('The contract, "List animals"; D13')
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
        expect(not other, f"{answer.sent}: a row came that has {other}.")


@check("D9, D10")
def pages_follow_each_other(session: Session) -> None:
    """Pages follow each other by Link, repeat the query, and repeat no row."""
    asked = {"limit": "2", "status": "available"}
    rows, answer = session.rows("listPets", "/pets", **asked)
    followed = 0
    while (path := session.next_path(answer)) and followed < 3:
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        expect("cursor" in query, f"{answer.sent}: the next page's URL has no cursor.")
        for name, value in asked.items():
            expect(query.get(name) == value, f"{answer.sent}: the next page's URL doesn't repeat {name}.")
        answer = session.call("listPets", "GET", path)
        rows += answer.json()
        followed += 1
    expect(
        all(one < other for one, other in pairwise(ids(rows))),
        f"{answer.sent}: rows repeat, or ids don't ascend, over pages: {ids(rows)}.",
    )
    if not followed:
        raise NothingToCheckError("There is only one page of available animals.")


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
    expect(ids(rows) == ids(whole), f"{answer.sent}: the pages together are not the whole list.")
    expect(session.next_path(answer) is None, f"{answer.sent}: the last page names a next one.")


@check("D2, D6")
def accept_decides_nothing(session: Session) -> None:
    """The answer is JSON whatever Accept says, and unknown query parameters are ignored."""
    answer = session.call("listPets", "GET", "/pets?limit=1&x=1", headers={"Accept": "text/html"})
    expect(answer.status == 200, f"{answer.sent}: answers {answer.status}, not 200.")


@check("D29")
def request_id_is_kept(session: Session) -> None:
    """A well-formed X-Request-Id comes back, another is replaced."""
    for sent, kept in ((REQUEST_ID, True), ("not well formed!", False)):
        answer = session.send("GET", "/pets?limit=1", headers={"X-Request-Id": sent})
        came = answer.header("X-Request-Id")
        expect((came == sent) is kept, f"{answer.sent}: X-Request-Id {sent!r} came back as {came!r}.")


@check("D32")
def etag_saves_the_body(session: Session) -> None:
    """If-None-Match with the current ETag is 304 without a body, with another 200."""
    path = "/categories"
    etag = session.call("listCategories", "GET", path).header("ETag")
    again = session.call("listCategories", "GET", path, headers={"If-None-Match": etag})
    expect(again.status == 304, f"{again.sent} with the current ETag: answers {again.status}, not 304.")
    expect(again.header("ETag") == etag, f"{again.sent}: 304 has another ETag.")
    other = session.call("listCategories", "GET", path, headers={"If-None-Match": '"conformance"'})
    expect(other.status == 200, f"{other.sent} with another ETag: answers {other.status}, not 200.")


@check("D2")
def head_is_get_without_a_body(session: Session) -> None:
    """HEAD answers as GET does, without a body."""
    answers = [session.send(method, "/categories") for method in ("GET", "HEAD")]
    expect(answers[1].status == 200, f"{answers[1].sent}: answers {answers[1].status}, not 200.")
    expect(not answers[1].body, f"{answers[1].sent}: has a body.")
    for name in ("Content-Type", "ETag"):
        got, head = (answer.header(name) for answer in answers)
        expect(got == head, f"{answers[1].sent}: {name} is {head!r}, and {got!r} for GET.")


@check('The contract, "Get an animal"')
def pet_is_found_by_its_id(session: Session) -> None:
    """An animal is the same alone as in the list; only its status may have changed meanwhile."""
    pet = some_pet(session)
    answer = session.call("getPet", "GET", f"/pets/{pet['id']}")
    if not removed(answer):
        expect(answer.status == 200, f"{answer.sent}: answers {answer.status}, not 200.")
        alone = answer.json() | {"status": pet["status"]}
        expect(alone == pet, f"{answer.sent}: {answer.json()}, but {pet} in the list.")


@check("D7")
def unknown_pet_is_not_found(session: Session) -> None:
    """A pet id that names nothing, or is no int64, is 404 pet_not_found."""
    for pet_id in ("-1", "conformance", "9223372036854775808"):
        answer = session.send("GET", f"/pets/{pet_id}")
        if not removed(answer):
            check_error(answer, 404, "pet_not_found")


@check("D33")
def deprecation_is_announced(session: Session) -> None:
    """getPet says since when it is deprecated, when it goes, and what replaces it; on refusals too."""
    answer = session.send("GET", "/pets/-1")
    since = answer.header("Deprecation")
    expect(since.startswith("@") and since[1:].isdigit(), f"{answer.sent}: Deprecation is {since!r}.")
    expect(int(since[1:]) <= answer.now, f"{answer.sent}: Deprecation {since} is in the future.")
    sunset = answer.header("Sunset")
    promised = "Thu, 05 Dec 2030 00:00:00 GMT"
    expect(sunset == promised, f"{answer.sent}: Sunset is {sunset!r}, not {promised!r}.")
    links = ", ".join(answer.headers.get_all("Link") or [])
    successor = 'rel="successor-version"' in links and f"<{session.url}/pets" in links
    expect(successor, f"{answer.sent}: Link {links!r} names no successor under {session.url}.")


@check("D38")
def pages_need_no_key(session: Session) -> None:
    """Documentation and health are open, and the served document has every operation."""
    for path in ("/", "/docs", "/healthz", "/readyz", "/openapi.yaml"):
        answer = session.page(path)
        expect(answer.status == 200, f"{answer.sent}: answers {answer.status}, not 200.")
    answer = session.page("/openapi.json")
    served = {
        operation["operationId"] for path in answer.json()["paths"].values() for operation in path.values()
    }
    missing = operations().keys() - served
    expect(not missing, f"{answer.sent}: the document lacks {', '.join(sorted(missing))}.")
