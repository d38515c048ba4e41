"""Whether the service can serve, part by part: what load balancers ask."""

from functools import cache

from django.db import DEFAULT_DB_ALIAS, Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from accounts.quota import store
from petstore.db import monitor, replicas
from petstore.observability.draining import is_draining
from petstore.observability.health import Check, states

OK = "ok"
LIMIT = 1.0  # Seconds for all checks.


def database() -> str:
    """Return `ok`, or `unreachable`. Where the watch runs it has just asked."""
    if DEFAULT_DB_ALIAS in monitor.servers:
        return "unreachable" if monitor.is_away(DEFAULT_DB_ALIAS) else OK
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return "unreachable"
    finally:
        connection.close()  # The check's thread ends with it.
    return OK


def migrations() -> str:
    """Return `ok`, `missing` while one of this version is not applied, `unknown` without a database."""
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except Error:
        return "unknown"
    finally:
        connection.close()
    return OK if needed() <= applied.keys() else "missing"


@cache
def needed() -> frozenset[tuple[str, str]]:
    """Return the app and the name of each migration of this version."""
    return frozenset(MigrationLoader(None).disk_migrations or ())


CHECKS = {"database": Check(database), "migrations": Check(migrations)}


def readiness() -> dict[str, str]:
    """Return `status`, `ok` or `unavailable`, and the state of each part.

    `quota` tells where requests are counted: `database` although Redis is set up means that Redis is away,
    which stops nobody. Nor does a replica that is away or behind: the primary is read instead.
    """
    parts = states(CHECKS, LIMIT)
    status = OK if set(parts.values()) == {OK} else "unavailable"
    return {"status": status, **parts, "quota": store.state(), **replicas.states()}


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Say whether requests can be served: 200, or 503 with the part that is missing.

    `draining` is a service that was told to end: it still answers, but send it no more requests.
    """
    if is_draining():
        return JsonResponse({"status": "draining"}, status=503)
    parts = readiness()
    return JsonResponse(parts, status=200 if parts["status"] == OK else 503)
