"""Pytest hooks and the fixtures that most tests share. run.py decides which tests run on which database."""

import gc
import itertools
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import django.test.client
import httpx
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import ContextList
from httpx._transports import default

from accounts.models import Account, Actor, ApiKey, PlanCode
from inventory.models import Category
from tests.support.live import Service, live_service
from tests.support.migrated import migrated_database, name_of
from tests.support.restoring import restoring_after_commits

TESTS = Path(__file__).parent
pytest_plugins = ["tests.support.isolation"]
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # Fast.
settings.WHITENOISE_AUTOREFRESH = True  # Each new client would scan all static files.

logging.getLogger("httpx").setLevel(logging.WARNING)  # It would log every request.
# Each client, and each `httpx.get`, would parse the CA bundle again.
default.create_ssl_context = cache(httpx.create_ssl_context)  # type: ignore[attr-defined]

DATABASE = {"db", "transactional_db", "django_db_setup"}  # Fixtures that give access to the database.
ON_SQLITE = connection.vendor == "sqlite"
OPERATOR = Actor("tests")
Issue = Callable[..., tuple[ApiKey, str]]  # The fixture `issue`.
gc.set_threshold(10_000)  # The default of 700 slows the tests noticeably.
finished_tests = itertools.count(1)

# For tests that need real commits: django_db_setup restores the database after them.
COMMITTED = pytest.mark.django_db(transaction=True)


def store_contexts(store: dict[str, Any], context: Any, **_: Any) -> None:
    """Copy each context of a page once, not for every template as Django does, which is slow."""
    rendered = store.setdefault("rendered", [])
    if not any(seen is context for seen in rendered):
        rendered.append(context)
        store.setdefault("context", ContextList()).append(copy(context))


django.test.client.store_rendered_templates = store_contexts  # type: ignore[attr-defined]


def pytest_collection_finish() -> None:
    """Exempt the objects loaded so far from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """Let the garbage collector close unused SQLite files before there are a thousand of them."""
    if next(finished_tests) % 100 == 0:
        gc.collect()


SYSTEM = {"system", "chaos", "load", "simulation"}  # Folders of tests that start services.
# The slowest of their files, slowest first, so that the last to start are short. Those of a browser come
# before all others, since a process keeps its browser and its service from one such file to the next.
BROWSER = TESTS / "system/browser"
SLOWEST = (
    "system/clients/test_examples.py", "system/clients/test_packages.py",
    "system/quota/test_concurrency.py", "system/test_commands.py", "system/test_rotation.py",
    "chaos/test_chaos.py", "system/events/test_webhook_race.py", "system/hostile/test_bodies.py",
    "system/test_metrics.py",
    "system/test_graceful_stop.py", "system/operations/test_losing_postgresql.py",
    "system/clients/test_schemathesis.py", "system/test_idempotency.py", "system/test_conformance.py",
    "system/event_loop/test_idempotency.py", "system/clients/test_generated_clients.py",
    "system/operations/test_several_machines.py", "system/test_serve_modes.py",
    "simulation/test_simulation.py", "system/hostile/test_slow_clients.py", "system/test_order_races.py",
    "system/test_readme.py", "system/operations/test_doctor.py", "system/operations/test_backup.py",
    "system/operations/test_pgbouncer.py", "system/test_mail.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its kind, and those that use the database of this process.

    System tests come first, those in a browser before the others.
    """
    for item in items:
        folder, *_ = item.path.relative_to(TESTS).parts
        item.add_marker("system" if folder in SYSTEM else folder)
        if item.get_closest_marker("django_db") or DATABASE.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("database")

    positions = {TESTS / file: position for position, file in enumerate(SLOWEST)}

    def get_position(item: pytest.Item) -> int:
        if BROWSER in item.path.parents:
            return -1
        return positions.get(item.path, len(SLOWEST) + ("system" not in item.keywords))

    items.sort(key=get_position)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Copy a migrated database for this process.

    SQLite's copy is a file, as in production, so that all threads see the same database.
    """
    database = settings.DATABASES["default"]
    test = database.setdefault("TEST", {})
    if ON_SQLITE:
        test["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")
        shutil.copyfile(name_of(migrated_database()), test["NAME"])
    else:
        # Not Django's name, which another session on this server would use, too.
        test["NAME"] = f"petstore_test_{uuid4().hex}"
        test["TEMPLATE"] = name_of(migrated_database())


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Let Django use the copied file on SQLite."""
    return ON_SQLITE


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Restore the database after tests that commit."""
    with restoring_after_commits(django_db_blocker):
        yield


class Api:
    """A JSON client of the API that sends a key."""

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
def issue(account: Account) -> Issue:
    """Issues a key to the account."""

    def issue(of: Account = account, **options: Any) -> tuple[ApiKey, str]:
        return ApiKey.objects.issue(of, by=OPERATOR, **options)

    return issue


@pytest.fixture
def key(issue: Issue) -> ApiKey:
    """A key with all scopes; its text is `key.text`."""
    key, text = issue()
    key.text = text  # type: ignore[attr-defined]
    return key


@pytest.fixture
def api(key: Any) -> Api:
    """A client with the key."""
    return Api(key.text)


@pytest.fixture
def anonymous_api(db: None) -> Api:
    """A client without a key."""
    return Api(None)


@pytest.fixture
def category(db: None) -> Category:
    """One of the starter categories."""
    return Category.objects.earliest("id")


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service on its production server, with 4 workers and a temporary database."""
    folder = tmp_path_factory.mktemp("service")
    with live_service(folder, workers=4, METRICS_DIR=str(folder)) as service:
        yield service
