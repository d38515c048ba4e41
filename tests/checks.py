"""The static checks that need Django: what `make check` and CI call after lint and types.

They ignore .env: `make run` puts a DEMO_KEY there, which production must not have.
"""

import os
import subprocess
import sys

from tests import environment
from tests.support import servers

MANAGE = [sys.executable, "-W", "error", "manage.py"]
PRODUCTION = {
    "DEBUG": "false",
    "BASE_URL": "https://api.example.com/v1",
    "ALLOWED_HOSTS": "api.example.com",
    "TRUSTED_PROXY_COUNT": "1",
    "SECRET_KEY": "a production secret that is long enough, and has many different characters: 0123",
    "API_KEY_PEPPERS": "1:a-production-pepper-that-is-long-enough",
    "DATABASE_URL": "sqlite:////tmp/petstore-checks.sqlite3",
}
CHECKS = {
    "No model change lacks its migration": ["makemigrations", "--check", "--dry-run"],
    "The deployment settings are sound": ["check", "--deploy", "--fail-level", "WARNING"],
    "The OpenAPI document builds without a warning": [
        "spectacular", "--validate", "--fail-on-warn", "--file", os.devnull
    ],
}  # fmt: skip


def passes(name: str, command: list[str], **variables: str) -> bool:
    """Run a check and print its result, with its output if it failed."""
    settings = os.environ | environment.FIXED | PRODUCTION | variables
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    print(f"{'FAILED' if done.returncode else 'ok    '} {name}")
    if done.returncode:
        print(done.stdout, done.stderr)
    return done.returncode == 0


def migrations_are_safe() -> bool:
    """Check the migrations. In CI, fail if no PostgreSQL responds, since a skip would go unnoticed."""
    name = "New migrations are safe while the version before them serves"
    postgresql = servers.postgresql()
    if postgresql is not None:
        command = [sys.executable, "-m", "tests.migration_safety"]
        return passes(name, command, DATABASE_URL=postgresql)
    print(f"SKIPPED {name}: no PostgreSQL responds. Start one with `docker compose up -d`.")
    return os.environ.get("CI") != "true"


def main() -> int:
    """Run all checks; return 1 if one failed."""
    passed = [passes(name, [*MANAGE, *command]) for name, command in CHECKS.items()]
    return int(not all([*passed, migrations_are_safe()]))


if __name__ == "__main__":
    sys.exit(main())
