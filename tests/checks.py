"""The static checks that need Django: what `make check` and CI call after lint and types."""

import os
import subprocess
import sys

MANAGE = [sys.executable, "-W", "error", "manage.py"]
PRODUCTION = {
    "DEBUG": "false",
    "BASE_URL": "https://api.example.com/v1",
    "ALLOWED_HOSTS": "api.example.com",
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


def main() -> int:
    """Run all; return 1 if one failed."""
    failed = 0
    for name, command in CHECKS.items():
        done = subprocess.run(
            [*MANAGE, *command], env=os.environ | PRODUCTION, capture_output=True, text=True, check=False
        )
        print(f"{'ok    ' if done.returncode == 0 else 'FAILED'} {name}")
        if done.returncode:
            failed = 1
            print(done.stdout, done.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
