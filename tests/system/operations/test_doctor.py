"""`manage.py doctor` with a real service and its servers."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.live import Service, live_service
from tests.support.preloaded import CommandRunner
from tests.support.servers import free_port


def run_doctor(service: Service, **environment: str) -> dict[str, Any]:
    """Run doctor; return its results by name, except that of the kernel, which depends on the machine."""
    with closing(CommandRunner(service.environment | environment)) as commands:
        status, out, err = commands.run("doctor", "--json")
    assert err == ""
    results = {result["name"]: result for result in json.loads(out)["checks"]}
    assert status == bool(find(results, "problem"))
    del results["kernel"]
    return results


def find(results: dict[str, Any], state: str) -> set[str]:
    return {name for name, result in results.items() if result["state"] == state}


def test_doctor_reports_the_problems_of_a_deployment(tmp_path: Path) -> None:
    https = {"BASE_URL": f"https://127.0.0.1:{free_port()}/v1", "METRICS_PORT": str(free_port())}
    https["TRUSTED_PROXY_COUNT"] = "1"
    with live_service(tmp_path, workers=1, **https) as service:
        on_sqlite = service.environment["DATABASE_URL"].startswith("sqlite")
        results = run_doctor(service)
        assert find(results, "problem") == set(), results
        # The proxy is missing.
        assert find(results, "skipped") == ({"clocks", "commits", "snapshots"} if on_sqlite else set()) | {
            "address"
        }

        service.stop()
        results = run_doctor(service)
        assert find(results, "problem") == {"workers"}
        assert "metrics" in find(results, "skipped")

        unreachable = f"postgresql://petstore@127.0.0.1:{free_port()}/petstore"
        results = run_doctor(service, DATABASE_URL=unreachable)
        assert results["database"]["state"] == "problem"
        assert {"migrations", "events", "housekeeping"} <= find(results, "skipped")
        empty = f"sqlite:///{tmp_path}/empty.sqlite3"
        results = run_doctor(service, DATABASE_URL=empty)
        assert results["migrations"]["next"] == "Run manage.py migrate."
