"""Whether the service can serve, part by part: what load balancers ask."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from accounts.quota import store


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Say whether requests can be served: 200, or 503 with the part that is missing.

    `quota` tells where requests are counted: `database` although Redis is set up means that Redis is away,
    which stops nobody.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        parts = {"database": "unreachable", "quota": store.state()}
        return JsonResponse({"status": "unavailable", **parts}, status=503)
    return JsonResponse({"status": "ok", "database": "ok", "quota": store.state()})
