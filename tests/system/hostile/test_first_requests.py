"""Concurrent first requests to a process that has just started."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from petstore.api.openapi import views

THREADS = 8


@pytest.fixture
def clear_document_cache() -> None:
    """Clear the cached OpenAPI document, as in a process that has just started."""
    views.build_document.cache_clear()
    views.render_json.cache_clear()


def test_openapi_document_is_built_once_for_concurrent_requests(clear_document_cache: None) -> None:
    together = Barrier(THREADS)

    def fetch(_: int) -> bytes:
        together.wait(10)
        return views.render_json()

    with ThreadPoolExecutor(THREADS) as pool:
        responses = set(pool.map(fetch, range(THREADS)))
    assert len(responses) == 1
    assert views.build_document.cache_info().misses == 1
