"""Assign Redis to this database."""

from typing import Any

from petstore.cache import redis_owner
from petstore.management.base import JsonCommand


class Command(JsonCommand):
    help = (
        "Assign Redis to this database and delete its cached key records, usage counters and bans, after a "
        "restore or a move to another PostgreSQL server. Services of other databases stop using it."
    )
    examples = "manage.py claim_redis"

    def handle(self, *args: Any, **options: Any) -> None:
        database, previous = redis_owner.claim()
        text = f"Done. Redis belongs to {database}, and all data of accounts was deleted from it."
        if previous != database:
            text += f" It belonged to {previous}."
        self.write_result({"database": database, "before": previous}, text)
