"""`manage.py doctor` with a real service and its servers."""

import json
from pathlib import Path
from typing import Any

from tests.support.live import Service, live_service, run_manage
from tests.support.servers import free_port


def run_doctor(service: Service, **environment: str) -> tuple[int, dict[str, Any]]:
    """Run doctor; return its exit status, and its results by name."""
    done = run_manage(service.environment | environment, "doctor", "--json")
    assert done.stderr == ""
    return done.returncode, {result["name"]: result for result in json.loads(done.stdout)["checks"]}


def find(results: dict[str, Any], state: str) -> set[str]:
    return {name for name, result in results.items() if result["state"] == state}


def test_doctor_reports_the_problems_of_a_deployment(tmp_path: Path) -> None:
    https = {"BASE_URL": "https://api.example.com/v1", "METRICS_PORT": str(free_port())}
    with live_service(tmp_path, workers=1, COUNTERS_DIR=str(tmp_path / "counters"), **https) as service:
        on_sqlite = service.environment["DATABASE_URL"].startswith("sqlite")
        status, results = run_doctor(service)
        assert (status, find(results, "problem")) == (0, set()), results
        assert find(results, "skipped") == ({"clocks"} if on_sqlite else set())

        service.stop()
        status, results = run_doctor(service)
        assert (status, find(results, "problem")) == (1, {"workers"})
        assert "metrics" in find(results, "skipped")


def test_doctor_works_without_a_database_and_without_its_tables(tmp_path: Path) -> None:
    with live_service(tmp_path, workers=1) as service:
        unreachable = f"postgresql://petstore@127.0.0.1:{free_port()}/petstore"
        status, results = run_doctor(service, DATABASE_URL=unreachable)
        assert (status, results["database"]["state"]) == (1, "problem")
        assert {"migrations", "events", "housekeeping"} <= find(results, "skipped")
        empty = f"sqlite:///{tmp_path}/empty.sqlite3"
        status, results = run_doctor(service, DATABASE_URL=empty)
        assert (status, results["migrations"]["next"]) == (1, "Run manage.py migrate.")
