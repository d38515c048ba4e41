"""A process hashes one password at a time; a request that waits too long gets 503."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from petstore.api.link_header import get_page_url
from petstore.sign_in.password_links import create_link
from petstore.site import password_hashers
from petstore.site.password_hashers import BoundedPBKDF2PasswordHasher, HashingBusyError
from tests.support.staff import PASSWORD

pytestmark = pytest.mark.same_on_both
LOGIN = "/account/login/"


class FastHasher(BoundedPBKDF2PasswordHasher):
    iterations = 1


@pytest.fixture(autouse=True)
def bounded(settings: Any) -> None:
    settings.PASSWORD_HASHERS = [f"{__name__}.FastHasher"]


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_superuser("boss", password=PASSWORD)


@pytest.fixture
def busy(boss: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate another request that holds the hashing lock for too long."""
    monkeypatch.setattr(password_hashers, "QUEUE_SECONDS", 0.01)
    with password_hashers.hashing_lock:
        yield


def test_service_uses_the_bounded_hasher() -> None:
    from petstore import settings

    assert settings.PASSWORD_HASHERS == ["petstore.site.password_hashers.BoundedPBKDF2PasswordHasher"]


def test_second_hash_waits_for_the_first() -> None:
    with ThreadPoolExecutor(1) as pool:
        with password_hashers.hashing_lock:
            waiting = pool.submit(FastHasher().encode, "x", "salt" * 6)
            assert not waiting.done()
        assert FastHasher().verify("x", waiting.result(10))


def test_failed_hash_releases_the_lock() -> None:
    with pytest.raises(ValueError, match="salt"):
        FastHasher().encode("x", "$")
    assert FastHasher().encode("x", "salt")


def test_sign_in_times_out_with_503_and_advice(busy: None) -> None:
    with pytest.raises(HashingBusyError):
        FastHasher().encode("x", "salt")
    for name in ("boss", "unknown"):
        response = Client().post(LOGIN, {"login": name, "password": PASSWORD})
        assert (response.status_code, response["Retry-After"]) == (503, "10")
        assert "Wait 10 seconds, go back, and try again." in response.text


def test_new_password_times_out_and_keeps_its_link(boss: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client, form = Client(), {"password1": "another horse", "password2": "another horse"}
    page: Any = client.get(create_link(boss, by=boss).removeprefix(get_page_url("")[:-1]), follow=True)
    path = page.request["PATH_INFO"]
    monkeypatch.setattr(password_hashers, "QUEUE_SECONDS", 0.01)
    with password_hashers.hashing_lock:
        assert client.post(path, form).status_code == 503
    assert client.post(path, form).status_code == 302
