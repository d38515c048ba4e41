"""What a form, a verb or a page costs does not grow with what an account or a table has collected."""

from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Account, ApiKey, Invitation, RateLimitState, Role
from inventory.models import Category, Pet
from tests.conftest import OPERATOR
from tests.support.costs import explain, measure, recorded_statements
from tests.support.members import member_of
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.staff import PASSWORD, page_url, signed_in
from tests.support.staff import member_of as staff_member

ROWS = 50_000
MAX_ROWS, MAX_STEPS = 2_000, 100_000  # Of an act. A scan of ROWS takes some 200,000 steps.
# The key comes first.
STATE_COLUMNS = [str(field.column) for field in RateLimitState._meta.concrete_fields]
HISTORY = [
    # Half of the keys were revoked, the others have expired.
    """INSERT INTO accounts_apikey (account_id, public_id, mode, name, digest, pepper_number, scopes,
                                    allowed_networks, created_at, expires_at, revoked_at, revoked_reason)
       SELECT {account}, 'history' || n, 'live', '', '', 1, 'pets:read', '[]', {ago_90},
              CASE WHEN n % 2 = 0 THEN {ago_60} END, CASE WHEN n % 2 = 1 THEN {ago_60} END,
              CASE WHEN n % 2 = 1 THEN 'x' ELSE '' END FROM numbers""",
    f"""INSERT INTO accounts_ratelimitstate ({", ".join(STATE_COLUMNS)})
        SELECT id{", 0" * (len(STATE_COLUMNS) - 1)} FROM accounts_apikey WHERE public_id LIKE 'history%'""",
    """INSERT INTO accounts_dailyusage (key_id, day, admitted, rejected)
       SELECT id, date({ago_60}), 1, 0 FROM accounts_apikey WHERE public_id LIKE 'history%'""",
    # Of the account, of its keys, and of something else with the ID of the next key.
    """INSERT INTO backoffice_auditentry (at, actor_name, action, model, object_id, object_text, before,
                                          after, reason, address, request_id)
       SELECT {ago_60}, '', CASE n % 3 WHEN 1 THEN 'issued' ELSE 'changed' END,
              CASE n % 3 WHEN 0 THEN 'accounts.account' WHEN 1 THEN 'accounts.apikey'
              ELSE 'accounts.webhookendpoint' END,
              CAST(CASE n % 3 WHEN 0 THEN {account} WHEN 1 THEN n
              ELSE (SELECT max(id) + 1 FROM accounts_apikey) END AS varchar(255)), '', '{{}}', '{{}}', '',
              '127.0.0.1', '' FROM numbers""",
    """INSERT INTO auth_user (password, is_superuser, username, first_name, last_name, email, is_staff,
                              is_active, date_joined)
       SELECT '', false, 'user-' || n, '', '', 'user-' || n || '@example.com', false, true, {ago_60}
       FROM numbers""",
    # A customer can order and cancel the same pet again and again.
    """INSERT INTO inventory_order (account_id, pet_id, status, created_at, updated_at)
       SELECT {account}, (SELECT max(id) FROM inventory_pet), 'cancelled', {ago_60}, {ago_60}
       FROM numbers""",
]
NUMBERS = {
    "postgresql": f"WITH numbers AS (SELECT n FROM generate_series(1, {ROWS}) AS n)",
    "sqlite": f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT {ROWS})",
}


def fill(account: Account) -> None:
    is_postgresql = connection.vendor == "postgresql"
    ago = "(now() - interval '{0} days')" if is_postgresql else "datetime('now', '-{0} days')"
    with connection.cursor() as cursor:
        for statement in HISTORY:
            numbers = NUMBERS[connection.vendor] + " " if "FROM numbers" in statement else ""
            values = {"account": account.pk, "ago_60": ago.format(60), "ago_90": ago.format(90)}
            cursor.execute(numbers + statement.format(**values))
        if is_postgresql:
            cursor.execute("ANALYZE")


def test_work_does_not_grow_with_history(account: Account, category: Category) -> None:
    owner, clerk = member_of(account), staff_member("Stock")
    support, boss, stock = map(signed_in, (staff_member("Support"), staff_member("Owner"), clerk))
    pet = Pet.objects.create(name="Rex", category=category)
    fill(account)
    portal, office = f"/account/{account.public_id}/", f"/admin/accounts/account/{account.pk}/"
    keys = [ApiKey.objects.issue(account, by=OPERATOR)[0] for _ in range(3)]
    verbs = ("rotate", "narrow", "revoke")
    rotate, narrow, revoke = (f"{portal}keys/{key}/{verb}/" for key, verb in zip(keys, verbs, strict=True))
    _, link = Invitation.objects.invite(account, email="new@example.com", role=Role.OWNER, by=OPERATOR)
    join, reason = link[link.index("/account/") :], {"reason": "x"}
    new_user = {"username": "newcomer", "password1": PASSWORD, "password2": PASSWORD}
    new_key = {"account": account.pk, "scopes": ["pets:read"], "name": "new"}
    acts: list[tuple[int, Client, str, dict[str, Any] | None]] = [  # The status of a GET or of a POST.
        (200, owner, portal, None),
        (200, owner, f"{portal}keys/", None),
        (200, owner, f"{portal}people/", None),
        (200, owner, f"{portal}keys/issue/", new_key),
        (200, owner, rotate, {}),
        (302, owner, narrow, {"key_scopes": ["pets:read"], **reason}),
        (302, owner, revoke, reason),
        (200, owner, f"{portal}people/", {"email": "ben@example.com", "role": "reader"}),
        (302, owner, "/account/email/", {"email": "kim2@example.com", "action_add": ""}),
        (302, Client(), join, new_user),
        (302, Client(), "/account/login/", {"login": "newcomer", "password": PASSWORD}),
        (200, Client(), "/account/login/", {"login": "user-7@example.com", "password": "wrong"}),
        (200, support, f"{office}change/", None),
        (200, support, "/admin/accounts/apikey/add/", new_key),
        (200, boss, f"/admin/auth/user/{clerk.pk}/password/", reason),
        (302, support, f"{office}suspend/", reason),
        (302, support, f"{office}lift-suspension/", reason),
        (302, support, f"{office}change-plan/", {"choice": "pro", **reason}),
        (302, stock, page_url(pet), {"name": "Rex", "category": category.pk, "status": "pending"}),
        (200, support, page_url(keys[0]), None),
    ]
    for status, client, path, form in acts:

        def act(client: Client = client, path: str = path, form: Any = form, status: int = status) -> None:
            response = client.get(path) if form is None else client.post(path, form)
            assert response.status_code == status, response.text

        work = measure(act)
        assert work <= (MAX_ROWS if connection.vendor == "postgresql" else MAX_STEPS), (path, work)


def test_statements_have_no_parameter_for_each_key(account: Account) -> None:
    """Members can end 9,000 keys in 90 days. PostgreSQL rejects more than 65,535 parameters."""
    parameters = []
    for count in (1, 2):
        ApiKey.objects.issue(account, by=OPERATOR)
        with recorded_statements() as statements:
            assert len(ApiKey.objects.active_since(account, timezone.now())) == count
        parameters.append([len(params) for _, params in statements])
    assert parameters[0] == parameters[1]


@NEEDS_POSTGRESQL
@pytest.mark.parametrize("path", ["?days=90", "usage.csv?days=90"])
def test_pages_select_usage_by_key(account: Account, path: str) -> None:
    """PostgreSQL would read the usage of all accounts for a join with thousands of keys."""
    ApiKey.objects.issue(account, by=OPERATOR)
    owner = member_of(account)
    with CaptureQueriesContext(connection) as queries:
        assert owner.get(f"/account/{account.public_id}/{path}").status_code == 200
    reads = [query["sql"] for query in queries if "accounts_dailyusage" in query["sql"]]
    assert reads
    assert all("key_id = ANY" in plan for plan in explain(reads))


@pytest.mark.django_db
def test_sign_in_ends_the_oldest_of_too_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sign-in checks all sessions of the user."""
    monkeypatch.setattr("petstore.backoffice.sessions.MAX_SESSIONS", 3)
    user = User.objects.create_user("kim", password=PASSWORD)
    browsers = [Client() for _ in range(5)]
    for browser in browsers:
        browser.post("/account/login/", {"login": "kim", "password": PASSWORD})
    is_signed_in = [browser.get("/account/security/").status_code == 200 for browser in browsers]
    assert is_signed_in == [False, False, True, True, True]
    assert UserSession.objects.filter(user=user).count() == 3
