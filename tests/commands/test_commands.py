"""Commands for operators: text, --json and errors (D36, D37)."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from accounts.models import Account, ApiKey, OutboxEvent
from accounts.usage import reports
from inventory.models import Category, Pet
from petstore import compatibility
from petstore.audit.models import AuditEntry
from petstore.management.commands import serve
from tests.conftest import OPERATOR, Api, Issue
from tests.support.commands import get_error, run, run_json
from tests.support.servers import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.same_on_both]


# --- issue_key -----------------------------------------------------------------------------------


def test_issued_key_works_and_is_printed_as_text_or_json() -> None:
    key_text, _, message = run("issue_key", "--account", "Acme Pets", "--plan", "pro").partition("\n")
    key = ApiKey.objects.get()
    assert message == f"\nKey {key.public_id} of Acme Pets (Pro). Copy it now: it can't be shown again.\n"
    assert AuditEntry.objects.get().actor_name.endswith(" (command)")
    before = timezone.now()
    result = run_json(
        "issue_key", "--account", "Acme Pets", "--name", "Till 3", "--scopes", "pets:read, orders:read",
        "--expires-in-days", "30", "--allow-from", "127.0.0.0/8, 2001:db8::/32",
    )  # fmt: skip
    key = ApiKey.objects.latest("id")
    expected = {
        "id": key.public_id, "account": "Acme Pets", "plan": "pro", "name": "Till 3", "state": "active",
        "scopes": ["pets:read", "orders:read"], "allowed_networks": ["127.0.0.0/8", "2001:db8::/32"],
    }  # fmt: skip
    assert expected.items() <= result.items()  # Later versions may add members.
    end = datetime.fromisoformat(result["expires_at"])
    assert before <= end - timedelta(days=30) <= timezone.now()
    for text in (key_text, result["key"]):
        assert Api(text).get("/pets").status_code == 200


def test_account_starts_on_its_plan_and_keeps_it_by_default() -> None:
    assert "--account" in get_error("issue_key", "--plan", "free")
    assert run_json("issue_key", "--account", "New")["plan"] == "free"
    enterprise = ("issue_key", "--account", "Big", "--plan", "enterprise", "--per-day", "9000")
    run(*enterprise, "--per-minute", "5000")
    assert set(OutboxEvent.objects.values_list("type", flat=True)) == {"key.issued"}
    assert run_json("issue_key", "--account", " Big ")["plan"] == "enterprise"
    run("issue_key", "--account", "Big", "--plan", "enterprise")
    assert Account.objects.get(name="Big").limits.per_minute == 5_000
    run(*enterprise, "--per-minute", "7000")
    assert Account.objects.get(name="Big").limits.per_minute == 7_000
    assert run_json("issue_key", "--account", "Big", "--plan", "free")["plan"] == "free"
    assert OutboxEvent.objects.filter(type="plan.changed", data__contains='"free"').count() == 1


def test_concurrently_created_account_gets_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    full_clean = Account.full_clean

    def create_concurrently(account: Account, *args: Any, **kwargs: Any) -> None:
        Account.objects.get_or_create(name="Concurrent Pets", defaults={"plan_id": "free"})
        full_clean(account, *args, **kwargs)

    monkeypatch.setattr(Account, "full_clean", create_concurrently)
    key = run_json("issue_key", "--account", "Concurrent Pets", "--plan", "pro")
    assert ApiKey.objects.get(public_id=key["id"]).account == Account.objects.get(name="Concurrent Pets")


ENTERPRISE = ("--plan", "enterprise")
EARLIER_SETTING, SETTING = next(iter(compatibility.SETTINGS.items()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plan", "gold"), "invalid choice: 'gold'"),
        (("--account", "   "), "--account must be a name of 1 to 255 characters."),
        (("--account", "n" * 256), "--account must be a name of 1 to 255 characters."),
        (("--name", "n" * 256), "name: Ensure this value has at most 255 characters"),
        (("--scopes", ""), "Choose at least one scope."),
        (("--expires-in-days", "36501"), "--expires-in-days must be from 1 to 36500."),
        (("--allow-from", "the office"), "Not a network in CIDR form: 'the office'"),
        (("--allow-from", " , "), "--allow-from names no network. Omit it to allow all."),
        (ENTERPRISE, "An Enterprise account needs both limits, per minute and per day."),
    ],
)
def test_invalid_option_is_named_and_has_no_effect(options: tuple[str, ...], message: str) -> None:
    assert message in get_error("issue_key", "--account", "Acme Pets", *options)
    assert not Account.objects.exists()
    assert not ApiKey.objects.exists()


# --- list_keys -----------------------------------------------------------------------------------


def test_keys_are_listed_newest_first_without_secrets(issue: Issue) -> None:
    assert run("list_keys") == "There are no keys. Issue one with issue_key.\n"
    assert run_json("list_keys") == []
    (old, text), (new, _) = issue(name="Till 3"), issue()
    new.revoke(reason="Lost", by=OPERATOR)
    listed = run("list_keys")
    _, *lines = [line.split() for line in listed.splitlines()]
    assert [(line[0], line[4]) for line in lines] == [(new.public_id, "revoked"), (old.public_id, "active")]
    assert text.split("_")[3] not in listed
    assert not ({"key", "digest"} & run_json("list_keys")[0].keys())
    other = run_json("issue_key", "--account", "Other Pets")["id"]
    ids = [row["id"] for row in run_json("list_keys")]
    assert ids == [other, new.public_id, old.public_id]
    assert [row["id"] for row in run_json("list_keys", "--account", " Acme Pets ")] == ids[1:]
    for name in ("Unknown", ""):
        assert f"No account has the name {name!r}." in get_error("list_keys", "--account", name)


# --- rotate_key ----------------------------------------------------------------------------------


def test_rotated_key_gets_a_replacement_after_an_overlap_of_up_to_a_year(issue: Issue) -> None:
    old, old_text = issue()
    for hours in ("-1", "8761"):
        message = get_error("rotate_key", old.public_id, "--overlap-hours", hours)
        assert message == "--overlap-hours must be from 0 to 8760."
    printed = run("rotate_key", old.public_id)
    new = ApiKey.objects.exclude(pk=old.pk).get()
    old.refresh_from_db()
    assert f"Key {new.public_id} replaces {old.public_id}, which expires at {old.expires_at}." in printed
    result = run_json("rotate_key", new.public_id, "--overlap-hours", "0")
    assert (result["state"], result["replaces"]["id"]) == ("active", new.public_id)
    assert result["replaces"]["state"] == "expired"
    texts = (old_text, result["key"], printed.splitlines()[0])
    assert [Api(text).get("/pets").status_code for text in texts] == [200, 200, 401]


# --- narrow_key ----------------------------------------------------------------------------------


def test_narrowed_key_loses_rights_which_its_replacement_keeps(issue: Issue) -> None:
    key, text = issue()
    replacement, _ = key.rotate(by=OPERATOR)
    options = ("--scopes", "pets:read", "--allow-from", "127.0.0.0/8,::1/128", "--reason", "Only reads")
    errors = StringIO()
    printed = run("narrow_key", key.public_id, *options, stderr=errors)
    assert printed == f"Done. Key {key.public_id} of Acme Pets is narrowed.\n"
    assert errors.getvalue() == f"Its replacement, key {replacement}, keeps its rights.\n"
    assert Api(text).get("/pets").status_code == 200
    assert Api(text).get("/store/orders").json()["code"] == "insufficient_scope"
    assert key.audit_entries.get(action="narrowed").reason == "Only reads"


def test_narrow_key_sets_the_latest_expiry(issue: Issue) -> None:
    for option, value, end in (
        ("--expires-at", "2100-01-31T18:00+02:00", datetime(2100, 1, 31, 16, tzinfo=UTC)),
        ("--expires-in-days", "7", timezone.now() + timedelta(days=7)),
    ):
        result = run_json("narrow_key", issue()[0].public_id, option, value)
        assert result["expires_at"] == result["max_expires_at"]
        assert abs(datetime.fromisoformat(result["expires_at"]) - end) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--allow-from", ""), "allowed_networks: An empty list would allow every address."),
        (("--expires-in-days", "0"), "--expires-in-days must be from 1 to 36500."),
        (("--expires-at", "9999-12-31T23:59-23:00"), "expires_at: A key must expire within 100 years."),
        (("--expires-at", "0001-01-01T00:00+23:00"), "expires_at: This time has passed."),
        (("--expires-at", "soon"), "Enter a valid date/time."),
        (("--expires-at", "2100-01-01", "--expires-in-days", "7"), "not allowed with argument"),
    ],
)
def test_narrow_key_explains_an_error(issue: Issue, options: tuple[str, ...], message: str) -> None:
    key, _ = issue(allowed_networks=["10.0.0.0/8"])
    assert message in get_error("narrow_key", key.public_id, *options)
    assert not key.audit_entries.filter(action="narrowed").exists()


# --- suspend_account -----------------------------------------------------------------------------


def test_suspended_account_is_rejected_until_lifted(issue: Issue) -> None:
    _, text = issue()
    assert "No account has the name 'Unknown'." in get_error("suspend_account", "Unknown", "--reason", "x")
    result = run("suspend_account", "Acme Pets", "--reason", "Unpaid")
    assert result == "Done. Acme Pets is suspended.\n"
    assert Api(text).get("/pets").json()["code"] == "account_suspended"
    done = run_json("suspend_account", "Acme Pets", "--lift", "--reason", "Paid")
    assert done == {"account": "Acme Pets", "suspended_at": None}
    assert Api(text).get("/pets").status_code == 200


# --- revoke_key ----------------------------------------------------------------------------------


def test_revoked_key_is_rejected(issue: Issue) -> None:
    key, text = issue()
    assert "--reason" in get_error("revoke_key", key.public_id)
    assert Api(text).get("/pets").status_code == 200
    result = run_json("revoke_key", key.public_id, "--reason", "Laptop stolen")
    assert (result["id"], result["state"]) == (key.public_id, "revoked")
    assert Api(text).get("/pets").status_code == 401
    key.refresh_from_db()
    assert key.revoked_reason == "Laptop stolen"


@pytest.mark.parametrize("command", [("rotate_key", "nothing"), ("revoke_key", "nothing", "--reason", "x")])
def test_unknown_key_is_reported(db: None, command: tuple[str, ...]) -> None:
    assert get_error(*command) == "No key has the ID nothing. List keys with list_keys."


# --- seed_demo -----------------------------------------------------------------------------------


def test_seed_demo_needs_a_category_and_a_valid_count_and_skips_a_shop_with_pets() -> None:
    assert get_error("seed_demo", "--pets", "-1") == "--pets must be 0 or more."
    assert run_json("seed_demo", "--pets", "3", "--if-empty") == {"added": 3}
    assert run("seed_demo", "--if-empty") == "Done. Pets already exist; none were added.\n"
    assert Pet.objects.count() == 3
    Pet.objects.all().delete()
    Category.objects.all().delete()
    assert "There are no categories." in get_error("seed_demo")


# --- quickstart ----------------------------------------------------------------------------------


def test_first_start_prints_a_working_call_and_login_and_the_second_no_secret(client: Any) -> None:
    def count_rows() -> list[int]:
        return [model._default_manager.count() for model in (ApiKey, User, Pet, Account)]

    printed = run("quickstart")
    key = printed.partition("API key     ")[2].split()[0]
    assert f"  curl -H 'Authorization: Bearer {key}' 'http://testserver/v1/pets?limit=3'\n" in printed
    assert len(Api(key).get("/pets?limit=3").json()) == 3
    assert client.login(username="admin", password=printed.partition("   password ")[2].split()[0])
    days = reports.get_daily_usage(90)
    assert all(day.admitted for day in days[:-1])  # Today may have just begun.
    counts = count_rows()
    assert counts[1:] == [1, 300, 41]  # 40 customers, and the account of the key.
    again = run_json("quickstart")
    assert (again["key"], again["password"], again["docs"]) == (None, None, "http://testserver/docs")
    printed = run("quickstart")
    assert "psk_" not in printed
    assert "password unchanged" in printed
    assert count_rows() == counts
    assert run_json("issue_key", *printed.partition("manage.py issue_key")[2].split())["account"] == "Demo"


@pytest.mark.parametrize("person", [{"username": "ann", "is_staff": True}, {"username": "admin"}])
def test_start_adds_no_demo_customers_to_real_ones_and_no_staff_to_others(person: dict[str, Any]) -> None:
    Account.objects.create(name="Acme", plan_id="free")
    User.objects.create_user(**person)
    run("quickstart")
    assert {account.name for account in Account.objects.all()} == {"Acme", "Demo"}
    assert (Pet.objects.count(), User.objects.count()) == (300, 1)


@pytest.fixture
def demo_key(tmp_path: Path, settings: Any) -> Callable[[], str]:
    """Runs quickstart with the key written by the run before, and returns the new DEMO_KEY."""
    Account.objects.create(name="Acme", plan_id="free")  # It adds no demo customers, which takes long.
    file = tmp_path / ".env"
    file.write_text("SECRET_KEY=unchanged")

    def start() -> str:
        run("quickstart", "--demo-key-to", str(file))
        secret_key, demo_key = file.read_text().splitlines()
        assert secret_key == "SECRET_KEY=unchanged"
        settings.DEMO_KEY = key = demo_key.removeprefix("DEMO_KEY=")
        return key

    return start


def test_demo_key_is_read_only_and_replaced_when_inactive(demo_key: Callable[[], str]) -> None:
    first = demo_key()
    api = Api(first)
    assert api.get("/pets?limit=3").status_code == 200
    assert api.post("/pets", {"name": "Rex", "categoryId": 1}).status_code == 403
    for path in ("/store/orders", "/events"):
        assert api.get(path).status_code == 403
    assert ApiKey.objects.get(scopes="pets:read").account.plan_id == "free"
    assert demo_key() == first
    run("revoke_key", first.split("_")[2], "--reason", "Seen too often.")
    assert Api(demo_key()).get("/pets").status_code == 200


@pytest.mark.parametrize("content", ["SECRET_KEY=unchanged".encode("utf-16"), b"NAME=caf\xe9", None])
def test_unwritable_demo_key_file_is_reported_first(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "missing" / ".env" if content is None else tmp_path / ".env"
    if content is not None:
        file.write_bytes(content)
    assert f"Can't write DEMO_KEY to {file}: " in get_error("quickstart", "--demo-key-to", str(file))
    assert content is None or file.read_bytes() == content
    assert not User.objects.exists()
    assert not ApiKey.objects.exists()


# --- serve ---------------------------------------------------------------------------------------


@pytest.fixture
def taken_port() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0), reuse_port=True)) as listener:
        yield listener.getsockname()[1]


def test_address_that_can_not_be_bound_is_rejected(taken_port: int) -> None:
    for port in ("65536", "70000", "0", "-1"):
        assert "a port is a number from 1 to 65535. Choose another" in get_error("serve", "--port", port)
    for host in ("192.0.2.1", "", "[::1]", "a..b", "x" * 80, "fe80::1%lo"):
        assert f"Can't listen on {host or 'an empty host'} port " in get_error("serve", "--host", host)
    message = get_error("serve", "--port", str(taken_port))
    assert f"Can't listen on 127.0.0.1 port {taken_port}: " in message
    assert message.endswith("Choose another with --host, --port or PORT.")


def test_outdated_settings_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "exec_supervisor", lambda options: None)
    monkeypatch.setattr("signal.pthread_sigmask", lambda *_: None)
    monkeypatch.setenv("REDIS_URL", "redis://cache")
    monkeypatch.setenv(EARLIER_SETTING, "3")
    err = StringIO()
    run("serve", "--port", str(free_port()), stderr=err)
    assert sorted(err.getvalue().splitlines()) == sorted(
        [
            "REDIS_URL is ignored: the database counts requests. Remove it.",
            f"{EARLIER_SETTING} is now {SETTING}. The next version ignores the earlier name.",
        ]
    )


def test_serve_validates_workers_threads_and_metrics_settings(tmp_path: Path, settings: Any) -> None:
    port = str(free_port())
    for options in (("--workers", "0"), ("--workers", "-1"), ("--threads", "0")):
        assert "must be 1 or more" in get_error("serve", "--port", port, *options)
    settings.METRICS_PORT = int(port)
    assert "METRICS_PORT is the same port." in get_error("serve", "--port", port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings.METRICS_PORT = listener.getsockname()[1]
        error = get_error("serve", "--port", port)
    assert error.endswith("Address already in use. Choose another with METRICS_HOST or METRICS_PORT.")
    settings.METRICS_HOST = "192.0.2.1"
    assert "Can't listen on 192.0.2.1 port" in get_error("serve", "--port", port)
    settings.METRICS_HOST = ""
    settings.METRICS_DIR = str(tmp_path / "missing")
    assert "METRICS_DIR must be a writable folder, not '" in get_error("serve", "--port", str(free_port()))
