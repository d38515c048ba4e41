"""Documents at well-known addresses, and the guides as Markdown."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from petstore.site.docs import GUIDES
from petstore.site.markdown import convert_to_markdown

pytestmark = pytest.mark.same_on_both


def test_catalog_links_the_api_to_its_documents(client: Client, db: None) -> None:
    response = client.get("/.well-known/api-catalog")
    assert response["Content-Type"].startswith("application/linkset+json; profile=")
    assert response["Link"] == '<http://testserver/.well-known/api-catalog>; rel="api-catalog"'
    (api,) = response.json()["linkset"]
    assert api["anchor"] == "http://testserver/v1"
    for relation in ("service-desc", "service-doc", "status"):
        for target in api[relation]:
            response = client.get(target["href"].removeprefix("http://testserver"))
            assert response.status_code == 200
            assert response["Content-Type"].startswith(("text/html", "application/"))


def test_security_txt_has_contact_and_expiry(client: Client, settings: Any) -> None:
    settings.SECURITY_CONTACT = "mailto:security@pets.example"
    settings.SECURITY_EXPIRES = datetime(2999, 1, 31, tzinfo=UTC)
    response = client.get("/.well-known/security.txt")
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert {
        "Contact: mailto:security@pets.example", "Expires: 2999-01-31T00:00:00+00:00",
        "Canonical: http://testserver/.well-known/security.txt",
    } <= set(response.text.splitlines())  # fmt: skip


@pytest.mark.parametrize(
    ("contact", "days"), [("", 9), ("mailto:a@b.example", None), ("mailto:a@b.example", -1)]
)
def test_security_txt_is_404_if_incomplete_or_expired(
    client: Client, settings: Any, contact: str, days: int | None
) -> None:
    settings.SECURITY_CONTACT = contact
    settings.SECURITY_EXPIRES = None if days is None else timezone.now() + timedelta(days=days)
    assert client.get("/.well-known/security.txt").status_code == 404


def test_robots_may_read_the_pages_of_production_only(client: Client, settings: Any) -> None:
    for settings.ENVIRONMENT, disallowed in (("production", "/admin/"), ("staging", "/")):
        lines = client.get("/robots.txt").text.splitlines()
        assert lines[:2] == ["User-agent: *", f"Disallow: {disallowed}"]


def test_sitemap_llms_txt_and_skill_list_public_pages(client: Client) -> None:
    assert "http://testserver/docs/SKILL.md" in client.get("/llms.txt").text
    assert "`http://testserver/v1`" in client.get("/docs/SKILL.md").text
    sitemap = client.get("/sitemap.xml").text
    assert all(f"<loc>http://testserver/docs/{name}</loc>" in sitemap for name in GUIDES)


def test_markdown_keeps_examples_tables_and_links() -> None:
    page = (
        '<nav>Menu</nav><main><h1>One</h1> <p>See <a href="/docs">it</a> and <code>a &lt; b</code>.</p>'
        '<pre><code id="x.py">if a:\n\n\n    b &amp; c</code></pre><button>Copy</button>'
        "<table><thead><tr><th>A</th><th>B</th></tr></thead>"
        " <tbody><tr><th>1</th><td>2</td></tr></tbody></table>"
        "<ul><li>first</li><li>second</li></ul></main><footer>Foot</footer>"
    )
    assert convert_to_markdown(page, "https://pets.example") == (
        "# One\n\nSee [it](https://pets.example/docs) and `a < b`.\n\n"
        "```python\nif a:\n\n\n    b & c\n```\n\n"
        "| A | B |\n| --- | --- |\n| 1 | 2 |\n\n- first\n- second\n"
    )


@pytest.mark.parametrize("name", ["retries", "operations/listPets"])
def test_page_is_markdown_if_accept_prefers_it(client: Client, name: str) -> None:
    response = client.get(f"/docs/{name}", headers={"Accept": "text/markdown, text/html;q=0.5"})
    assert response.content == client.get(f"/docs/{name}.md").content
    assert client.get(f"/docs/{name}x.md").status_code == 404
    for other in ("text/html, */*;q=0.1", "*/*", "", "text/markdown;a*=x''b"):
        page = client.get(f"/docs/{name}", headers={"Accept": other})
        assert page["Content-Type"].startswith("text/html")
    assert "Accept" in response["Vary"]
    links = re.findall(r'<http://testserver([^>]+)>; rel="([a-z-]+)"; type="([^"]+)"', response["Link"])
    assert [relation for _, relation, _ in links] == ["service-desc", "service-doc", "alternate"]
    for target, _, media_type in links:
        assert client.get(target)["Content-Type"].startswith(media_type)
