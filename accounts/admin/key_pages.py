"""The pages on which staff issue, rotate, revoke and free a key. Each asks before it does anything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from django import forms
from django.conf import settings
from django.contrib.admin.utils import unquote
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Q, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from accounts.admin.badges import age, exact, state_badge
from accounts.admin.key_forms import ReasonForm, RotateForm
from accounts.admin.unpublished import warn_if_untold
from accounts.models import Actor, ApiKey, KeyEvent
from petstore.backoffice.model_admin import PetstoreModelAdmin


class Verb(NamedTuple):
    """What can be done to a key, in the words of the page that asks."""

    title: str
    button: str
    warning: str
    danger: bool = False


REVOKE = Verb(
    "Revoke this key?",
    "Revoke the key",
    "Whatever uses this key stops working with its next request: it is answered with 401. "
    "This can't be undone; a revoked key can't be brought back.",
    danger=True,
)
UNBAN = Verb(
    "Lift the ban of this key?",
    "Lift the ban",
    "It is banned because it kept sending after 429. Once the ban is lifted, its next request is served.",
)
ROTATE = Verb(
    "Rotate this key?",
    "Rotate the key",
    "A new key with the same rights is issued and shown once. The old one works on for the hours below, "
    "unless it ends earlier anyway.",
)


class KeyPages(PetstoreModelAdmin):
    """The pages of one key beside its form."""

    def show_text(self, request: HttpRequest, key: ApiKey, text: str) -> HttpResponse:
        """Return the page with a new key's text.

        It answers the POST itself: a redirect would have to keep the text in the session or a cookie.
        """
        curl = f"curl -H 'Authorization: Bearer {text}' {settings.BASE_URL}/pets"
        context = {"title": "Copy the new key now", "text": text, "curl": curl, "now": timezone.now()}
        return self.page(request, key, "issued", context)

    def page(self, request: HttpRequest, key: ApiKey, name: str, context: dict[str, Any]) -> HttpResponse:
        """Return one of the key's own pages."""
        request.current_app = self.admin_site.name  # As every page of the admin does.
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "key": key}
        shared["may_view"] = self.has_view_permission(request, key)
        return TemplateResponse(request, f"admin/accounts/apikey/{name}.html", shared | context)

    def get_urls(self) -> list[URLPattern]:
        """Add the pages to revoke, to rotate and to free a key."""
        view = self.admin_site.admin_view
        return [
            path("<path:object_id>/revoke/", view(self.revoke_view), name="accounts_apikey_revoke"),
            path("<path:object_id>/unban/", view(self.unban_view), name="accounts_apikey_unban"),
            path("<path:object_id>/rotate/", view(self.rotate_view), name="accounts_apikey_rotate"),
            *super().get_urls(),
        ]

    def may_rotate(self, request: HttpRequest, key: ApiKey) -> bool:
        """Tell whether somebody may: it changes one key and issues another."""
        return self.has_change_permission(request, key) and self.has_add_permission(request)

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Say what stops working and ask for the reason, then revoke."""

        def revoke(key: ApiKey, form: forms.Form) -> HttpResponse:
            reason = form.cleaned_data["reason"]
            key.revoke(reason=reason, by=actor(request))
            self.log_change(request, key, f"Revoked: {reason}")
            self.message_user(request, f"Key {key.public_id} is revoked. It is refused from now on.")
            return back_to(key)

        return self.ask_first(request, object_id, REVOKE, ReasonForm, revoke)

    def unban_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for the reason, then lift the ban."""

        def unban(key: ApiKey, form: forms.Form) -> HttpResponse:
            reason = form.cleaned_data["reason"]
            key.unban(reason=reason, by=actor(request))
            self.log_change(request, key, f"Ban lifted: {reason}")
            self.message_user(request, f"The ban of key {key.public_id} is lifted.")
            return back_to(key)

        return self.ask_first(request, object_id, UNBAN, ReasonForm, unban)

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask how long the old key works on, then rotate."""

        def rotate(key: ApiKey, form: forms.Form) -> HttpResponse:
            new, text = key.rotate(by=actor(request), overlap=cast("RotateForm", form).overlap())
            self.log_change(request, key, f"Rotated: replaced by {new.public_id}.")
            self.log_addition(request, new, f"Issued to replace {key.public_id}.")
            return self.show_text(request, new, text)

        return self.ask_first(request, object_id, ROTATE, RotateForm, rotate, allowed=self.may_rotate)

    def ask_first(
        self,
        request: HttpRequest,
        object_id: str,
        verb: Verb,
        form_class: type[forms.Form],
        act: Callable[[ApiKey, forms.Form], HttpResponse],
        *,
        allowed: Callable[[HttpRequest, ApiKey], bool] | None = None,
    ) -> HttpResponse:
        """Show a page that asks; on POST do it, or say on the page why it can't be done."""
        key = self.get_object(request, unquote(object_id))
        if key is None:
            raise Http404
        if not (allowed or self.has_change_permission)(request, key):
            raise PermissionDenied
        form = form_class(request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                with transaction.atomic():  # With its audit: neither is there without the other.
                    response = act(key, form)
                warn_if_untold(self, request, pk=key.pk)
                return response
            except ValidationError as error:
                form.add_error(None, error)
        now = timezone.now()
        context = {"title": verb.title, "verb": verb, "form": form, "badge": state_badge(key, now)}
        return self.page(request, key, "ask", context | {"facts": facts(key, now)})


def facts(key: ApiKey, now: datetime) -> dict[str, Any]:
    """Return what somebody should know before they end a key, by its name for people."""
    today = now.date()
    in_week = key.usage.filter(day__gt=today - timedelta(days=7), day__lte=today)
    sent = in_week.aggregate(today=Sum("requests", filter=Q(day=today)), week=Sum("requests"))
    others = ApiKey.objects.filter(account=key.account_id, revoked_at=None).exclude(pk=key.pk)
    working = others.filter(Q(expires_at=None) | Q(expires_at__gt=now)).count()
    shown = {
        "Name of the key": key.name or "none",
        "May": ", ".join(key.scopes.split()),
        "Last use": age(key.last_used_at, now),
        "Requests today": f"{sent['today'] or 0:,}",
        "Requests in the last 7 days": f"{sent['week'] or 0:,}",
        "Other active keys of the account": working or "None. This is its only one.",
    }
    return shown | ban_facts(key, now)


def ban_facts(key: ApiKey, now: datetime) -> dict[str, str]:
    """Return since when, until when and why a key is banned, if it is."""
    ban_end = key.ban_end(now)
    if ban_end is None:
        return {}
    event = key.events.filter(action=KeyEvent.Action.BANNED).first()
    since = {"Banned since": exact(event.at), "Reason of the ban": event.reason} if event else {}
    return {**since, "The ban ends": exact(ban_end)}


def back_to(key: ApiKey) -> HttpResponseRedirect:
    """Return the way to a key's page."""
    return HttpResponseRedirect(reverse("admin:accounts_apikey_change", args=[key.pk]))


def actor(request: HttpRequest) -> Actor:
    """Return the member of staff, for the key's history."""
    return Actor.staff(cast("User", request.user))
