"""Web links in the Link header (RFC 8288), and addresses of the pages for people."""

from django.conf import settings

from petstore.api.responses import Response


def page_url(path: str) -> str:
    """Return the full URL of a page outside /v1, from BASE_URL and never from the Host header (D10)."""
    return f"{settings.BASE_URL.removesuffix('/v1')}/{path}"


def link(url: str, rel: str) -> str:
    """Return one value of the Link header."""
    return f'<{url}>; rel="{rel}"'


def add_link(response: Response, url: str, rel: str) -> None:
    """Add a link to those that the response has."""
    links = [response.headers["Link"]] if "Link" in response.headers else []
    response.headers["Link"] = ", ".join([*links, link(url, rel)])
