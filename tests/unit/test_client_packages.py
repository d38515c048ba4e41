"""The client packages have every operation, parameter, member, choice and code of the golden document."""

import dataclasses
import inspect
import json
import re
import threading
from typing import Any, get_args

import pytest
import yaml

import petstore_client
from petstore_client import ApiError, Client, ConnectionFailedError, RateLimitError, client, errors, models
from petstore_client._gate import Gate
from tests.support.live import ROOT

DOCUMENT = yaml.safe_load((ROOT / "tests/openapi.yaml").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
TYPESCRIPT = {path.stem: path.read_text() for path in (ROOT / "clients/typescript/src").iterdir()}
# Members of NewOrder and NewPets are arguments, and those of Error are attributes with other names.
OBJECTS = [
    name
    for name, schema in SCHEMAS.items()
    if "properties" in schema and name not in {"NewOrder", "NewPets", "Error"}
]
ENUMS = [name for name, schema in SCHEMAS.items() if "enum" in schema]
LISTS = {"listPets": "pets", "listCategories": "categories", "listOrders": "orders", "listEvents": "events"}
FILTERS = {"listPets": "PetFilter", "listOrders": "OrderFilter", "listEvents": "EventFilter"}


def get_operations() -> dict[str, tuple[str, str, list[str]]]:
    """Method, path and query parameters by operation. Each POST has an Idempotency-Key."""
    found = {}
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            names: dict[str, set[str]] = {place: set() for place in ("path", "query", "header")}
            for parameter in operation.get("parameters", ()):
                names[parameter["in"]].add(parameter["name"])
            assert names["header"] == {"get": {"If-None-Match"}, "post": {"Idempotency-Key"}}.get(
                method, set()
            )
            template = re.sub(r"{\w+}", "{}", path)
            found[operation["operationId"]] = (method.upper(), template, sorted(names["query"]))
    return found


OPERATIONS = get_operations()


def camel_case(names: Any) -> set[str]:
    return {models.camel_case(name) for name in names}


def get_interface(name: str) -> set[str]:
    [body] = re.findall(
        rf"interface {name}(?: extends \w+)? {{\n(.*?)\n}}", "".join(TYPESCRIPT.values()), re.DOTALL
    )
    return set(re.findall(r"^  (?:readonly )?(\w+)\??:", body, re.MULTILINE))


def test_python_has_every_operation_and_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = {}

    def record(_: object, name: str, method: str, path: str, **options: Any) -> tuple[Any, dict[str, str]]:
        sent[name] = (method, path.replace("/1", "/{}"), sorted(options.get("fields", ())))
        assert ("Idempotency-Key" in options.get("headers", ())) is (method == "POST")
        return {}, {}

    monkeypatch.setattr(client.Client, "_send", record)
    instance = petstore_client.Client("key", base_url="http://unused/v1")
    methods = [instance.account]
    for group in LISTS.values():
        members = inspect.getmembers(getattr(instance, group), inspect.ismethod)
        methods += [
            method for name, method in members if name[0] != "_" and name not in {"follow", "iterate"}
        ]
    for method in methods:
        names = inspect.signature(method).parameters
        method(**{name: [] if name in {"pets", "ids"} else 1 for name in names})
    assert sent == OPERATIONS


def test_typescript_has_every_operation_and_parameter() -> None:
    source = TYPESCRIPT["client"]
    sent = re.findall(r'send(?:<[\w\[\]]+>)?\("(\w+)", "(\w+)", ["`](.+?)["`]', source)
    sent += [(name, "POST", path) for name, path in re.findall(r'post\("(\w+)", ["`](.+?)["`]', source)]
    sent += [(name, "GET", path) for name, path in re.findall(r'\(this, "(\w+)", "(.+?)"\)', source)]
    known = {name: (method, re.sub(r"\$\{.+?\}", "{}", path)) for name, method, path in sent}
    assert known == {name: (method, path) for name, (method, path, _) in OPERATIONS.items()}
    for name in LISTS:
        own = get_interface(FILTERS[name]) if name in FILTERS else set()
        assert own | get_interface("PageOptions") == set(OPERATIONS[name][2])


@pytest.mark.parametrize("name", OBJECTS)
def test_both_have_every_member(name: str) -> None:
    members = set(SCHEMAS[name]["properties"])
    model = getattr(models, name, None) or getattr(errors, name)
    assert camel_case(field.name for field in dataclasses.fields(model)) == members
    assert get_interface(name) == members


@pytest.mark.parametrize("name", ENUMS)
def test_both_have_every_choice(name: str) -> None:
    choices = SCHEMAS[name]["enum"]
    [typescript] = re.findall(rf"type {name} = (.*);", TYPESCRIPT["models"])
    assert list(get_args(getattr(models, name))) == choices == re.findall(r'"([^"]+)"', typescript)


def test_both_have_every_error_code_and_member() -> None:
    codes = SCHEMAS["Error"]["properties"]["code"]["enum"]
    [typescript] = re.findall(r"errorCodes = \[(.*?)\]", TYPESCRIPT["errors"], re.DOTALL)
    assert list(get_args(errors.ErrorCode)) == codes == re.findall(r'"(\w+)"', typescript)
    attributes = {"code", "message", "status", "details"}
    assert set(SCHEMAS["Error"]["properties"]) == attributes
    assert attributes <= set(inspect.signature(errors.ApiError).parameters)
    assert attributes - {"message"} <= get_interface("ErrorFacts")


def test_versions_are_the_same() -> None:
    [wheel_version] = re.findall(
        r'^version = "(.+)"', (ROOT / "clients/python/pyproject.toml").read_text(), re.MULTILINE
    )
    package = json.loads((ROOT / "clients/typescript/package.json").read_text())
    assert wheel_version == package["version"]
    assert client.USER_AGENT.endswith(f"/{wheel_version}")
    assert f'VERSION = "{wheel_version}"' in TYPESCRIPT["transport"]


def test_shorter_wait_does_not_end_a_longer_one() -> None:
    gate = Gate()
    for _ in range(2):
        gate.enter(2, max_wait=0)
    for seconds in (60, 1):
        gate.leave(RateLimitError(429, "a_limit", "", retry_after=seconds))
    with pytest.raises(RateLimitError) as rejection:
        gate.enter(2, max_wait=5)
    assert 59 < (rejection.value.retry_after or 0) <= 60


@pytest.mark.parametrize(
    ("status", "retried"), [(400, False), (408, True), (409, False), (429, True), (500, True)]
)
def test_only_what_may_succeed_later_is_retried(status: int, retried: bool) -> None:
    assert client.is_retryable(ApiError(status, "pet_not_available", "")) is retried


class Pauses(threading.Event):
    """Ends the iteration after a number of pauses, none of which takes any time."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count, self.seconds = count, list[float | None]()

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        if len(self.seconds) == self.count:
            self.set()
        return self.is_set()


def test_outage_of_a_day_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: Any) -> None:
        raise ConnectionFailedError

    monkeypatch.setattr(Client, "_send", fail)
    client, pauses = Client("key", base_url="http://unused/v1"), Pauses(24 * 60)
    assert list(client.events.follow(interval=5, stop=pauses)) == []
    assert pauses.seconds[:6] == [5, 5, 8, 16, 32, 60]
    assert set(pauses.seconds[6:]) == {60}
