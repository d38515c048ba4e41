"""An API key that a client sends in the wrong place is neither stored nor shown."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client

from accounts.models import Account, ApiKey, IdempotencyRecord
from inventory.models import Category, Pet
from petstore.audit.models import AuditEntry
from petstore.observability.redaction import contains_key
from petstore.observability.request_ids import get_request_id
from tests.conftest import OPERATOR, Api
from tests.support.members import member_of
from tests.support.responses import get_error
from tests.support.staff import PASSWORD, page_url


def test_key_is_recognized_even_without_its_checksum(key: Any) -> None:
    for text in (key.text, f"My key: {key.text}.", key.text[:-6], key.text.upper()):
        assert contains_key(text)
    for text in (key.public_id, f"psk_live_{key.public_id}", "psk_live_", ""):
        assert not contains_key(text)


def test_key_as_request_id_is_replaced(key: Any) -> None:
    assert get_request_id(key.text) != key.text
    assert get_request_id("my-id") == "my-id"
    assert Api(key.text).get("/pets", X_Request_Id=key.text)["X-Request-Id"] != key.text


def test_key_as_idempotency_key_is_rejected(key: Any) -> None:
    response = Api(key.text).post("/pets", {}, Idempotency_Key=key.text)
    assert response.status_code == 400
    assert "must not contain an API key" in response.json()["message"]
    assert not IdempotencyRecord.objects.exists()


@pytest.mark.parametrize("path", ["/pets", "/pets/batch"])
def test_key_as_name_of_a_pet_is_rejected(category: Category, key: Any, path: str) -> None:
    """Every customer can read the names of pets."""
    pet = {"name": f"Rex {key.text}", "categoryId": category.pk}
    response = Api(key.text).post(path, {"pets": [pet]} if path == "/pets/batch" else pet)
    assert get_error(response) == (400, "invalid_field")
    assert response.json()["details"][0]["message"] == "Must not contain an API key."
    assert key.text not in response.text
    assert not Pet.objects.exists()


def test_form_with_a_key_is_rejected(account: Account, key: Any, staff: Client) -> None:
    owner = member_of(account)
    portal = f"/account/{account.public_id}/"
    forms: list[tuple[Client, str, dict[str, Any]]] = [
        (owner, f"{portal}keys/issue/", {"name": f"Shop {key.text}", "scopes": ["pets:read"]}),
        (owner, f"{portal}people/", {"email": f"{key.text}@example.com", "role": "reader"}),
        (staff, page_url(account), {"name": "Acme", "notes": key.text}),
        (Client(), "/account/login/", {"login": key.text, "password": "x"}),
    ]
    for client, path, form in forms:
        response = client.post(path, form)
        assert response.status_code == 400, path
        assert "Your input contains an API key" in response.text
        assert key.text not in response.text
    sign_in = {"login": "kim", "password": PASSWORD}
    assert User.objects.filter(username="kim").exists()
    assert Client().post("/account/login/", sign_in, HTTP_USER_AGENT=key.text).status_code == 400


def test_command_or_code_that_names_a_key_is_rejected(account: Account, key: Any) -> None:
    with pytest.raises(ValidationError, match="contains an API key"):
        ApiKey.objects.issue(account, name=key.text, by=OPERATOR)
    row = ApiKey.objects.get()
    with pytest.raises(ValidationError, match="contains an API key"):
        row.revoke(reason=key.text, by=OPERATOR)
    row.narrow(key_scopes=["pets:read"], reason=f"It was {key.text}", by=OPERATOR)
    assert AuditEntry.objects.get(action="narrowed").reason == f"It was psk_live_{row}_***"
