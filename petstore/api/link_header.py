"""Link headers (RFC 8288) and absolute URLs of pages."""

from django.conf import settings


def get_page_url(path: str) -> str:
    """Build the absolute URL of a page outside /v1, from BASE_URL and never from the Host header (D10)."""
    return f"{settings.BASE_URL.removesuffix('/v1')}/{path.removeprefix('/')}"


def format_link(url: str, rel: str, media_type: str = "") -> str:
    return f'<{url}>; rel="{rel}"' + (f'; type="{media_type}"' if media_type else "")
