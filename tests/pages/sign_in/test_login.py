"""The sign-in page limits attempts per address and per name."""

import zlib
from typing import Any

import pytest
from django.test import Client

from petstore.api.errors import ApiError, ErrorCode
from petstore.api.request_headers import BODY_ERROR
from petstore.audit.models import FailedSignIn
from tests.support.isolation import Clock
from tests.support.staff import PASSWORD

LOGIN = "/account/login/"
pytestmark = [pytest.mark.usefixtures("boss"), pytest.mark.same_on_both]


def attempt(name: str = "boss", password: str = "wrong", address: str = "192.0.2.1", **headers: str) -> Any:
    client = Client(raise_request_exception=False, REMOTE_ADDR=address)
    return client.post(LOGIN, {"login": name, "password": password, "next": "/admin/"}, headers=headers)


def test_form_that_queued_for_too_long_gets_503_and_advice() -> None:
    client: Any = Client()
    client.defaults |= {BODY_ERROR: ApiError(ErrorCode.SERVICE_UNAVAILABLE)}
    response = client.post(LOGIN)
    assert (response.status_code, response["Retry-After"]) == (503, "10")
    assert "Wait 10 seconds, go back, and try again." in response.text


def test_eleventh_attempt_of_an_address_in_a_minute_is_rejected(clock: Clock) -> None:
    for _ in range(20):
        assert Client(REMOTE_ADDR="192.0.2.1").get(LOGIN).status_code == 200  # No attempt.
    responses = [attempt(name=f"user {number}").status_code for number in range(12)]
    assert responses == [200] * 10 + [429] * 2
    response = attempt(password=PASSWORD)
    assert response.status_code == 429
    assert "sessionid" not in response.cookies
    assert 'name="password"' in response.text
    wait = int(response["Retry-After"])
    assert 1 <= wait <= 60
    assert f"Too many attempts. Try again in {wait} second" in response.text


def test_eleventh_attempt_for_a_name_in_five_minutes_is_rejected_from_any_address(clock: Clock) -> None:
    responses = [attempt(address=f"192.0.2.{number}") for number in range(12)]
    assert [response.status_code for response in responses] == [200] * 10 + [429] * 2
    assert 1 <= int(responses[-1]["Retry-After"]) <= 300
    assert "Too many attempts. Try again in " in responses[-1].text
    assert attempt(name="other", address="192.0.2.99").status_code == 200


def test_all_accepted_spellings_of_a_name_share_a_counter(clock: Clock) -> None:
    spellings = ["boss", " boss ", "\uff42\uff4f\uff53\uff53"]
    for number in range(9):
        attempt(name=spellings[number % 3], address=f"192.0.2.{number + 2}")
    assert attempt(name=spellings[1], password=PASSWORD).status_code == 302
    assert {attempt(name=name, address="192.0.2.99").status_code for name in spellings} == {429}


def test_attempts_rejected_by_address_do_not_count_for_the_name(clock: Clock) -> None:
    for _ in range(10):
        attempt(name="flooder")
    assert {attempt().status_code for _ in range(11)} == {429}
    assert attempt(address="192.0.2.2", password=PASSWORD).status_code == 302


@pytest.mark.parametrize("page", ["/account/password/", "/account/confirm/"])
def test_guesses_of_the_current_password_are_limited_and_recorded(clock: Clock, page: str) -> None:
    client = Client()
    client.post(LOGIN, {"login": "boss", "password": PASSWORD})
    data = {"password": "wrong", "oldpassword": "wrong", "password1": PASSWORD, "password2": PASSWORD}
    statuses = [client.post(page, data).status_code for _ in range(12)]
    assert statuses == [200] * 10 + [429] * 2
    assert FailedSignIn.objects.count() == 10


@pytest.mark.parametrize("offset", [0, 59.5])
def test_sign_in_succeeds_after_retry_after_and_not_a_second_earlier(clock: Clock, offset: float) -> None:
    period = 60
    clock.now += zlib.crc32(b"192.0.2.1/32") % period + offset  # At any offset in the window.
    responses = [attempt(name=f"user {number}") for number in range(11)]
    wait = int(responses[-1]["Retry-After"])
    clock.now += wait - 1.01
    assert attempt().status_code == 429
    clock.now += 1.01
    assert attempt(password=PASSWORD).status_code == 302
