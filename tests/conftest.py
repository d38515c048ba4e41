"""The small cast that the tests share."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations
from django.test import Client

from accounts.models import Account, Actor, ApiKey, PlanCode
from accounts.quota.admission import QuotaStore
from accounts.quota.database_store import DatabaseQuotaStore
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.redis_store import RedisQuotaStore
from accounts.usage.write_behind import UsageRecorder
from inventory.fields import seen_categories
from inventory.models import Category
from petstore.loop.scripts import Scripts
from tests.support.live import Service, live_service
from tests.support.servers import RedisServer, redis_server

TESTS = Path(__file__).parent

logging.getLogger("httpx").setLevel(logging.WARNING)  # It would log every request.

OPERATOR = Actor("tests")
AUDIT = "backoffice_auditentry"

# For tests that need real commits. What the migrations put into the database is put back for them.
COMMITTED = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the name of its folder."""
    for item in items:
        item.add_marker(item.path.relative_to(TESTS).parts[0])


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Keep SQLite's test database in a file, as the service does: threads then see one database."""
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        path = tmp_path_factory.mktemp("database") / "test.sqlite3"
        database.setdefault("TEST", {})["NAME"] = str(path)


@pytest.fixture(scope="session", autouse=True)
def audit_trail_goes_between_tests() -> Iterator[None]:
    """Empty all tables after a test that commits, the audit trail too: its triggers rest meanwhile.

    In the transaction that empties the tables, and by the tables' owner: nothing of the service can do it.
    """
    flush = BaseDatabaseOperations.execute_sql_flush

    def flush_all(operations: Any, statements: list[str]) -> None:
        if operations.connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                found = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
                triggers = cursor.execute(found).fetchall()
            drops = [f'DROP TRIGGER "{name}"' for name, _ in triggers]
            statements = [*drops, *statements, *(sql for _, sql in triggers)]
        else:
            rest, wake = (f"ALTER TABLE {AUDIT} {verb} TRIGGER USER" for verb in ("DISABLE", "ENABLE"))
            statements = [rest, *statements, wake]
        flush(operations, statements)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", flush_all)
        yield


@pytest.fixture(autouse=True)
def own_counters(settings: Any, tmp_path: Any) -> Iterator[None]:
    """Give each test counters of its own."""
    settings.CACHES = {
        "default": {"BACKEND": "petstore.cache.machine.MachineCounters", "LOCATION": str(tmp_path)}
    }
    yield
    cache.close()


@pytest.fixture(autouse=True)
def no_category_was_seen() -> None:
    """Let no test know categories of another."""
    seen_categories.clear()


@pytest.fixture(autouse=True)
def own_recorder(monkeypatch: pytest.MonkeyPatch) -> UsageRecorder:
    """Give each test a usage recorder of its own, which writes when the test says so."""
    recorder = UsageRecorder()
    monkeypatch.setattr("accounts.usage.write_behind.recorder", recorder)
    return recorder


class Api:
    """A client of the API with a key, which speaks JSON."""

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.client = Client(raise_request_exception=False)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request under /v1. Keyword arguments are headers, with _ for -."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key is not None:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        content_type = sent.pop("Content-Type", "application/json")
        return self.client.generic(
            method, f"/v1{path}", body or b"", content_type=content_type, headers=sent
        )

    def get(self, path: str, **headers: str) -> Any:
        """Send a GET."""
        return self("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Send a POST with a JSON body, or with these bytes."""
        return self("POST", path, body, **headers)


@pytest.fixture
def account(db: None) -> Account:
    """An account on the Business plan."""
    return Account.objects.create(name="Acme Pets", plan_id=PlanCode.BUSINESS)


@pytest.fixture
def issue(account: Account) -> Callable[..., tuple[ApiKey, str]]:
    """Issues a key to the account."""

    def issue(of: Account = account, **options: Any) -> tuple[ApiKey, str]:
        return ApiKey.objects.issue(of, by=OPERATOR, **options)

    return issue


@pytest.fixture
def key(issue: Callable[..., tuple[ApiKey, str]]) -> ApiKey:
    """A key with all scopes; its text is `key.text`."""
    key, text = issue()
    key.text = text  # type: ignore[attr-defined]
    return key


@pytest.fixture
def api(key: Any) -> Api:
    """A client with the key."""
    return Api(key.text)


@pytest.fixture
def stranger(db: None) -> Api:
    """A client without a key."""
    return Api(None)


@pytest.fixture
def category(db: None) -> Category:
    """One of the starter categories."""
    return Category.objects.earliest("id")


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis of the tests' own."""
    if shutil.which("redis-server") is None:
        assert os.environ.get("CI") != "true", "CI must test on Redis: install redis-server."
        pytest.skip("No redis-server is installed.")
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(autouse=True)
def closed_scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test has opened to Redis: the collector would warn of it, in whatever test it comes."""
    made: list[Scripts] = []
    init = Scripts.__init__

    def note(scripts: Scripts, url: str) -> None:
        init(scripts, url)
        made.append(scripts)

    monkeypatch.setattr(Scripts, "__init__", note)
    yield
    for scripts in made:
        scripts.close()


@pytest.fixture(autouse=True)
def closed_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the threads that look for a Redis which a test has lost: they would meet the next tests."""
    made: list[FallbackQuotaStore] = []
    init = FallbackQuotaStore.__init__

    def note(store: FallbackQuotaStore, redis: Any, database: Any) -> None:
        init(store, redis, database)
        made.append(store)

    monkeypatch.setattr(FallbackQuotaStore, "__init__", note)
    yield
    for store in made:
        store.close()


@pytest.fixture(params=["database", "redis"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, db: None) -> QuotaStore:
    """Each quota store in turn; the one on Redis hears of changes at once, for a test never commits."""
    if request.param == "database":
        return DatabaseQuotaStore()
    server: RedisServer = request.getfixturevalue("redis")
    server.client.flushall()
    store = RedisQuotaStore(server.url)
    monkeypatch.setattr("accounts.quota.store.redis", store)
    monkeypatch.setattr(
        "accounts.quota.publishing.transaction.on_commit", lambda tell, robust=False: tell()
    )
    return store


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service on its production server, with 4 workers and a database of its own."""
    with live_service(tmp_path_factory.mktemp("service"), workers=4) as service:
        yield service
