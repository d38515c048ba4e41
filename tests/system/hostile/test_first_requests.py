"""What many ask at once of a process that has just started."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from petstore import document

THREADS = 8


@pytest.fixture
def unbuilt() -> None:
    """Forget the OpenAPI document, as a process that has just started knows none."""
    document.built.cache_clear()
    document.as_json.cache_clear()


def test_openapi_document_is_built_once_for_all_who_ask_at_once(unbuilt: None) -> None:
    together = Barrier(THREADS)

    def ask(_: int) -> bytes:
        together.wait(10)
        return document.as_json()

    with ThreadPoolExecutor(THREADS) as pool:
        answers = set(pool.map(ask, range(THREADS)))
    assert len(answers) == 1
    assert document.built.cache_info().misses == 1
