"""The site: the map of the back office, and what holds for all of it."""

from typing import Any, NoReturn

from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.sites import UnfoldAdminSite

from petstore.backoffice.guard import guarded
from petstore.backoffice.login import LoginForm


class PetstoreAdminSite(UnfoldAdminSite):
    """The back office, in unfold's look."""

    site_header = "Pet Store back office"
    site_title = "Pet Store"
    index_title = "What do you want to look after?"
    login_form = LoginForm

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Guard every page."""
        return guarded(super().admin_view(view, cacheable))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the login, or check it. Too many attempts: 429, and when to come back."""
        response = guarded(super().login)(request, extra_context)
        if isinstance(response, TemplateResponse):
            form = (response.context_data or {}).get("form")
            if isinstance(form, LoginForm) and form.seconds_to_wait:
                response.status_code = 429
                response["Retry-After"] = str(form.seconds_to_wait)
        return response

    def extra_context(self, context: dict[str, Any], request: HttpRequest) -> dict[str, Any]:
        """Take the colours out of the page, where the CSP forbids them: backoffice.css has them."""
        return context | {"colors": {}}

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> NoReturn:
        """Offer no search over everything: unfold's own fails on bad input and needs a cache of objects."""
        raise Http404
