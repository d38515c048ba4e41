"""Pages that are not there, or not for everybody: staff are told so in the frame of all the others."""

from __future__ import annotations

from collections.abc import Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from petstore.backoffice.input_guard import View

if TYPE_CHECKING:
    from petstore.backoffice.two_factor import TwoFactorSite

NOT_FOUND = "There is no such page, or what it showed was deleted. Press Ctrl+K to search for it."
NOBODY = "Nobody can do this in the back office."
ASK = "Your role can't open this page. Ask an Owner."
# The right that a page of a model asks for, by the end of its URL's name; it is `change` for all others.
RIGHTS = {
    "changelist": "view", "change": "view", "history": "view", "export": "view", "import": "add",
    "import_template": "add", "process_import": "add", "add": "add", "delete": "delete",
}  # fmt: skip


def framed(site: TwoFactorSite, view: View) -> View:
    """Make a view, which only staff get to, answer with a page of the back office where it has none."""

    @wraps(view)
    def framed_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except PermissionDenied:
            status, title, text = 403, "No access", why_refused(site, request)
        except Http404:
            status, title, text = 404, "Not found", NOT_FOUND
        response = site.page(request, "error", title, text=text, **way_back(site, request))
        response.status_code = status
        return response

    return framed_view


def admin_of(site: TwoFactorSite, request: HttpRequest) -> tuple[str, Any] | None:
    """Return what the names of a model's pages begin with, and its admin; None for any other page."""
    name = (request.resolver_match and request.resolver_match.url_name) or ""
    for model, admin in site._registry.items():
        if name.startswith(start := f"{model._meta.app_label}_{model._meta.model_name}_"):
            return start, admin
    return None


def way_back(site: TwoFactorSite, request: HttpRequest) -> dict[str, Any]:
    """Return the list that a page belongs to, for who may see it."""
    found = admin_of(site, request)
    if found is None or not found[1].has_view_permission(request):
        return {}
    start, admin = found
    name = admin.opts.verbose_name_plural
    return {"list_link": reverse(f"admin:{start}changelist"), "list_name": name}


def why_refused(site: TwoFactorSite, request: HttpRequest) -> str:
    """Return the sentence that names who may open the page."""
    found = admin_of(site, request)
    if found is None:
        return ASK
    start, admin = found
    name = (request.resolver_match and request.resolver_match.url_name) or ""
    right = RIGHTS.get(name.removeprefix(start), "change")
    if not getattr(admin, f"can_{right}", True) or request.user.is_superuser:
        return NOBODY
    roles = having(admin.opts.app_label, get_permission_codename(right, admin.opts))
    return f"Your role can't open this page. Roles that can: {', '.join(roles)}." if roles else ASK


def having(app: str, codename: str) -> Iterable[str]:
    """Return the names of the groups that have a permission."""
    groups = Group.objects.filter(permissions__content_type__app_label=app, permissions__codename=codename)
    return groups.order_by("name").values_list("name", flat=True)
