"""Old snapshots, because of which PostgreSQL keeps outdated row versions (docs/databases.md)."""

from django.db import connection

# A transaction that has written keeps versions as well, also without a snapshot (backend_xid). A role
# without pg_read_all_stats sees only its own sessions.
OLDEST_SNAPSHOT = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
FROM pg_stat_activity
WHERE coalesce(backend_xid, backend_xmin) IS NOT NULL AND datname = current_database()
"""


def get_oldest_snapshot_age() -> float:
    """Return the age in seconds of the oldest transaction with a snapshot of this PostgreSQL database."""
    with connection.cursor() as cursor:
        cursor.execute(OLDEST_SNAPSHOT)
        return float(cursor.fetchone()[0])
