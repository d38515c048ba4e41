"""Make Redis belong to this database."""

from typing import Any

from petstore.cache import redis_owner
from petstore.management.base import JsonCommand


class Command(JsonCommand):
    help = (
        "Make Redis belong to this database, and forget what it knows of keys: after a restore, or a move "
        "to another PostgreSQL server. Services of another database stop using it."
    )
    examples = """
        manage.py claim_redis
        manage.py claim_redis --json
        """

    def handle(self, *args: Any, **options: Any) -> None:
        database, before = redis_owner.claim()
        from_another = f" It belonged to {before}." if before != database else ""
        done = f"Done. Redis is empty and belongs to {database}.{from_another}"
        self.answer(options, {"database": database, "before": before}, done)
