"""Checks of what is refused. None of these requests could add or change anything."""

from petstore.api.errors import ErrorCode as Code
from petstore.api.openapi.lists import lists
from petstore.conformance.answers import Answer
from petstore.conformance.checks import check
from petstore.conformance.contract import check_error
from petstore.conformance.session import Session

TOO_LARGE = b" " * (64 * 1024 + 1)
TOO_LONG = "x" * 8_300


@check("D17")
def missing_key_is_refused(session: Session) -> None:
    """Without a key: 401 missing_api_key, and a challenge."""
    check_challenge(check_error(session.send("GET", "/pets", keyed=False), Code.MISSING_API_KEY))


@check("D16, D17")
def malformed_key_is_refused(session: Session) -> None:
    """With a key that is none: 401 invalid_api_key, and a challenge."""
    wrong = {"Authorization": "Bearer psk_live_conformance_0000"}
    answer = session.send("GET", "/pets", headers=wrong, keyed=False)
    check_challenge(check_error(answer, Code.INVALID_API_KEY))


def check_challenge(answer: Answer) -> None:
    challenge = answer.header("WWW-Authenticate")
    answer.expect(challenge.startswith("Bearer"), f"the challenge is {challenge!r}, not Bearer.")


@check("D17")
def key_is_checked_before_the_path(session: Session) -> None:
    """Without a key an unknown path is 401, too."""
    check_error(session.send("GET", "/conformance", keyed=False), Code.MISSING_API_KEY)


@check("D29")
def unknown_path_is_an_error(session: Session) -> None:
    """An unknown path is 404 resource_not_found."""
    check_error(session.send("GET", "/conformance"), Code.RESOURCE_NOT_FOUND)


@check("D1")
def trailing_slash_is_no_redirect(session: Session) -> None:
    """A path with a slash at its end is 404, never a redirect."""
    check_error(session.send("GET", "/pets/"), Code.RESOURCE_NOT_FOUND)


@check("D29")
def wrong_method_names_the_right_ones(session: Session) -> None:
    """A method that a path doesn't take is 405, with Allow."""
    answer = check_error(session.send("PUT", "/categories"), Code.METHOD_NOT_ALLOWED)
    allowed = answer.header("Allow")
    answer.expect("GET" in allowed, f"Allow is {allowed!r}, and GET is missing.")


@check("D6")
def limit_outside_its_bounds_is_refused(session: Session) -> None:
    """A limit outside 1..100, empty or repeated is 400 invalid_parameter."""
    for query in ("limit=0", "limit=101", "limit=", "limit=5&limit=5"):
        check_error(session.send("GET", f"/pets?{query}"), Code.INVALID_PARAMETER)


@check("D6")
def bad_filters_and_cursors_are_refused(session: Session) -> None:
    """A value that a filter does not take, or a cursor that no list gave, is 400 invalid_parameter."""
    filters = [(one.path, each.name) for one in lists() for each in one.filters]
    for path, name in [*filters, ("/pets", "cursor")]:
        check_error(session.send("GET", f"{path}?{name}=conformance"), Code.INVALID_PARAMETER)


@check("D6, D40")
def bad_places_in_the_feed_are_refused(session: Session) -> None:
    """A cursor that the feed did not give, an unknown type, or a time that is none, is 400."""
    for name in ("cursor", "type", "since"):
        check_error(session.send("GET", f"/events?{name}=conformance"), Code.INVALID_PARAMETER)


@check("D14")
def unknown_order_is_not_found(session: Session) -> None:
    """An order id that names nothing is 404 order_not_found."""
    for order_id in ("-1", "conformance", "9223372036854775808"):
        check_error(session.send("GET", f"/store/orders/{order_id}"), Code.ORDER_NOT_FOUND)


@check("D3, D29")
def body_that_is_no_json_is_refused(session: Session) -> None:
    """A body that is not JSON is 400 malformed_json."""
    check_error(session.send("POST", "/pets", b'{"name": '), Code.MALFORMED_JSON)


@check("D29")
def every_missing_field_is_named(session: Session) -> None:
    """A body without its required fields is 400 missing_field, and details name all of them."""
    check_details(check_error(session.send("POST", "/pets", {}), Code.MISSING_FIELD), "categoryId", "name")


def check_details(answer: Answer, *fields: str) -> None:
    """Raise BrokenError unless the details of an Error name exactly these fields."""
    named = sorted(detail["field"] for detail in answer.json().get("details", []))
    answer.expect(named == sorted(fields), f"details name {named}, not {sorted(fields)}.")


@check("D2")
def other_media_type_is_refused(session: Session) -> None:
    """A body of another media type is 415 unsupported_media_type."""
    answer = session.send("POST", "/pets", b"conformance", headers={"Content-Type": "text/plain"})
    check_error(answer, Code.UNSUPPORTED_MEDIA_TYPE)


@check("D2")
def large_body_is_refused(session: Session) -> None:
    """A body of more than 64 KiB is 413 payload_too_large."""
    check_error(session.send("POST", "/pets", TOO_LARGE), Code.PAYLOAD_TOO_LARGE)


@check("D30")
def long_url_is_refused(session: Session) -> None:
    """A URL that is too long is 414, by the service or by the server before it; never a failure."""
    answer = session.send("GET", f"/pets?x={TOO_LONG}")
    answer.expect(answer.status in {414, 400, 431}, f"answers {answer.status}, not 414.")
    if answer.headers["X-Request-Id"] is None:  # A server's own plain answer is allowed.
        session.answers.remove(answer)
    else:
        check_error(answer, Code.URI_TOO_LONG)
