"""The admin site: access control and error handling. Staff sign in under /account/ (petstore/sign_in)."""

from functools import wraps
from typing import Any, cast
from urllib.parse import urlsplit

from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST
from unfold.sites import UnfoldAdminSite

from petstore.backoffice import palette
from petstore.backoffice.error_pages import View, render_errors
from petstore.backoffice.forms import use_unfold_widgets

NOT_SAVED_COOKIE = "not_saved"
TWO_FACTOR_REQUIRED = "Two-factor sign-in is required for all staff. Set it up to continue."


class PetstoreAdminSite(UnfoldAdminSite):
    index_title = "Home"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.disable_action("delete_selected")  # It would load every row of a list.

    def has_permission(self, request: HttpRequest) -> bool:
        """Require active staff and, if configured, a second factor. All pages rely on this check."""
        return super().has_permission(request) and not self.lacks_second_factor(request)

    def lacks_second_factor(self, request: HttpRequest) -> bool:
        """Whether the user must set up a second factor first. The result is cached on the request."""
        if settings.STAFF_TWO_FACTOR != "required":
            return False
        cache: dict[str, bool] = request.__dict__
        if "_petstore_lacks_second_factor" not in cache:
            types = [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]
            cache["_petstore_lacks_second_factor"] = not is_mfa_enabled(cast("User", request.user), types)
        return cache["_petstore_lacks_second_factor"]

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Add error pages, and a warning if a form was lost because the session had expired."""
        inner: View = super().admin_view(render_errors(self, view), cacheable)

        @wraps(inner)
        def warning_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            is_form = request.method == "POST" and SEARCH_VAR not in request.POST
            if is_form and not self.has_permission(request):
                return self.redirect_to_sign_in(request)
            if not request.COOKIES.get(NOT_SAVED_COOKIE) or not self.has_permission(request):
                return inner(request, *args, **kwargs)
            messages.warning(request, "You were signed out, so your form was not saved. Fill it in again.")
            response = inner(request, *args, **kwargs)
            response.delete_cookie(NOT_SAVED_COOKIE)
            return response

        return warning_view

    def redirect_to_sign_in(self, request: HttpRequest) -> HttpResponse:
        """Redirect a form posted without a session to the sign-in page, which leads back to the form.

        A cookie records that the form was lost, because anonymous requests must not create sessions.
        """
        form_url = request.headers.get("Referer", "")
        if form_url.startswith((f"{settings.ORIGIN}/", request.build_absolute_uri("/"))):
            next_url = urlsplit(form_url)._replace(scheme="", netloc="").geturl()
        else:
            next_url = request.get_full_path()
        response = redirect_to_login(next_url, reverse("account_login"))
        if request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate":  # The palette uses fetch().
            secure = settings.SESSION_COOKIE_SECURE
            response.set_cookie(NOT_SAVED_COOKIE, "1", httponly=True, samesite="Lax", secure=secure)
        return response

    def render_page(
        self, request: HttpRequest, template: str, title: str, *, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """Render `admin/{template}.html` with the context that all admin pages share."""
        request.current_app = self.name
        if form := context.get("form"):
            use_unfold_widgets(form)
        shared = {**self.each_context(request), "title": title, "content_title": title}
        shared["next"] = self.get_next_url(request)
        return TemplateResponse(request, f"admin/{template}.html", shared | context, status=status)

    def get_next_url(self, request: HttpRequest) -> str:
        """Return the path in `next` if it is one of this site, else that of the home page."""
        url = request.POST.get(REDIRECT_FIELD_NAME) or request.GET.get(REDIRECT_FIELD_NAME) or ""
        # `redirect` takes other text for the name of a view.
        is_safe = url.startswith("/") and url_has_allowed_host_and_scheme(url, None)
        return url if is_safe else reverse("admin:index")

    @login_not_required
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Redirect to the requested page, or to the missing step of the sign-in. Customers get 403."""
        if self.has_permission(request):
            return redirect(self.get_next_url(request))
        if not request.user.is_authenticated:
            return redirect_to_login(self.get_next_url(request), reverse("account_login"))
        if super().has_permission(request):
            messages.warning(request, TWO_FACTOR_REQUIRED)
            return redirect("mfa_activate_totp")
        return render(request, "account/no_access.html", status=403)

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return redirect("account_logout")

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return redirect("account_change_password")

    def extra_context(self, context: dict[str, Any], request: HttpRequest) -> dict[str, Any]:
        return context | {"colors": {}}  # The CSP forbids inline styles; backoffice.css sets the colours.

    @method_decorator(require_POST)  # Keeps search terms out of URLs and logs.
    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Replace Unfold's search, which caches its results."""
        results = palette.search(request, request.POST.get("s", ""))
        return TemplateResponse(request, "admin/palette_results.html", {"results": results})
