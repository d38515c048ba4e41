"""What a worker still has of its answers to an `Idempotency-Key`: nothing but what the records say."""

from collections import OrderedDict
from datetime import timedelta
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from psycopg import OperationalError

from accounts import recent_answers
from accounts.models import Account, IdempotencyRecord, PlanCode
from accounts.recent_answers import KEPT, LARGEST, MOST, Answer, RecentAnswers, Sent, replay_recent
from inventory.models import Category, Pet
from petstore.api.passage import NO_OPERATION, Passage
from petstore.db import monitor
from petstore.db.monitor import HEARD_SECONDS, Mark, Server, term
from tests.conftest import Api
from tests.support.skips import NEEDS_POSTGRESQL

SENT = Sent(1, "a", "POST", "/v1/pets", "application/json", b"{}", 0)


class Database:
    """What the watch knows of the database."""

    term: int | None = 0


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    """One that is watched, by a worker that has answered nothing yet."""
    database = Database()
    monkeypatch.setattr(recent_answers, "term", lambda alias: database.term)
    forget(monkeypatch)
    return database


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no answer, as another worker."""
    monkeypatch.setattr(recent_answers.recent, "_answers", OrderedDict())


def answer_of(minutes: int = 0, body: bytes = b"{}") -> Answer:
    """Return an answer of so many minutes ago."""
    return Answer(201, "", body, timezone.now() - timedelta(minutes=minutes))


def add(api: Api, category: Category, name: str = "Rex", **headers: str) -> Any:
    body = {"name": name, "categoryId": category.pk}
    return api.post("/pets", body, **{"Idempotency_Key": "a"} | headers)


def looks_for_records(queries: CaptureQueriesContext) -> bool:
    table = IdempotencyRecord._meta.db_table
    return any(table in query["sql"] for query in queries.captured_queries)


def test_who_sends_the_same_again_gets_the_same_and_the_record_is_not_read(
    api: Api, category: Category, database: Database
) -> None:
    first = add(api, category)
    with CaptureQueriesContext(connection) as queries:
        again = add(api, category)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert not looks_for_records(queries)
    assert Pet.objects.count() == 1


def test_what_was_replayed_from_the_record_is_here_as_well(
    api: Api, category: Category, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(api, category)
    forget(monkeypatch)
    first = add(api, category)
    with CaptureQueriesContext(connection) as queries:
        again = add(api, category)
    assert again.content == first.content
    assert not looks_for_records(queries)


def test_order_is_here_as_a_pet_is(api: Api, category: Category, database: Database) -> None:
    pet = Pet.objects.create(name="Rex", category=category)
    first, again = (api.post("/store/orders", {"petId": pet.pk}, Idempotency_Key="a") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content


def test_replay_still_counts_and_shows_what_is_left(
    api: Api, category: Category, database: Database
) -> None:
    first, again = (add(api, category) for _ in range(2))
    left = [int(answer.headers["X-RateLimit-Remaining"]) for answer in (first, again)]
    assert left[0] - left[1] == 1


def test_another_body_is_refused_and_another_spelling_is_not(
    api: Api, category: Category, database: Database
) -> None:
    first = add(api, category)
    assert add(api, category, "Bello").json()["code"] == "idempotency_key_reused"
    spelled = f'{{"categoryId": {category.pk},\n"name": "Rex"}}'.encode()
    assert api.post("/pets", spelled, Idempotency_Key="a").content == first.content


def test_body_that_is_no_json_is_refused_whoever_has_sent_it_as_json(
    api: Api, category: Category, database: Database
) -> None:
    add(api, category)
    assert add(api, category, Content_Type="text/plain").status_code == 415


def test_same_body_on_another_path_is_another_request(
    api: Api, category: Category, database: Database
) -> None:
    body = {"name": "Rex", "categoryId": category.pk, "petId": 1}
    assert api.post("/pets", body, Idempotency_Key="a").status_code == 201
    assert api.post("/store/orders", body, Idempotency_Key="a").json()["code"] == "idempotency_key_reused"


def test_another_account_gets_its_own_answer(
    api: Api, category: Category, database: Database, issue: Any
) -> None:
    first = add(api, category)
    _, secret = issue(Account.objects.create(name="Another", plan_id=PlanCode.FREE))
    other = add(Api(secret), category)
    assert other.status_code == 201
    assert other.json()["id"] != first.json()["id"]
    assert "Idempotent-Replayed" not in other.headers


def test_key_that_may_not_write_gets_no_answer_of_one_that_may(
    api: Api, category: Category, database: Database, issue: Any
) -> None:
    add(api, category)
    account = Account.objects.get()
    refused = add(Api(issue(account, key_scopes=["pets:read"])[1]), category)
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")


def test_body_is_not_waited_for_where_no_view_takes_one() -> None:
    request: Any = SimpleNamespace(META={"HTTP_IDEMPOTENCY_KEY": "a"})  # It has no body to read.
    passage = Passage("", "", operation=NO_OPERATION, caller=cast("Any", SimpleNamespace(account_id=1)))
    assert replay_recent(request, passage) is None


def test_refused_request_leaves_nothing(api: Api, category: Category, database: Database) -> None:
    assert add(api, category, "").status_code == 400
    assert add(api, category).status_code == 201


def test_database_that_may_be_another_is_asked(api: Api, category: Category, database: Database) -> None:
    """A standby that was promoted may have lost the row and its record: the retry makes them again."""
    lost = add(api, category)
    Pet.objects.all().delete()
    IdempotencyRecord.objects.all().delete()
    database.term = 1
    again = add(api, category)
    assert again.status_code == 201
    assert "Idempotent-Replayed" not in again.headers
    assert again.json()["id"] == Pet.objects.get().pk != lost.json()["id"]


def test_database_that_nobody_watches_is_asked_always(
    api: Api, category: Category, database: Database
) -> None:
    database.term = None
    add(api, category)
    with CaptureQueriesContext(connection) as queries:
        assert add(api, category).headers["Idempotent-Replayed"] == "true"
    assert looks_for_records(queries)


def test_answer_is_forgotten_after_a_day() -> None:
    answers = RecentAnswers()
    day = KEPT // timedelta(minutes=1)
    answers.keep(SENT, answer_of(minutes=day - 1))
    assert answers.find(SENT)
    answers.keep(SENT, answer_of(minutes=day))
    assert answers.find(SENT) is None


def test_what_is_large_is_not_here() -> None:
    answers = RecentAnswers()
    for length, is_here in ((LARGEST // 2, True), (LARGEST + 1, False)):
        for number, (sent, answer) in enumerate(
            (
                (SENT._replace(body=b"x" * length), answer_of()),
                (SENT._replace(content_type=f"application/json; x={'x' * length}"), answer_of()),
                (SENT._replace(path="/" * length), answer_of()),
                (SENT, answer_of(body=b"x" * length)),
            )
        ):
            mine = sent._replace(key=f"{length}-{number}")
            answers.keep(mine, answer)
            assert bool(answers.find(mine)) is is_here


def test_answer_that_is_kept_again_is_the_newest() -> None:
    answers = RecentAnswers()
    many = [SENT._replace(key=str(number)) for number in range(MOST)]
    for sent in (*many, many[0], SENT._replace(key="one more")):
        answers.keep(sent, answer_of())
    assert [sent.key for sent in many if not answers.find(sent)] == ["1"]


def test_oldest_go_when_there_are_too_many() -> None:
    answers = RecentAnswers()
    many = [SENT._replace(key=str(number)) for number in range(MOST + 1)]
    for sent in many:
        answers.keep(sent, answer_of())
    assert [sent.key for sent in many if not answers.find(sent)] == ["0"]


# --- Which database it is ---------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Server:
    server = Server("default")
    monkeypatch.setitem(monitor.servers, "default", server)
    options = settings.DATABASES["default"]["OPTIONS"] | {"prepare_threshold": 1}
    monkeypatch.setitem(settings.DATABASES["default"], "OPTIONS", options)
    return server


class Connection:
    """A connection of the watch."""

    def close(self) -> None: ...


@pytest.fixture
def connection_of_watch(server: Server, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """One that answers, as each does that the watch makes."""
    connection = Connection()
    server._connection = cast("Any", connection)
    monkeypatch.setattr(server, "_answer", lambda connection: Mark(monotonic(), 0))
    monkeypatch.setattr(server, "_connect", Connection)
    server.look()
    return connection


@pytest.mark.parametrize("comes_back", [True, False])
def test_database_may_be_another_once_the_watch_has_lost_its_connection(
    server: Server, connection_of_watch: Connection, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    before = term("default")

    def answer(connection: object) -> Mark:
        if connection is connection_of_watch or not comes_back:
            raise OperationalError
        return Mark(monotonic(), 0)

    monkeypatch.setattr(server, "_answer", answer)
    server.look()
    assert server.away is not comes_back
    assert before is not None
    assert term("default") != before
    assert (term("default") is not None) is comes_back


def test_what_was_answered_while_the_watch_connects_is_of_no_database_that_it_finds(
    server: Server, connection_of_watch: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = []

    def answer(connection: object) -> Mark:
        if connection is connection_of_watch:
            raise OperationalError
        return Mark(monotonic(), 0)

    def connect() -> Connection:
        meanwhile.append(term("default"))
        return Connection()

    monkeypatch.setattr(server, "_answer", answer)
    monkeypatch.setattr(server, "_connect", connect)
    server.look()
    assert term("default") not in {None, *meanwhile}


def test_database_is_unknown_before_the_first_look(server: Server) -> None:
    assert term("default") is None


def test_database_is_unknown_once_nobody_has_heard_of_it_for_a_moment(
    server: Server, connection_of_watch: Connection
) -> None:
    """It may be silent, and another server in its place; or this process has stood still."""
    assert term("default") is not None
    server.marks = (Mark(monotonic() - HEARD_SECONDS, 0),)
    assert term("default") is None


@NEEDS_POSTGRESQL
def test_promoted_standby_that_answers_on_the_same_connection_is_another_database(
    db: None, server: Server
) -> None:
    """Something in between may keep the connection and change the server: a promotion begins a timeline."""
    server.look()
    before = term("default")
    server.look()
    assert server.timeline == "00000001"
    assert before == term("default") is not None
    server.timeline = "00000000"  # As if the one that answers now had another.
    server.look()
    assert term("default") not in {before, None}
    assert server._connection is not None
    server._connection.close()


def test_behind_a_pooler_nobody_knows_which_database_it_is(
    server: Server, connection_of_watch: Connection, settings: Any
) -> None:
    assert term("default") is not None
    settings.DATABASES["default"]["OPTIONS"]["prepare_threshold"] = None
    assert term("default") is None


def test_nobody_knows_it_where_no_watch_runs() -> None:
    assert term("default") is None
