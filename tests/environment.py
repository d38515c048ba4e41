"""The environment variables of all tests; a pytest plugin, so that it is loaded before Django's settings.

`DATABASE_URL` is inherited: it selects the database. Everything else is fixed, so that neither a
developer's .env nor the shell changes a result.
"""

import atexit
import os
import sys
import tempfile
from pathlib import Path

FIXED = {
    "PYTHON_DOTENV_DISABLED": "1",
    "DEBUG": "false",
    "DATABASE_REPLICA_URL": "",  # Tests that read from replicas start servers.
    "ENVIRONMENT": "production",
    "PORT": "8000",
    "BASE_URL": "http://testserver/v1",
    "STAGING_BASE_URL": "http://staging.testserver/v1",
    "ALLOWED_HOSTS": "testserver,localhost,127.0.0.1",
    "TRUSTED_PROXY_COUNT": "0",
    "STAFF_TWO_FACTOR": "optional",
    "SECRET_KEY": "the tests' own secret key, long enough for every check there is",
    "SECRET_KEY_FALLBACKS": "",
    "API_KEY_PEPPERS": "1:an-old-pepper-for-the-tests-long-enough,2:a-new-pepper-for-the-tests-long-enough",
    "ANONYMOUS_PER_MINUTE": "1000000",
    "PAGES_PER_MINUTE": "1000000",
    "LOG_FORMAT": "json",
    "LOG_LEVEL": "info",
    "ACCESS_LOG": "true",
    "DEMO_KEY": "",
    "SUPPORT_URL": "",
    "SUPPORT_EMAIL": "",
    "SECURITY_CONTACT": "",
    "SECURITY_EXPIRES": "",
    "METRICS_HOST": "",
    "METRICS_PORT": "",
    "METRICS_DIR": "",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "",
}

os.environ |= FIXED
counters = tempfile.TemporaryDirectory(prefix="petstore-counters-")
atexit.register(counters.cleanup)
os.environ["COUNTERS_DIR"] = counters.name
# jsonschema would import this IRI checker, which is slow to load and unused.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
if not os.environ.get("DATABASE_URL"):
    os.environ["DATABASE_URL"] = f"sqlite:///{Path(tempfile.gettempdir()) / 'petstore-unused.sqlite3'}"
