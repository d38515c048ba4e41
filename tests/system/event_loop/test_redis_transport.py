"""Redis clusters, which are used through threads after a single warning, TLS, and samples."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from accounts.quota.redis_store import RedisQuotaStore
from petstore.event_loop.redis_scripts import (
    CLUSTER_WARNING,
    RedisUnavailableError,
    ScriptRunner,
    make_script,
)

from accounts.quota import store
from petstore.event_loop import redis_scripts
from petstore.event_loop.threads import ServingLoop
from petstore.health.checks import run_checks
from petstore.health.sampling import status_checks
from tests.support.event_loop import run, serve
from tests.support.servers import free_port, redis_server, wait_until
from tests.system.operations.proxy import certificate


@pytest.fixture(autouse=True)
def reset_warning() -> Iterator[None]:
    redis_scripts.warn_about_cluster.cache_clear()
    yield
    redis_scripts.warn_about_cluster.cache_clear()


# redis-py's cluster client leaves connections open that the collector then warns of: see the last line.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_cluster_is_used_through_redis_py(
    tmp_path: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server(tmp_path, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000") as node:
        node.client.cluster("ADDSLOTSRANGE", 0, 100)
        echo = make_script("return ARGV[1]")
        quota, counters = ScriptRunner(node.url), ScriptRunner(node.url)
        (error,) = serve(lambda: quota.run(echo, ["{a}"], ["a"]))
        assert isinstance(error, RedisUnavailableError)  # No node has the slot of {a}.
        node.client.cluster("ADDSLOTSRANGE", 101, 16_383)
        wait_until(lambda: node.client.get("{a}"))
        assert serve(lambda: quota.run(echo, ["{a}"], ["a"])) == [b"a"]
        assert serve(lambda: counters.run(echo, ["{a}"], ["a"])) == [b"a"]
        assert [record.message for record in caplog.records] == [CLUSTER_WARNING % settings.THREADS]
        quota.close()
        counters.close()
        gc.collect()  # redis-py leaves replaced connections to the garbage collector.


def test_loop_supports_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    certificate(tmp_path)
    pem, key = str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")
    port = free_port()
    options = {"port": str(port), "cert-file": pem, "key-file": key, "auth-clients": "no"}
    tls = [part for name, value in options.items() for part in (f"--tls-{name}", value)]
    monkeypatch.setattr("petstore.event_loop.redis_scripts.run_in_thread", None)
    echo = make_script("return ARGV[1]")
    with redis_server(tmp_path, *tls):
        runner = ScriptRunner(f"rediss://127.0.0.1:{port}/1?ssl_ca_certs={pem}")
        assert serve(lambda: runner.run(echo, ["a"], ["a" * 100_000])) == [b"a" * 100_000]
        (error,) = serve(lambda: ScriptRunner(f"rediss://127.0.0.1:{port}").run(echo, ["a"], ["a"]))
        assert isinstance(error, RedisUnavailableError)  # The certificate is self-signed.
        assert "certificate verify failed" in str(error)
    assert not caplog.records


def test_sample_checks_redis_without_loading_redis_py(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petstore.event_loop.redis_client.RedisClient", None)

    async def main() -> dict[str, str]:
        monkeypatch.setattr(ServingLoop, "current", asyncio.get_running_loop())
        return await asyncio.to_thread(run_checks, {"redis": status_checks["redis"]}, timeout=5)

    with redis_server(tmp_path) as server:
        monkeypatch.setattr(store, "redis", RedisQuotaStore(server.url))
        assert run(main()) == {"redis": "ok"}
