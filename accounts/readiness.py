"""Whether the service can serve, part by part: what load balancers ask."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from accounts.quota import store


def readiness() -> dict[str, str]:
    """Return `status`, `ok` or `unavailable`, and the state of each part.

    `quota` tells where requests are counted: `database` although Redis is set up means that Redis is away,
    which stops nobody.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return {"status": "unavailable", "database": "unreachable", "quota": store.state()}
    return {"status": "ok", "database": "ok", "quota": store.state()}


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Say whether requests can be served: 200, or 503 with the part that is missing."""
    parts = readiness()
    return JsonResponse(parts, status=200 if parts["status"] == "ok" else 503)
