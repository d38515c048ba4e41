"""SECRET_KEY and peppers are rotated while the service runs: nobody notices, and the old secrets can go."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from django.core.management import call_command
from django.utils import timezone

from accounts import key_text
from accounts.models import ApiKey
from accounts.quota.admission import QuotaStore
from accounts.quota.key_record import KeyRefusal
from accounts.usage import rehash, write_behind
from tests.conftest import OPERATOR
from tests.support.live import Service, own_database
from tests.support.quota import ADDRESS
from tests.support.servers import RedisServer, free_port, wait_until

Issue = Callable[..., tuple[ApiKey, str]]
BOTH = {1: b"an older pepper", 2: b"a newer pepper"}


# --- A key moves to the pepper that signs --------------------------------------------------------


def old_key(issue: Issue, settings: Any) -> tuple[ApiKey, str]:
    """Issue a key under pepper 1; then 2 comes, and signs."""
    settings.API_KEY_PEPPERS = {1: BOTH[1]}
    made = issue()
    settings.API_KEY_PEPPERS = BOTH
    return made


def use(store: QuotaStore, text: str) -> KeyRefusal | None:
    """Send one request with the key, and have what it leaves to be written written."""
    key = key_text.split(text)
    assert key is not None
    refusal = store.admit(key, ADDRESS).refusal
    write_behind.recorder.write()
    return refusal


def test_key_moves_to_the_signing_pepper_when_it_is_used(
    issue: Issue, store: QuotaStore, settings: Any
) -> None:
    key, text = old_key(issue, settings)
    assert use(store, text) is None
    key.refresh_from_db()
    parts = key_text.split(text)
    assert parts is not None
    assert (key.pepper_number, key.digest) == (2, key_text.digest(parts, BOTH[2]))


def test_moved_key_works_without_the_old_pepper(issue: Issue, store: QuotaStore, settings: Any) -> None:
    _, text = old_key(issue, settings)
    use(store, text)
    settings.API_KEY_PEPPERS = {2: BOTH[2]}
    assert use(store, text) is None


def test_key_that_nobody_used_stays_and_is_refused_without_its_pepper(
    issue: Issue, store: QuotaStore, settings: Any
) -> None:
    _, text = old_key(issue, settings)
    settings.API_KEY_PEPPERS = {2: BOTH[2]}
    assert use(store, text) is KeyRefusal.UNKNOWN


def test_wrong_secret_moves_no_key(issue: Issue, store: QuotaStore, settings: Any) -> None:
    key, text = old_key(issue, settings)
    start = text[: text.rindex("_") + 1] + "x" * key_text.SECRET_LENGTH
    assert use(store, start + key_text.checksum(start)) is KeyRefusal.UNKNOWN
    key.refresh_from_db()
    assert key.pepper_number == 1


def test_key_never_moves_back_to_an_older_pepper(issue: Issue, store: QuotaStore, settings: Any) -> None:
    settings.API_KEY_PEPPERS = BOTH
    key, text = issue()
    settings.API_KEY_PEPPER_NUMBER = 1
    assert use(store, text) is None
    key.refresh_from_db()
    assert key.pepper_number == 2


def test_older_pepper_signs_while_the_newer_one_is_made_known(
    issue: Issue, store: QuotaStore, settings: Any
) -> None:
    settings.API_KEY_PEPPERS, settings.API_KEY_PEPPER_NUMBER = BOTH, 1
    key, text = issue()
    assert key.pepper_number == 1
    settings.API_KEY_PEPPERS = {1: BOTH[1]}  # An instance that has not heard of the newer one.
    assert use(store, text) is None


def test_one_write_moves_so_many_keys_and_the_others_with_their_next_use(
    issue: Issue, store: QuotaStore, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehash, "MOST", 2)
    made = [old_key(issue, settings)[1] for _ in range(3)]
    for left in (1, 0):
        for text in made:
            key = key_text.split(text)
            assert key is not None
            store.admit(key, ADDRESS)
        write_behind.recorder.write()
        assert ApiKey.objects.filter(pepper_number=1).count() == left


# --- What an operator sees -----------------------------------------------------------------------


def list_peppers(*options: str) -> str:
    out = io.StringIO()
    call_command("list_peppers", *options, stdout=out)
    return out.getvalue()


def test_list_of_peppers_counts_the_keys_that_can_still_be_used(issue: Issue, settings: Any) -> None:
    old_key(issue, settings)[0].revoke(reason="Lost", by=OPERATOR)
    key, _ = old_key(issue, settings)
    ApiKey.objects.filter(pk=key.pk).update(
        created_at=timezone.now() - timedelta(days=2), expires_at=timezone.now() - timedelta(days=1)
    )
    old_key(issue, settings)
    issue()
    one, two = json.loads(list_peppers("--json"))
    assert one == {"number": 1, "known": True, "signs": False, "keys": 1, "last_used_at": None}
    assert (two["number"], two["signs"], two["keys"]) == (2, True, 1)
    assert "Pepper 1: 1 key. Keep it" in list_peppers()


def test_list_of_peppers_says_which_one_may_go(db: None, settings: Any) -> None:
    settings.API_KEY_PEPPERS = BOTH
    assert "Pepper 1: 0 keys. It may be taken out" in list_peppers()


def test_list_of_peppers_fails_when_keys_hang_on_one_that_is_gone(issue: Issue, settings: Any) -> None:
    old_key(issue, settings)
    settings.API_KEY_PEPPERS = {2: BOTH[2]}
    with pytest.raises(SystemExit, match="1"):
        list_peppers()


# --- Instances of the old and the new configuration, side by side --------------------------------

PEPPERS = {1: "the-first-pepper-that-is-long-enough-here", 2: "the-second-pepper-that-is-long-enough"}
OLD, NEW = "the-old-secret-key-that-is-long-enough-for-tests", "the-new-secret-key-that-is-long-enough-too"
STAGES = [
    {"SECRET_KEY": OLD, "API_KEY_PEPPERS": f"1:{PEPPERS[1]}"},
    {
        "SECRET_KEY": OLD,
        "SECRET_KEY_FALLBACKS": NEW,
        "API_KEY_PEPPERS": f"1:{PEPPERS[1]},2:{PEPPERS[2]}",
        "API_KEY_PEPPER_NUMBER": "1",
    },
    {
        "SECRET_KEY": NEW,
        "SECRET_KEY_FALLBACKS": OLD,
        "API_KEY_PEPPERS": f"1:{PEPPERS[1]},2:{PEPPERS[2]}",
    },
    {"SECRET_KEY": NEW, "API_KEY_PEPPERS": f"2:{PEPPERS[2]}"},
]
FILL = """
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("seed_demo", pets=5)
User.objects.create_superuser("ann", "", "a-long-one")
"""


class Sent(NamedTuple):
    """One request of the rotation, and its answer."""

    stage: int
    what: str
    status: int


def sign_in(browser: httpx.Client, url: str) -> None:
    """Sign a member of staff in."""
    page = browser.get(f"{url}/admin/login/").text
    token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[0]
    form = {"username": "ann", "password": "a-long-one", "csrfmiddlewaretoken": token}
    assert browser.post(f"{url}/admin/login/", data=form).status_code == 302


def exchange(
    stage: int, old: Service, new: Service, texts: list[str], browser: httpx.Client
) -> Iterator[Sent]:
    """Send requests to two instances: keys to both, cursors and the session from each to the other."""
    for one, other in [(old, new), (new, old)] * 2:
        for text in texts:
            with one.client(text) as client, other.client(text) as elsewhere:
                page = client.get("/pets?limit=1")
                yield Sent(stage, "a key", page.status_code)
                link = urlsplit(page.links["next"]["url"])
                follow = elsewhere.get(f"/pets?{link.query}")
                yield Sent(stage, "a cursor of the other instance", follow.status_code)
        for service in (one, other):
            yield Sent(stage, "a session", browser.get(f"{service.url}/admin/").status_code)


class Rotation(NamedTuple):
    """What a whole rotation did, and the last instance, which knows the new secrets only."""

    sent: list[Sent]
    last: Service
    texts: list[str]


@pytest.fixture(scope="module")
def rotation(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> Iterator[Rotation]:
    """Replace one instance after the other by one of the next stage, while its neighbour serves."""
    if os.environ["DATABASE_URL"].startswith("sqlite"):
        pytest.skip("Several instances need PostgreSQL.")
    redis.client.flushall()
    sent: list[Sent] = []
    texts: list[str] = []
    with ExitStack() as stack:
        url = stack.enter_context(own_database(tmp_path_factory.mktemp("database")))
        shared = {"DATABASE_URL": url, "REDIS_URL": redis.url}
        services = [
            Service(
                os.environ | shared | stage | {"PORT": str(free_port())}, tmp_path_factory.mktemp("stage")
            )
            for stage in STAGES
        ]
        for service in services:
            stack.callback(service.stop)
        services[0].manage("shell", "--no-imports", "-c", FILL)
        services[0].start(1)
        browser = stack.enter_context(httpx.Client(timeout=30))
        sign_in(browser, services[0].url)
        for number, (old, new) in enumerate(pairwise(services)):
            texts.append(old.roomy_key("Acme"))
            new.start(1)
            sent += exchange(number, old, new, texts, browser)
            if number == 1:  # The old pepper may go when the operator sees that nothing hangs on it.
                with psycopg.connect(url, autocommit=True) as connection:
                    wait_until(lambda by=connection: nothing_hangs_on_the_old(by))  # type: ignore[misc]
            old.stop()
        yield Rotation(sent, services[-1], texts)


def nothing_hangs_on_the_old(connection: psycopg.Connection[Any]) -> None:
    """Ask as `list_peppers` does, which takes a second to start."""
    assert connection.execute("SELECT FROM accounts_apikey WHERE pepper_number = 1").fetchone() is None


def test_no_request_fails_at_any_stage(rotation: Rotation) -> None:
    assert {sent.stage for sent in rotation.sent} == {0, 1, 2}
    assert [sent for sent in rotation.sent if sent.status != 200] == []
    assert len(rotation.sent) == 2 * 2 * (2 * (1 + 2 + 3) + 3 * 2)


def test_every_key_works_where_only_the_new_secrets_are_left(rotation: Rotation) -> None:
    for text in rotation.texts:
        with rotation.last.client(text) as client:
            assert client.get("/pets").status_code == 200


def test_no_key_hangs_on_the_old_pepper_at_the_end(rotation: Rotation) -> None:
    (only,) = json.loads(rotation.last.manage("list_peppers", "--json"))
    assert (only["number"], only["keys"]) == (2, len(rotation.texts))
