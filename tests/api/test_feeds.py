"""The feeds of changes and incidents, and the Postman collection."""

from datetime import UTC, datetime, timedelta
from unittest.mock import Mock
from urllib.parse import urlsplit
from uuid import uuid4
from xml.etree import ElementTree as ET

from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from petstore.health.models import Impact, Incident, Stage
from petstore.site.reference import get_operations
from tests.conftest import Api


def read_feed(client: Client, path: str) -> list[dict[str, str]]:
    """Return the items of a feed, whose links are complete."""
    response = client.get(path)
    assert response["Content-Type"] == "application/rss+xml; charset=utf-8"
    channel = ET.fromstring(response.content)[0]
    for link in channel.iter("link"):
        assert str(link.text).startswith(settings.BASE_URL.removesuffix("v1"))
    return [{child.tag: str(child.text) for child in item} for item in channel.iter("item")]


def test_feed_of_incidents_has_the_updates_of_the_status_page(client: Client, db: None) -> None:
    started = datetime(2026, 11, 1, tzinfo=UTC)
    current = Incident.objects.create(title="Slow <pages>", impact=Impact.MAJOR)
    for hours, stage in enumerate((Stage.INVESTIGATING, Stage.IDENTIFIED)):
        posted_at = started + timedelta(hours=hours)
        current.updates.create(stage=stage, text="We look.", posted_at=posted_at)
    current.updates.create(text="Planned.", posted_at=timezone.now() + timedelta(hours=1))
    latest, first = read_feed(client, "/status.rss")
    assert (latest["title"], latest["description"]) == ("Identified: Slow <pages>", "We look.")
    assert latest["pubDate"] == "Sun, 01 Nov 2026 01:00:00 +0000"
    assert first["title"] == "Investigating: Slow <pages>"
    page = client.get("/status").text
    assert f'<li id="{urlsplit(latest["link"]).fragment}">' in page
    assert len({latest["guid"], first["guid"]}) == 2


def test_feed_of_incidents_has_no_characters_that_xml_forbids(client: Client, db: None) -> None:
    incident = Incident.objects.create(title="Slow\x0bpages")  # A line break of a word processor.
    incident.updates.create(text="We\x1blook.\nSoon\ufffemore.")
    [item] = read_feed(client, "/status.rss")
    texts = "Investigating: Slow pages", "We look.\nSoon more."
    assert (item["title"], item["description"]) == texts


def test_feed_of_incidents_is_empty_without_a_database(client: Client, transactional_db: None) -> None:
    with connection.execute_wrapper(Mock(side_effect=OperationalError)):
        assert read_feed(client, "/status.rss") == []


def test_requests_of_the_postman_collection_are_those_of_all_operations(client: Client, api: Api) -> None:
    """Sent as Postman does: enabled fields only, with the variables filled in."""
    collection = client.get("/docs/postman.json").json()
    assert collection["info"]["schema"].endswith("/v2.1.0/collection.json")
    values = {row["key"]: row["value"] for row in collection["variable"]}
    assert values == {"baseUrl": settings.BASE_URL, "key": ""}
    items = [item for folder in collection["item"] for item in folder["item"]]
    assert {item["name"] for item in items} == {row["summary"] for row in get_operations().values()}
    for request in (item["request"] for item in items):
        path = request["url"]["raw"].removeprefix("{{baseUrl}}")
        for variable in request["url"]["variable"]:
            path = path.replace(f":{variable['key']}", variable["value"])
        enabled = [row for row in request["header"] if not row.get("disabled")]
        headers = {row["key"]: row["value"].replace("{{$guid}}", uuid4().hex) for row in enabled}
        body = request.get("body", {}).get("raw", "").encode()
        response = api(request["method"], path, body, **headers)
        assert response.status_code < 300 or response.json()["code"].endswith("_not_found"), response.text
