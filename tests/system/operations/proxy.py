"""HAProxy with the deployed configuration, in front of two instances on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.live import ROOT
from tests.support.servers import free_port, wait_until

CONFIGURATION = ROOT / "deploy/haproxy.cfg"
Changes = dict[str, str]
WITHOUT_TLS: Changes = {  # As behind another proxy that terminates TLS.
    ' ssl crt "${PETSTORE_CERTIFICATE}" alpn h2,http/1.1': "",
    "    http-request redirect scheme https code 308 unless { ssl_fc }\n": "",
}
SHORT_BODY: Changes = {"wait-for-body time 10s": "wait-for-body time 2s"}  # A test waits for this timeout.
LONG_QUEUE: Changes = {"timeout queue 2s": "timeout queue 30s"}  # For slow machines.
NO_CLIENT_LIMITS: Changes = {  # All clients of a load tool share an address.
    "sc0_conn_cur gt 500": "sc0_conn_cur gt 100000",
    "sc0_conn_rate gt 5000": "sc0_conn_rate gt 10000000",
    "sc0_gpc0_rate ge 5000": "sc0_gpc0_rate ge 10000000",
}
SEARCH_PATH = (
    f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"  # Debian installs it in an sbin directory.
)


def program() -> str | None:
    """HAProxy's path, or None if it is not installed."""
    return shutil.which("haproxy", path=SEARCH_PATH)


def write_configuration(folder: Path, changes: Changes) -> Path:
    """Write a copy of the configuration with these texts replaced."""
    text = CONFIGURATION.read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, f"{CONFIGURATION} no longer has {old!r}: update this test."
        text = text.replace(old, new)
    file = folder / "haproxy.cfg"
    file.write_text(text)
    return file


@contextmanager
def haproxy(
    folder: Path,
    a: int,
    b: int,
    port: int,
    changes: Changes | None = None,
    *,
    metrics_port: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a running proxy without TLS in front of two instances; it logs to `haproxy.log`."""
    found = program()
    assert found is not None, "HAProxy is not installed."
    environment = os.environ | {
        "PETSTORE_HTTP_PORT": str(free_port()),
        "PETSTORE_HTTPS_PORT": str(port),
        "PETSTORE_A": f"127.0.0.1:{a}",
        "PETSTORE_B": f"127.0.0.1:{b}",
        "PETSTORE_METRICS": f"127.0.0.1:{metrics_port or free_port()}",
        "PETSTORE_SOCKET": f"abns@petstore-{port}",  # A path in the folder may be too long for a socket.
    }
    # -db stays in the foreground, in one process.
    command = [found, "-db", "-f", str(write_configuration(folder, WITHOUT_TLS | (changes or {})))]
    with (
        (folder / "haproxy.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            wait_until(lambda: socket.create_connection(("127.0.0.1", port), timeout=1).close())
            assert process.poll() is None, (folder / "haproxy.log").read_text()
            yield process
        finally:
            process.kill()


def read_metric(metrics_port: int, name: str, proxy_name: str | None) -> float:
    """Return a metric of the process, a frontend or a backend."""
    text = httpx.get(f"http://127.0.0.1:{metrics_port}/metrics").text
    return next(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels.get("proxy") == proxy_name
    )
