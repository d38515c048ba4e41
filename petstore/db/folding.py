"""Case folding in SQL that does not depend on the locale of the database.

In a Turkish database, the capital of `i` is `İ`, so a search for "iris" would miss "Iris". PostgreSQL's
collation und-x-icu has the rules of Unicode, which Python's `str.upper` follows as well.
"""


def fold(sql: str) -> str:
    """Build the SQL that uppercases a text expression on PostgreSQL."""
    return f'UPPER({sql} COLLATE "und-x-icu")'
