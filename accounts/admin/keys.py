"""API keys in the back office."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from accounts import networks, scopes
from accounts.models import Actor, ApiKey, KeyEvent
from petstore.backoffice.pages import HistoryInline, PetstoreModelAdmin


class ScopesField(forms.MultipleChoiceField):
    """A checkbox for each scope; its value is the scopes as they are stored."""

    widget = forms.CheckboxSelectMultiple

    def clean(self, value: Any) -> str:
        """Return the scopes in their stored form."""
        return scopes.stored_form(super().clean(value))


class NetworksField(forms.CharField):
    """Networks, one on each line; its value is the list of them."""

    widget = forms.Textarea(attrs={"rows": 4})

    def clean(self, value: Any) -> list[str]:
        """Return the networks in their canonical form."""
        return networks.normalise(super().clean(value).split())


class IssueForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """What staff decide about a new key."""

    scopes = ScopesField(choices=[(scope, scope) for scope in scopes.SCOPES], initial=scopes.SCOPES)
    allowed_networks = NetworksField(
        required=False,
        max_length=2000,
        help_text="One on each line, such as 203.0.113.0/24. Leave empty to allow every address.",
    )
    form_id = forms.CharField(
        required=False, max_length=64, widget=forms.HiddenInput, initial=lambda: secrets.token_urlsafe(16)
    )

    def clean_expires_at(self) -> datetime | None:
        """Refuse an end that has passed."""
        end = cast("datetime | None", self.cleaned_data["expires_at"])
        if end is not None and end <= timezone.now():
            raise ValidationError("This time has passed. Choose a later one, or leave it empty.")
        return end

    def clean(self) -> dict[str, Any]:
        """Refuse a form that was sent before: a second click or a reload must not issue a second key."""
        form_id = self.cleaned_data.get("form_id")
        if form_id and not self.errors and not cache.add(f"issued by form {form_id}", 1, 24 * 60 * 60):
            raise ValidationError(
                "This form was sent before, and a key was issued. To issue another, open the form anew."
            )
        return self.cleaned_data


class ReasonForm(forms.Form):
    """Why something is done to a key."""

    reason = forms.CharField(max_length=255, help_text="For the key's history.")


class KeyEventInline(HistoryInline):
    """What happened to the key, the last first."""

    model = KeyEvent
    verbose_name_plural = "history of the key"
    fields = readonly_fields = ("at", "action", "actor_name", "reason")


class BannedFilter(admin.SimpleListFilter):
    """Keys that are banned now."""

    title = "ban"
    parameter_name = "banned"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the one choice."""
        return [("now", "Banned now")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        """Return the keys of the choice."""
        if self.value() != "now":
            return queryset
        return queryset.filter(standing__banned_until__gt=round(timezone.now().timestamp() * 1_000_000))


@admin.register(ApiKey)
class ApiKeyAdmin(PetstoreModelAdmin):
    """Keys are issued, renamed, rotated and revoked. They are never deleted, and their text shows once."""

    list_display = ["public_id", "account", "name", "state", "created_at", "expires_at", "last_used_at"]
    list_select_related = ["account", "standing"]
    list_filter = [BannedFilter]
    search_fields = ["public_id", "account__name"]
    search_help_text = "A part of the key's id or of the account's name."
    autocomplete_fields = ["account"]
    issue_fields = ["account", "name", "scopes", "expires_at", "allowed_networks", "form_id"]
    shown_fields = [
        "name", "account", "public_id", "mode", "state", "scopes", "networks", "created_at", "expires_at",
        "last_used_at", "rotated_from", "revoked_at", "revoked_reason",
    ]  # fmt: skip

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what a new key needs, or all that may be seen of a key."""
        return self.issue_fields if obj is None else self.shown_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Return all but the name, once there is a key."""
        return [] if obj is None else self.shown_fields[1:]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form to issue a key, or the one to rename it."""
        if obj is None:
            kwargs["form"] = IssueForm
        return super().get_form(request, obj, change, **kwargs)

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[type[Any]]:
        """Show the history of a key that there is."""
        return [] if obj is None else [KeyEventInline]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid: a key is revoked, and stays on record."""
        return False

    @admin.display
    def state(self, key: ApiKey) -> str:
        """Return whether the key is good, and until when it is banned."""
        now = timezone.now()
        state, ban_end = key.state(now), key.ban_end(now)
        return f"banned until {ban_end:%Y-%m-%d %H:%M} UTC" if ban_end and state == "active" else state

    @admin.display(description="allowed networks")
    def networks(self, key: ApiKey) -> str:
        """Return where the key may be used."""
        return ", ".join(key.allowed_networks) or "every address"

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Show the page, with the buttons for what can be done to the key."""
        key = context["original"]
        context["show_save_and_add_another"] = False
        context["show_save_and_continue"] = key is not None
        context["may_revoke"] = key and key.revoked_at is None and self.has_change_permission(request, key)
        now = timezone.now()
        context["may_rotate"] = key and key.state(now) == "active" and self.may_rotate(request, key)
        context["may_unban"] = key and key.ban_end(now) and self.has_change_permission(request, key)
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Issue the key, or rename it."""
        if change:
            # Nothing else, or else a key that is revoked meanwhile would come back to life.
            obj.save(update_fields=["name"])
            return
        key, text = ApiKey.objects.issue(
            obj.account,
            name=obj.name,
            key_scopes=obj.scopes.split(),
            expires_at=obj.expires_at,
            allowed_networks=obj.allowed_networks,
            by=actor(request),
        )
        obj.pk = key.pk
        obj.refresh_from_db()
        obj.text = text  # For response_add, which answers this same request; it is no field.

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        """Show the new key's text: the only time."""
        return self.show_text(request, obj, obj.text)

    def show_text(self, request: HttpRequest, key: ApiKey, text: str) -> HttpResponse:
        """Return the page with a new key's text.

        It answers the POST itself: a redirect would have to keep the text in the session or a cookie.
        """
        return self.page(request, key, "issued", {"title": "Copy the new key now", "text": text})

    def page(self, request: HttpRequest, key: ApiKey, name: str, context: dict[str, Any]) -> HttpResponse:
        """Return one of the key's own pages."""
        request.current_app = self.admin_site.name  # As every page of the admin does.
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "key": key}
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
        """Ask for the reason, then revoke."""

        def revoke(key: ApiKey, form: forms.Form) -> HttpResponse:
            reason = form.cleaned_data["reason"]
            key.revoke(reason=reason, by=actor(request))
            self.log_change(request, key, f"Revoked: {reason}")
            self.message_user(request, f"Key {key.public_id} is revoked. It is refused from now on.")
            return HttpResponseRedirect(reverse("admin:accounts_apikey_change", args=[key.pk]))

        return self.ask_first(request, object_id, "Revoke", ReasonForm, revoke)

    def unban_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for the reason, then lift the ban."""

        def unban(key: ApiKey, form: forms.Form) -> HttpResponse:
            reason = form.cleaned_data["reason"]
            key.unban(reason=reason, by=actor(request))
            self.log_change(request, key, f"Ban lifted: {reason}")
            self.message_user(request, f"The ban of key {key.public_id} is lifted.")
            return HttpResponseRedirect(reverse("admin:accounts_apikey_change", args=[key.pk]))

        return self.ask_first(request, object_id, "Lift the ban of", ReasonForm, unban)

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask, then rotate."""

        def rotate(key: ApiKey, form: forms.Form) -> HttpResponse:
            new, text = key.rotate(by=actor(request))
            self.log_change(request, key, f"Rotated: replaced by {new.public_id}.")
            self.log_addition(request, new, f"Issued to replace {key.public_id}.")
            return self.show_text(request, new, text)

        return self.ask_first(request, object_id, "Rotate", forms.Form, rotate, allowed=self.may_rotate)

    def ask_first(
        self,
        request: HttpRequest,
        object_id: str,
        verb: str,
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
                return act(key, form)
            except ValidationError as error:
                form.add_error(None, error)
        return self.page(request, key, "ask", {"title": f"{verb} a key", "verb": verb, "form": form})


def actor(request: HttpRequest) -> Actor:
    """Return the member of staff, for the key's history."""
    return Actor.staff(cast("User", request.user))
