"""API keys in the back office: the list with its filters, and the form of one."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from accounts import reports
from accounts.admin.badges import SOON, STATE_COLOURS, age, exact, key_state, state_badge, usage_bar
from accounts.admin.base import LATEST, with_use_of_today
from accounts.admin.key_pages import IssueForm, KeyPages
from accounts.admin.use import usage_chart
from accounts.models import ApiKey, PlanCode, active
from petstore.backoffice.audit import Actor
from petstore.backoffice.filters import ChoiceFilter
from petstore.backoffice.history import entries_of
from petstore.backoffice.navigation import may_view


class StateFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    offered = (
        ("active", "Active"),
        ("soon", "Expires soon"),
        ("expired", "Expired"),
        ("revoked", "Revoked"),
    )

    def condition(self, chosen: str) -> Q:
        """Return the condition; `active` has those that expire soon, and those that are banned now."""
        now = timezone.now()
        if chosen == "revoked":
            return Q(revoked_at__isnull=False)
        if chosen == "expired":
            return Q(revoked_at=None, expires_at__lte=now)
        return active(now) & Q(expires_at__lte=now + SOON) if chosen == "soon" else active(now)


class ExpiresFilter(ChoiceFilter):
    title = "end"
    parameter_name = "expires"
    offered = (("7", "Within 7 days"), ("30", "Within 30 days"))

    def condition(self, chosen: str) -> Q:
        now = timezone.now()
        return Q(revoked_at=None, expires_at__gt=now, expires_at__lte=now + timedelta(days=int(chosen)))


class BannedFilter(ChoiceFilter):
    title = "ban"
    parameter_name = "banned"
    offered = (("now", "Banned now"),)

    def condition(self, chosen: str) -> Q:
        return reports.banned_now(timezone.now())


class PlanFilter(ChoiceFilter):
    title = "plan of the account"
    parameter_name = "plan"
    offered = tuple(PlanCode.choices)

    def condition(self, chosen: str) -> Q:
        return Q(account__plan=chosen)


@admin.register(ApiKey)
class ApiKeyAdmin(KeyPages):
    """Keys are issued, renamed, rotated and revoked. They are never deleted, and their text shows once."""

    can_delete = False
    add_title = "Issue a key"
    list_display = ["public_id", "account", "visible_name", "state", "today", "last_use", "ends"]
    list_select_related = ["account__plan", "standing"]
    list_filter = [StateFilter, ExpiresFilter, BannedFilter, "mode", PlanFilter]
    search_fields = ["public_id"]  # See search.
    search_help_text = "A name of a key or an account, or the start of a key's public id"
    autocomplete_fields = ["account"]
    issue_fields = ["account", "name", "scopes", "ends", "expires_at", "allowed_networks", "form_id"]
    shown_fields = [
        "name", "account", "public_id", "mode", "its_scopes", "networks", "created_at", "ends",
        "rotated_from", "revoked_at", "revoked_reason",
    ]  # fmt: skip

    # --- The list

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return reports.with_ban_reason(with_use_of_today(super().get_queryset(request)))

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return the columns; of banned keys, also why and until when, and the way to lift it."""
        banned = request.GET.get(BannedFilter.parameter_name) == "now"
        lifts = ["lift"] if self.has_change_permission(request) else []
        return [*self.list_display, "ban", *lifts] if banned else self.list_display

    def search(self, request: HttpRequest, rows: QuerySet[ApiKey], term: str) -> QuerySet[ApiKey]:
        """Return the keys whose public id begins so, or with this in their name, or in their account's.

        Those of one account all begin with its id.
        """
        named = Q(name__search_key__contains=term) | Q(account__name__search_key__contains=term)
        return rows.filter(Q(public_id__startswith=term) | named)

    @display(description="state", label=STATE_COLOURS)
    def state(self, key: ApiKey) -> tuple[str, str]:
        state, text = key_state(key, timezone.now())
        return state, text.split(" until ")[0]  # Short, as there is no room for more.

    @display(description="used today")
    def today(self, key: ApiKey) -> SafeString:
        return usage_bar(getattr(key, "requests_today", 0), key.account.limits.per_day)

    @display(description="last use", ordering="last_used_at")
    def last_use(self, key: ApiKey) -> SafeString:
        return age(key.last_used_at, timezone.now())

    @display(description="ends", ordering="expires_at")
    def ends(self, key: ApiKey) -> str:
        return exact(key.expires_at) if key.expires_at else "never"

    @display(description="ban")
    def ban(self, key: ApiKey) -> str:
        return ban_of(key, timezone.now())

    @display(description="what to do")
    def lift(self, key: ApiKey) -> SafeString:
        link = '<a class="office-link" href="{}" aria-label="Lift the ban of {}">Lift the ban</a>'
        return format_html(link, reverse("admin:accounts_apikey_unban", args=[key.pk]), key.public_id)

    @display(description="scopes")
    def its_scopes(self, key: ApiKey) -> str:
        return ", ".join(key.scopes.split())

    @display(description="allowed networks")
    def networks(self, key: ApiKey) -> str:
        return ", ".join(key.allowed_networks) or "every address"

    # --- The form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.issue_fields if obj is None else self.shown_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Return all but the name, once there is a key; all of it, once it is revoked."""
        if obj is None:
            return []
        return self.shown_fields if obj.revoked_at else self.shown_fields[1:]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = IssueForm
        return super().get_form(request, obj, change, **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Choose the account from whose page somebody comes."""
        account = request.GET.get("account", "")
        sound = account.isascii() and account.isdecimal() and len(account) < len(str(2**63))
        return {"account": int(account)} if sound else {}

    def beside_form(self, request: HttpRequest, row: ApiKey | None) -> dict[str, Any]:
        """Return which buttons the page has, what the key does, and its history."""
        shown: dict[str, Any] = {"show_save_and_add_another": False, "show_save_and_continue": False}
        if row is None:
            return shown
        now = timezone.now()
        may_change, alive = self.has_change_permission(request, row), row.revoked_at is None
        return shown | {
            "show_save": alive,
            "may_revoke": may_change and alive,
            "may_rotate": row.state(now) == "active" and self.may_rotate(request, row),
            "may_unban": may_change and alive and row.ban_end(now) is not None,
            "state": state_badge(row, now),
            "ban": ban_of(row, now),
            "successor": getattr(row, "rotated_to", None),
            "used_today": self.today(row),
            "last_use": age(row.last_used_at, now),
            "usage": usage_chart(now, key=row),
            "sees_refusals": may_view(request, "accounts.refusal"),
            "refusals": row.refusals.select_related("key")[:LATEST],
            "history_title": "History of the key",
            "history": entries_of(row.events),
        }

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
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
            by=Actor.of(request),
        )
        obj.pk = key.pk
        obj.refresh_from_db()
        obj.text = text  # For response_add, which answers this same request; it is no field.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Record nothing more: `issue` has."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        """Show the new key's text: the only time."""
        return self.show_text(request, obj, obj.text)


def ban_of(key: ApiKey, now: datetime) -> str:
    """Return until when a key is banned, and why; nothing if it isn't."""
    ends = key.ban_end(now)
    return f"Banned until {exact(ends)}. {getattr(key, 'ban_reason', '')}" if ends else ""
