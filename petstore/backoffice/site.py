"""The site: the map of the back office, and what holds for all of it."""

from functools import wraps
from typing import Any, NoReturn, cast

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from unfold.sites import UnfoldAdminSite

from petstore.backoffice import two_factor
from petstore.backoffice.audit import Action, Actor, record
from petstore.backoffice.input_guard import View, guarded
from petstore.backoffice.login import LoginForm
from petstore.backoffice.sessions import end_if_due


def protected(view: View) -> View:
    """Refuse what no page can use, and answer a session that is over as a stranger is answered."""

    @wraps(view)
    def protected_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        end_if_due(request)
        return view(request, *args, **kwargs)

    return guarded(protected_view)


class PetstoreAdminSite(UnfoldAdminSite):
    """The back office, in unfold's look."""

    site_header = "Pet Store back office"
    site_title = "Pet Store"
    index_title = "What do you want to look after?"
    login_form = LoginForm

    def has_permission(self, request: HttpRequest) -> bool:
        """Let in staff who proved all that they must: the password, and a code if there is a second factor.

        This is the one place that decides it. Every page stands behind it.
        """
        return super().has_permission(request) and not self.lacks(request)

    def lacks(self, request: HttpRequest) -> str:
        """Return the page that a member of staff who gave the password must visit first, or nothing."""
        if getattr(request.user, "otp_device", None) is not None:
            return ""
        if two_factor.has_second_factor(request):
            return "admin:two_factor_code"
        return "admin:two_factor" if settings.STAFF_TWO_FACTOR == "required" else ""

    def half_signed_in(self, request: HttpRequest) -> bool:
        """Tell whether somebody is staff, whatever they still must prove."""
        return super().has_permission(request)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Guard every page."""
        return protected(super().admin_view(view, cacheable))

    def get_urls(self) -> list[Any]:
        """Add the pages about the second factor, and a sign-out for who has given the password only."""

        def half(view: Any) -> View:
            def half_view(request: HttpRequest) -> HttpResponse:
                if self.half_signed_in(request):
                    response: HttpResponse = view(self, request)
                    return response
                return HttpResponseRedirect(reverse("admin:login"))

            return protected(never_cache(half_view))

        return [
            path("logout/", protected(never_cache(self.logout)), name="logout"),
            path("two-factor/", half(two_factor.overview), name="two_factor"),
            path("two-factor/code/", half(two_factor.ask_code), name="two_factor_code"),
            *super().get_urls(),
        ]

    def page(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """Return a page in the frame of the back office; `template` stands in templates/admin."""
        request.current_app = self.name  # As every page of the admin does.
        shared = {**self.each_context(request), "title": title, "next": self.next_page(request)}
        response = TemplateResponse(request, f"admin/{template}.html", shared | context)
        return slowed_down(response, context.get("form"))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the login, or check it. Too many attempts: 429, and when to come back."""
        return protected(self.checked_login)(request, extra_context)

    def checked_login(self, request: HttpRequest, extra_context: dict[str, Any] | None) -> HttpResponse:
        """Sign in, or lead on who has given the password already."""
        if request.method == "GET" and self.half_signed_in(request) and (page := self.lacks(request)):
            return HttpResponseRedirect(self.with_next(request, page))
        response: HttpResponse = super().login(request, extra_context)
        if isinstance(response, TemplateResponse):
            slowed_down(response, (response.context_data or {}).get("form"))
        return response

    def with_next(self, request: HttpRequest, page: str) -> str:
        """Return the address of a page, with the page to show afterwards."""
        wanted = self.next_page(request)
        return f"{reverse(page)}?{urlencode({REDIRECT_FIELD_NAME: wanted})}"

    def next_page(self, request: HttpRequest) -> str:
        """Return the page that was asked for, if it is one of ours; else the home page."""
        wanted = request.POST.get(REDIRECT_FIELD_NAME) or request.GET.get(REDIRECT_FIELD_NAME) or ""
        safe = url_has_allowed_host_and_scheme(
            wanted, {request.get_host()}, require_https=request.is_secure()
        )
        return wanted if safe else reverse("admin:index")

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Change one's own password: every other session of the same person ends."""
        response = super().password_change(request, extra_context)
        if request.method == "POST" and response.status_code == 302:
            old, new = {"password": "old"}, {"password": "new"}
            user = cast("User", request.user)
            record(
                Actor.of(request), user, Action.CHANGED, before=old, after=new, reason="Their own password."
            )
        return response

    def extra_context(self, context: dict[str, Any], request: HttpRequest) -> dict[str, Any]:
        """Take the colours out of the page, where the CSP forbids them: backoffice.css has them."""
        return context | {"colors": {}}

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> NoReturn:
        """Offer no search over everything: unfold's own fails on bad input and needs a cache of objects."""
        raise Http404


def slowed_down(response: TemplateResponse, form: Any) -> TemplateResponse:
    """Return the response; after too many attempts with its form as a 429, with when to come back."""
    if seconds := getattr(form, "seconds_to_wait", 0):
        response.status_code = 429
        response["Retry-After"] = str(seconds)
    return response
