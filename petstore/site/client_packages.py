"""The client packages that `make clients` built, for download."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from petstore.api.link_header import get_page_url

CONTENT_TYPES = {".whl": "application/zip", ".tgz": "application/gzip"}
PACKAGES = {
    path.name: path for path in sorted(settings.CLIENTS_DIR.glob("*/*")) if path.suffix in CONTENT_TYPES
}


def get_package_urls() -> dict[str, str]:
    """Return the URLs of the packages that were built: `python` and `typescript`."""
    return {
        path.parent.name: get_page_url(reverse("docs-client-package", kwargs={"name": name}))
        for name, path in PACKAGES.items()
    }


@require_safe
def download(request: HttpRequest, name: str) -> HttpResponse:
    """Send a package. Raises Http404 if it was not built."""
    path = PACKAGES.get(name)
    if path is None:
        raise Http404
    response = HttpResponse(path.read_bytes(), content_type=CONTENT_TYPES[path.suffix])
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
