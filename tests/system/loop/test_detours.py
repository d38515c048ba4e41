"""A Redis that the event loop can't ask itself is asked from threads, and the log says so once."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from petstore.loop import scripts
from petstore.loop.scripts import IN_THREADS, RedisUnavailableError, Scripts, script
from tests.support.live import live_service
from tests.support.servers import redis_server, wait_until
from tests.support.turns import serve


@pytest.fixture(autouse=True)
def unwarned() -> Iterator[None]:
    """Let this process have warned of nothing, before and after."""
    scripts.warn_of_threads.cache_clear()
    yield
    scripts.warn_of_threads.cache_clear()


# redis-py's cluster client leaves connections open that the collector then warns of: see the last line.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_is_left_to_redis_py(
    tmp_path: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server(tmp_path, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000") as node:
        node.client.cluster("ADDSLOTSRANGE", 0, 100)
        echo = script("return ARGV[1]")
        quota, counters = Scripts(node.url), Scripts(node.url)
        (error,) = serve(lambda: quota.run(echo, ["{a}"], ["a"]))
        assert isinstance(error, RedisUnavailableError)  # The slot of {a} is nobody's.
        node.client.cluster("ADDSLOTSRANGE", 101, 16_383)
        wait_until(lambda: node.client.get("{a}"))
        assert serve(lambda: quota.run(echo, ["{a}"], ["a"])) == [b"a"]
        assert serve(lambda: counters.run(echo, ["{a}"], ["a"])) == [b"a"]
        # Said once, whoever finds out.
        assert [record.message for record in caplog.records] == [IN_THREADS % ("cluster", settings.THREADS)]
        quota.close()
        counters.close()
        gc.collect()  # redis-py leaves connections to nodes that it finds anew to the collector.


@pytest.mark.parametrize(
    ("mode", "url", "lines"),
    [
        ("loop", "rediss://shop:secret@cache/0", 1),
        ("loop", "redis://cache/0", 0),
        ("loop", "unix:///cache.sock", 0),
        ("loop", "", 0),
        ("threads", "rediss://cache/0", 0),
    ],
)
def test_a_worker_on_the_loop_says_that_tls_takes_threads(
    mode: str, url: str, lines: int, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.SERVE_MODE, settings.REDIS_URL = mode, url
    scripts.warn_of_tls()
    message = IN_THREADS % ("server with TLS", settings.THREADS)
    assert [record.message for record in caplog.records] == [message] * lines


def test_the_line_is_in_the_log_of_a_service_that_starts(tmp_path: Path) -> None:
    tls = {"SERVE_MODE": "loop", "REDIS_URL": "rediss://127.0.0.1:1/0"}
    with live_service(tmp_path, workers=1, **tls) as service:
        service.stop()  # What the worker logs is written by then.
        assert service.log().count("REDIS_URL names a server with TLS") == 1
