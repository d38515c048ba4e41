"""Admin of API keys, which staff issue, restrict, rotate and revoke. Keys are never deleted."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from accounts.actions import Action
from accounts.admin import badges
from accounts.admin.base import (
    MAX_PANEL_ROWS,
    annotate_requests_today,
    count_recent_requests,
    is_id_prefix,
    make_link_column,
)
from accounts.key_forms import IssueKeyForm, NarrowForm, RevokeForm, RotateForm
from accounts.models import Account, ApiKey, PlanCode, active_keys_q
from accounts.usage import reports
from accounts.usage.charts import build_usage_chart
from petstore.api.int64 import parse_id
from petstore.audit import Actor
from petstore.audit.forms import ActionForm, ReasonForm
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.confirmation import ActionFormsMixin
from petstore.backoffice.history import build_history
from petstore.backoffice.model_admin import change_url
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult
from petstore.db.names import visible_name
from petstore.text import format_time

LINKS_TEMPLATE = "admin/accounts/apikey/links.html"


class UnbanForm(ReasonForm):
    verb = "unban"
    title = "Lift the ban on this key?"
    button = "Lift the ban"
    warning = (
        "The key is banned because it kept sending requests after a 429. "
        "Lifting the ban takes effect with the next request."
    )
    success = "The ban on key {} has been lifted."


class StateFilter(ChoiceFilter):
    """The states of keys. `active` includes those that expire soon or are banned."""

    title = "state"
    parameter_name = "state"
    options = (
        ("active", "Active"),
        ("banned", "Banned now"),
        ("7", "Expires within 7 days"),
        ("unreplaced", "Expires within 7 days, not replaced"),
        ("30", "Expires within 30 days"),
        ("expired", "Expired"),
        ("revoked", "Revoked"),
    )

    def get_condition(self, chosen: str) -> Q:
        now = timezone.now()
        conditions = {
            "active": active_keys_q(now),
            "banned": reports.banned_keys_q(now),
            "expired": Q(revoked_at=None, expires_at__lte=now),
            "revoked": Q(revoked_at__isnull=False),
        }
        if chosen in conditions:
            return conditions[chosen]
        if chosen == "unreplaced":
            return self.get_condition("7") & Q(rotated_to=None)
        return active_keys_q(now) & Q(expires_at__lte=now + timedelta(days=int(chosen)))


class PlanFilter(ChoiceFilter):
    title = "plan of the account"
    parameter_name = "plan"
    options = tuple(PlanCode.choices)
    field = "account__plan"


@admin.register(ApiKey)
class ApiKeyAdmin(ActionFormsMixin):
    can_delete = False
    action_forms = (RotateForm, NarrowForm, RevokeForm, UnbanForm)
    autocomplete_fields = ["account"]
    issue_fields = [
        "account", "name", "scopes", "expires_in", "expires_at", "allowed_networks", "submission_token",
    ]  # fmt: skip
    list_display = ["public_id", "account", "visible_name", "state", "usage_today", "last_use", "expiry"]
    list_select_related = ["account__plan", "rate_limit_state"]
    list_filter = [StateFilter, "mode", PlanFilter]
    search_fields = ["public_id"]  # Shows the search box; `search` builds the query.
    search_help_text = "The name of a key or an account, or the start of a key's public ID"
    palette_commands = (PaletteCommand("key", "Issue a key"),)
    row_commands = {"Unban": "banned", "Rotate": "active", "Revoke": "active", "Restrict": "active"}
    change_fields = [
        "name", "account", "public_id", "mode", "scope_list", "network_list", "created_at", "expiry",
        "rotated_from", "revoked_at", "revoked_reason",
    ]  # fmt: skip

    # --- The list

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        keys = reports.annotate_ban_reason(annotate_requests_today(super().get_queryset(request)))
        return keys.annotate(replaced=Exists(ApiKey.objects.filter(rotated_from=OuterRef("pk"))))

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = self.list_display
        if request.GET.get(StateFilter.parameter_name) == "banned":  # The reason of a ban needs the width.
            columns = ["public_id", "account", "visible_name", "last_use", "ban"]

        if not self.has_change_permission(request):
            return columns
        return [*columns, make_link_column(LINKS_TEMPLATE, partial(self.get_action_permissions, request))]

    def search(self, request: HttpRequest, rows: QuerySet[ApiKey], term: str) -> QuerySet[ApiKey]:
        has_name = Q(name__search_key__contains=term) | Q(account__name__search_key__contains=term)
        return rows.filter(Q(public_id__startswith=term) | has_name)

    @display(description="state", label=badges.STATE_COLOURS)
    def state(self, key: ApiKey) -> tuple[str, str]:
        state, text = key.describe_state(timezone.now())
        return state, text.split(" until ")[0]  # The column is narrow.

    @display(description="used today", ordering="requests_today")
    def usage_today(self, key: ApiKey) -> SafeString:
        return badges.render_usage_bar(getattr(key, "requests_today", 0), key.account.limits.per_day)

    @display(description="last used", ordering="last_used_at")
    def last_use(self, key: ApiKey) -> SafeString:
        return badges.render_age(key.last_used_at, timezone.now())

    @display(description="expires", ordering="expires_at")
    def expiry(self, key: ApiKey) -> str:
        if key.expires_at is None:
            return "never"
        # In a narrow column, it wraps only before the time.
        html = '<span class="time">{}</span> <span class="time">{}</span>'
        return format_html(html, *format_time(key.expires_at).split(" ", 1))

    @display(description="ban")
    def ban(self, key: ApiKey) -> str:
        ban_end = key.get_ban_end(timezone.now())
        if ban_end is None:
            return ""
        return f"Banned until {format_time(ban_end)}. {getattr(key, 'ban_reason', '')}"

    @display(description="scopes")
    def scope_list(self, key: ApiKey) -> str:
        return ", ".join(key.scopes.split())

    @display(description="allowed networks")
    def network_list(self, key: ApiKey) -> str:
        return ", ".join(key.allowed_networks) or "every address"

    # --- The command palette

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        if is_id_prefix(term):
            keys = ApiKey.objects.select_related("account", "rate_limit_state")
            for key in keys.filter(public_id__startswith=term).order_by("public_id")[:MAX_RESULTS]:
                rank = 1 if key.public_id == term else 2
                yield SearchResult(rank, "key", key.public_id, describe_key(key), change_url(key))

    # --- The form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.issue_fields if obj is None else self.change_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        if obj is None:
            return []
        return [field for field in self.change_fields if field != "name" or obj.revoked_at]

    def get_form_context(self, request: HttpRequest, row: ApiKey | None) -> dict[str, Any]:
        buttons: dict[str, Any] = {"show_save_and_add_another": False, "show_save_and_continue": False}
        if row is None:
            return buttons | {"title": "Issue a key"}
        now = timezone.now()
        return buttons | {
            **self.get_action_permissions(request, row),
            "show_save": row.revoked_at is None,
            "state_badge": badges.build_state_badge(row, now),
            "ban": self.ban(row),
            "replacement": getattr(row, "rotated_to", None),
            "usage_bar": self.usage_today(row),
            "last_use": self.last_use(row),
            "usage_chart": build_usage_chart(now, key=row),
            "may_view_rejections": may_view(request, "accounts.rejection"),
            "rejections": row.rejections.select_related("key")[:MAX_PANEL_ROWS],
            "history_title": "History of the key",
            "history": build_history(row.audit_entries, request),
        }

    # --- Issuing

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = IssueKeyForm
        return super().get_form(request, obj, change, **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        pk = parse_id(request.GET.get("account"))
        return {"account": pk} if pk and Account.objects.filter(pk=pk).exists() else {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            # Only the name: writing all fields could undo a concurrent revocation.
            obj.save(update_fields=["name"])
            return
        key, key_text = form.issue(Actor.from_request(request))
        obj.pk = key.pk
        obj.refresh_from_db()
        obj.key_text = key_text  # For response_add. It is never stored.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Do nothing: `issue` has written the audit entry."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        return self.show_key_text(request, obj, obj.key_text)

    def show_key_text(self, request: HttpRequest, key: ApiKey, key_text: str) -> HttpResponse:
        """Show the key in the response to the POST, since a redirect would require storing it."""
        return self.render_page(
            request, "accounts/apikey/issued", "Copy the new key now",
            object=key, key=key, key_text=key_text, now=timezone.now(),
            may_view=self.has_view_permission(request, key),
            curl=f"curl -H 'Authorization: Bearer {key_text}' {settings.BASE_URL}/pets",
        )  # fmt: skip

    # --- Revoking, unbanning, narrowing and rotating

    def respond(self, request: HttpRequest, form: ActionForm, obj: ApiKey, result: Any) -> HttpResponse:
        if form.verb == "rotate":
            return self.show_key_text(request, *result)
        return super().respond(request, form, obj, result)

    def may_act(self, request: HttpRequest, obj: ApiKey, verb: str) -> bool:
        may_issue = verb != "rotate" or self.has_add_permission(request)
        return may_issue and self.has_change_permission(request, obj)

    def get_action_permissions(self, request: HttpRequest, key: ApiKey) -> dict[str, bool]:
        """Return which actions apply to the key and are permitted, for its page and the list."""
        now = timezone.now()
        may_change, is_active = self.has_change_permission(request, key), key.get_state(now) == "active"
        is_rotatable = is_active and not getattr(key, "replaced", False)
        return {
            "may_revoke": may_change and key.revoked_at is None,
            "may_narrow": may_change and is_active,
            "may_rotate": is_rotatable and self.may_act(request, key, "rotate"),
            # The ban of a revoked key still prevents issuing keys.
            "may_unban": may_change and key.get_ban_end(now) is not None,
        }

    def get_obstacle(self, verb: str, obj: ApiKey) -> str:
        return f"Key {obj} is already revoked." if obj.revoked_at and verb != "unban" else ""

    def get_confirmation_context(self, key: ApiKey) -> dict[str, Any]:
        now = timezone.now()
        other_keys = ApiKey.objects.active_since(key.account, now).exclude(pk=key.pk).count()
        details = {
            "Key name": visible_name(key.name) or "none",
            "Scopes": ", ".join(key.scopes.split()),
            "Last used": badges.render_age(key.last_used_at, now),
            **count_recent_requests(now, key=key),
            "Other active keys on this account": other_keys or "None. This is the only one.",
        }
        if replacement := getattr(key, "rotated_to", None):
            details["Replaced by"] = f"{replacement}, which keeps its rights"
        if ban_end := key.get_ban_end(now):
            if entry := key.audit_entries.filter(action=Action.BANNED).first():
                details["Banned since"] = format_time(entry.at)
                details["Reason for the ban"] = entry.reason
            details["The ban ends"] = format_time(ban_end)
        html = 'Key <span class="public-id">{}</span> of <strong>{}</strong>'
        return {
            "description": format_html(html, key.public_id, key.account),
            "badge": badges.build_state_badge(key, now),
            "details": details,
        }


def describe_key(key: ApiKey) -> str:
    _, state = key.describe_state(timezone.now())
    return f"Key of {key.account}, {state[:1].lower()}{state[1:]}"
