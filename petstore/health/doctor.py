"""Checks of a running deployment from inside, for `manage.py doctor`."""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.core import checks
from django.core.management.base import CommandError
from django.db import Error, connection, transaction
from django.utils import timezone

from accounts.idempotency import RETENTION
from accounts.models import IdempotencyRecord, OutboxEvent
from accounts.webhooks.delivery import find_due_endpoints
from petstore.api.link_header import get_page_url
from petstore.db import privileges
from petstore.db.identity import is_postgresql
from petstore.db.names import check_encoding
from petstore.db.snapshots import get_oldest_snapshot_age
from petstore.health.checks import OK, check_migrations
from petstore.management.http_client import Response, UnreachableError, send

MAX_CLOCK_DIFFERENCE = 5.0  # Seconds.
MIN_FREE = 16  # MiB.
MAX_SNAPSHOT_AGE = 600  # Seconds.
MAX_EVENT_AGE = 10  # Seconds for which an event may lack its position in the feed.
MAX_WEBHOOK_DELAY = 60  # Seconds.
RESPONSE_TIMEOUT = 5  # Seconds.
CONNECTION_MIGRATION = Path("/proc/sys/net/ipv4/tcp_migrate_req")
# The metrics in deploy/prometheus/alerts.yaml that every instance exports.
ALERT_METRICS = {
    "petstore_bans_total", "petstore_event_backlog_seconds",
    "petstore_http_request_duration_seconds_bucket", "petstore_http_requests_shed_total",
    "petstore_http_requests_total", "petstore_log_lines_dropped_total",
    "petstore_start_time_seconds", "petstore_webhook_delay_seconds",
    "petstore_worker_exits_total", "petstore_workers", "petstore_workers_configured",
}  # fmt: skip
POSTGRESQL_METRICS = {"petstore_database_oldest_snapshot_seconds", "petstore_database_up"}

# Takes the instance's host and port. Returns its finding, and what to do next or "" if that is no problem.
Check = Callable[[str, int], tuple[str, str]]


class SkippedError(Exception):
    """The check does not apply, or another check reports the problem."""


def check_settings(host: str, port: int) -> tuple[str, str]:
    found = checks.run_checks(include_deployment_checks=True)
    weak = [message for message in found if message.level >= checks.WARNING and not message.is_silenced()]
    if not weak:
        return "`check --deploy` reports no problem.", ""
    advice = "" if settings.HTTPS else "Set BASE_URL to an https:// URL. "
    advice += " ".join(message.hint or "" for message in weak)
    return " ".join(message.msg for message in weak), f"{advice} See docs/settings.md."


def check_database(host: str, port: int) -> tuple[str, str]:
    try:
        encoding_errors = check_encoding(["default"])
        version = ".".join(map(str, connection.get_database_version()))
        if check_migrations() != "missing":
            try_write()
    except Error as error:
        advice = "Start it, or correct DATABASE_URL. See PetstoreDatabaseDown in docs/runbooks.md."
        return str(error), privileges.explain_failure(error) or advice
    for message in encoding_errors:
        return message.msg, message.hint or ""
    return f"{connection.display_name} {version} accepts writes.", ""


def try_write() -> None:
    """Insert a row, and roll back. Raises django.db.Error."""
    with transaction.atomic():
        Session.objects.create(session_key="doctor", expire_date=timezone.now())
        transaction.set_rollback(True)


def check_schema(host: str, port: int) -> tuple[str, str]:
    state = check_migrations()
    if state == "unknown":
        raise SkippedError("The database can't be read.")
    advice = "" if state == OK else "Run manage.py migrate."
    if advice and not may_create_tables():
        return (
            "The database has no tables of this version, and the role may create none.",
            privileges.explain_missing_right(),
        )
    return f"The migrations of this version: {state}.", advice


def may_create_tables() -> bool:
    """Return whether the role may do so. PostgreSQL 15 allows it only to the owner of the database."""
    if not is_postgresql():
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT has_schema_privilege(current_schema(), 'CREATE')")
        return bool(cursor.fetchone()[0])  # NULL if the role may not use any schema.


def check_commits(host: str, port: int) -> tuple[str, str]:
    if not is_postgresql():
        raise SkippedError("SQLite has no such setting.")
    with connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        value = cursor.fetchone()[0]
    advice = "Orders could be lost in a crash. Remove it from the role, the database and DATABASE_URL."
    return f"synchronous_commit is {value}.", advice if value == "off" else ""


def check_snapshots(host: str, port: int) -> tuple[str, str]:
    if not is_postgresql():
        raise SkippedError("Only PostgreSQL keeps row versions for old snapshots.")
    seconds = round(get_oldest_snapshot_age())
    advice = "See PetstoreOldSnapshot in docs/runbooks.md." if seconds > MAX_SNAPSHOT_AGE else ""
    return f"The oldest snapshot that this role can see is {seconds} s old.", advice


def check_clocks(host: str, port: int) -> tuple[str, str]:
    if not is_postgresql():
        raise SkippedError("No other clock is used: the database is a file on this machine.")
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        seconds = cursor.fetchone()[0] - time.time()
    advice = "Synchronize all clocks (NTP)." if abs(seconds) > MAX_CLOCK_DIFFERENCE else ""
    return f"Compared with this machine: PostgreSQL {seconds:+.1f} s.", advice


def check_folders(host: str, port: int) -> tuple[str, str]:
    folders = {"COUNTERS_DIR": settings.COUNTERS_DIR, "METRICS_DIR": settings.METRICS_DIR}
    files = list(Path(settings.COUNTERS_DIR).glob("*"))
    if not is_postgresql():
        files += privileges.find_database_files()
        folders["DATABASE_URL"] = str(files[-1].parent)
    found, is_problem = [], False
    for name, folder in folders.items():
        path = Path(folder or tempfile.gettempdir()).absolute()
        while not path.exists():  # The service creates it.
            path = path.parent
        free = shutil.disk_usage(path).free >> 20
        writable = os.access(path, os.W_OK | os.X_OK)
        found.append(f"{path} ({name}) {f'has {free} MiB left' if writable else 'is not writable'}")
        is_problem |= free < MIN_FREE or not writable
    if unwritable := privileges.describe_unwritable(files):
        return f"{', '.join(found)}.", unwritable
    advice = "Free space, or set the variable to a folder that the user of the service can write to."
    return f"{', '.join(found)}.", advice if is_problem else ""


def check_kernel(host: str, port: int) -> tuple[str, str]:
    try:
        enabled = int(CONNECTION_MIGRATION.read_text())
    except OSError:
        raise SkippedError(f"{CONNECTION_MIGRATION} can't be read. It needs Linux 5.14.") from None
    if enabled:
        return "Another worker accepts the connections that wait for one that ends.", ""
    text = "net.ipv4.tcp_migrate_req is 0: connections that wait for a worker are reset when it ends."
    return text, 'Set it to 1. See "Replacing workers" in docs/deploying.md.'


def fetch(host: str, port: int, path: str) -> Response:
    """Send a GET request to the instance. Raises UnreachableError."""
    address = f"[{host}]" if ":" in host else host
    return send("GET", f"http://{address}:{port}{path}", timeout=RESPONSE_TIMEOUT)


def check_address(host: str, port: int) -> tuple[str, str]:
    """Request the home page as browsers do, from this machine."""
    url = get_page_url("").removesuffix("/")
    try:
        response = send("GET", f"{url}/", timeout=RESPONSE_TIMEOUT)
    except UnreachableError as error:
        raise SkippedError(str(error)) from None
    if response.status == 200:
        return f"{url}/ responds.", ""
    location = f" to {response.headers['Location']}" if "Location" in response.headers else ""
    advice = "Compare BASE_URL, ALLOWED_HOSTS and TRUSTED_PROXY_COUNT with the proxy. See docs/settings.md."
    return f"{url}/ responds with status {response.status}{location}.", advice


def check_workers(host: str, port: int) -> tuple[str, str]:
    try:
        status = fetch(host, port, "/healthz").status
        if status != 200:
            raise UnreachableError(f"/healthz responds with status {status}.")
        response = fetch(host, port, "/readyz")
        states = response.json()
    except (UnreachableError, ValueError) as error:
        advice = (
            "Start the service, or give its --host and --port. See PetstoreNoWorkers in docs/runbooks.md."
        )
        return str(error), advice
    text = f"/readyz reports {', '.join(f'{name}: {state}' for name, state in states.items())}."
    if response.status != 200:
        return text, "See PetstoreNotReady in docs/runbooks.md."
    if any(state != OK for name, state in states.items() if name.startswith("replica")):
        return text, "See PetstoreReplicaDown and PetstoreReplicaLag in docs/runbooks.md."
    return text, ""


def check_metrics(host: str, port: int) -> tuple[str, str]:
    if settings.METRICS_PORT:
        host, port = settings.METRICS_HOST or host, settings.METRICS_PORT
    try:
        response = fetch(host, port, "/metrics")
    except UnreachableError as error:
        raise SkippedError(str(error)) from None
    if response.status == 404:
        raise SkippedError("METRICS_ALLOW_FROM excludes this machine, or /metrics is on METRICS_PORT.")
    expected = ALERT_METRICS | (POSTGRESQL_METRICS if is_postgresql() else set())
    missing = expected - set(re.findall(r"^(\w+)[ {]", response.body.decode(), re.MULTILINE))
    advice = "Restart the instance, and use the alert rules of the same version." if missing else ""
    return f"/metrics lacks {', '.join(sorted(missing)) or 'no metric'} of the alerts.", advice


def check_events(host: str, port: int) -> tuple[str, str]:
    created_before = int((time.time() - MAX_EVENT_AGE) * 1_000_000)
    count = OutboxEvent.objects.filter(created_at__lt=created_before).count()
    advice = 'Check the workers, and look for "Sequencing events failed" in the log.' if count else ""
    return f"{count} have waited for more than {MAX_EVENT_AGE} s for their position in the feed.", advice


def check_webhooks(host: str, port: int) -> tuple[str, str]:
    due_at = timezone.now() - timedelta(seconds=MAX_WEBHOOK_DELAY)
    count = find_due_endpoints(due_at).count()
    text = f"{count} have been due for more than {MAX_WEBHOOK_DELAY} s."
    return text, "See PetstoreWebhooksLate in docs/runbooks.md." if count else ""


def check_housekeeping(host: str, port: int) -> tuple[str, str]:
    due = timezone.now() - timedelta(days=2)
    sessions = Session.objects.filter(expire_date__lt=due).count()
    idempotency_keys = IdempotencyRecord.objects.filter(created_at__lt=due - RETENTION).count()
    advice = "Run manage.py housekeeping now, and daily: see docs/deploying.md."
    text = f"{sessions} sessions and {idempotency_keys} idempotency keys expired more than two days ago."
    return text, advice if sessions or idempotency_keys else ""


CHECKS: dict[str, Check] = {
    "settings": check_settings, "database": check_database, "migrations": check_schema,
    "commits": check_commits, "snapshots": check_snapshots, "clocks": check_clocks,
    "folders": check_folders, "kernel": check_kernel, "workers": check_workers, "address": check_address,
    "metrics": check_metrics, "events": check_events, "webhooks": check_webhooks,
    "housekeeping": check_housekeeping,
}  # fmt: skip


def run(name: str, host: str, port: int) -> dict[str, Any]:
    """Run a check, and return its JSON."""
    try:
        detail, advice = CHECKS[name](host, port)
        state = "problem" if advice else "ok"
    except (SkippedError, CommandError) as error:
        state, detail, advice = "skipped", str(error), ""
    except Error as error:  # The checks of the database or the migrations report the problem.
        state, detail, advice = "skipped", f"The database failed: {str(error).splitlines()[0]}", ""
    except OSError as error:  # No folder for temporary files is writable, for example.
        state, detail, advice = "problem", str(error), "Check the disk and the permissions of the folders."
    detail, advice = (" ".join(text.split()) for text in (detail, advice))
    return {"name": name, "state": state, "detail": detail, "next": advice}
