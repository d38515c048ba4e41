"""The error page (413) for forms that exceed the size limits."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from petstore.api.request_headers import BODY_ERROR
from petstore.backoffice.sessions import log_out_if_expired

TOO_LARGE = "The form is too large and was not saved. Go back, shorten it and try again."


class FormLimitsMiddleware(MiddlewareMixin):
    """Must run before CsrfViewMiddleware, which reads the form."""

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        try:
            if BODY_ERROR not in request.META and request.POST is not None:
                return None
        except (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent):
            pass
        request.POST = QueryDict()  # Rendering the error page reads POST again.
        return reject_too_large(request, view)


def reject_too_large(request: HttpRequest, view: Any) -> HttpResponse:
    """Return 413. Without a session, for which limits are lower, redirect to the sign-in page."""
    from django.contrib import admin  # Workers load the admin with the first page.

    site: Any = admin.site
    response: HttpResponse
    log_out_if_expired(request)
    if site.has_permission(request):
        response = site.render_page(request, "error", "Too large", text=TOO_LARGE)
        response.status_code = 413
    elif request.path.startswith(reverse("admin:index")) and getattr(view, "login_required", True):
        response = site.redirect_to_sign_in(request)
    else:
        response = render(request, "error.html", {"title": "Too large", "text": TOO_LARGE}, status=413)
    return response
