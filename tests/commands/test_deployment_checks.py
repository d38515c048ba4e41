"""`check --deploy` reports weak secrets, and pages that would redirect forever."""

from typing import Any

import pytest
from django.core.checks import run_checks


def find_ids() -> set[str | None]:
    return {message.id for message in run_checks(include_deployment_checks=True, tags=["security"])}


def test_weak_pepper_is_reported_and_a_long_random_one_is_not(settings: Any) -> None:
    settings.API_KEY_PEPPERS = {1: b"x" * 31}
    assert "accounts.W001" in find_ids()
    settings.API_KEY_PEPPERS = {1: settings.SECRET_KEY.encode()}
    assert "accounts.W002" in find_ids()
    settings.API_KEY_PEPPERS = {2: b"x" * 32}
    assert not find_ids() & {"accounts.W001", "accounts.W002"}


@pytest.mark.parametrize(
    ("https", "count", "is_reported"), [(True, 0, True), (True, 1, False), (False, 0, False)]
)
def test_https_without_a_trusted_proxy_is_reported(
    settings: Any, https: bool, count: int, is_reported: bool
) -> None:
    settings.HTTPS, settings.TRUSTED_PROXY_COUNT = https, count
    assert ("petstore.W002" in find_ids()) == is_reported
