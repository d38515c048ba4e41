"""Admin of API keys: list and filters, issuing, and the pages that revoke, unban and rotate."""

import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from accounts.admin.badges import SOON, STATE_COLOURS, age, exact, key_state, state_badge, usage_bar
from accounts.admin.base import (
    LATEST,
    change_url,
    may_be_id,
    reason_view,
    recent_requests,
    usage_chart,
    warn_if_unpublished,
    with_requests_today,
)
from accounts.keys import networks, scopes
from accounts.models import ROTATION_OVERLAP, Account, ApiKey, IdempotencyRecord, PlanCode, is_active
from accounts.usage import reports
from petstore.backoffice.audit import Action, Actor
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.confirmation import Confirmation, confirm
from petstore.backoffice.forms import MultilineField
from petstore.backoffice.history import history_entries
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult, phrase_argument
from petstore.db.names import visible_name

LONGEST_OVERLAP = 720  # Hours: 30 days.
OVERLAP = int(ROTATION_OVERLAP.total_seconds() // 3600)
REVOKE = Confirmation(
    "Revoke this key?",
    "Revoke the key",
    "Every program that uses this key stops working: its next request gets 401. This can't be undone.",
    danger=True,
)
UNBAN = Confirmation(
    "Lift the ban of this key?",
    "Lift the ban",
    "It is banned because it kept sending requests after a 429. Takes effect with the next request.",
)
UNBAN_PHRASE = "Lift the ban of"  # In the command palette.
ROTATE = Confirmation(
    "Rotate this key?",
    "Rotate the key",
    "Issues a replacement with the same scopes and networks, and shows it once. The old key keeps working "
    "for the hours below, unless it expires earlier.",
)


class StateFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    options = (
        ("active", "Active"),
        ("soon", "Expires soon"),
        ("expired", "Expired"),
        ("revoked", "Revoked"),
    )

    def condition(self, chosen: str) -> Q:
        """`active` includes keys that expire soon or are banned."""
        now = timezone.now()
        if chosen == "revoked":
            return Q(revoked_at__isnull=False)
        if chosen == "expired":
            return Q(revoked_at=None, expires_at__lte=now)
        return is_active(now) & Q(expires_at__lte=now + SOON) if chosen == "soon" else is_active(now)


class ExpiresFilter(ChoiceFilter):
    title = "expiry"
    parameter_name = "expires"
    options = (("7", "Within 7 days"), ("30", "Within 30 days"))

    def condition(self, chosen: str) -> Q:
        now = timezone.now()
        return Q(revoked_at=None, expires_at__gt=now, expires_at__lte=now + timedelta(days=int(chosen)))


class BannedFilter(ChoiceFilter):
    title = "ban"
    parameter_name = "banned"
    options = (("now", "Banned now"),)

    def condition(self, chosen: str) -> Q:
        return reports.is_banned(timezone.now())


class PlanFilter(ChoiceFilter):
    title = "plan of the account"
    parameter_name = "plan"
    options = tuple(PlanCode.choices)

    def condition(self, chosen: str) -> Q:
        return Q(account__plan=chosen)


class IssueForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {scopes.DESCRIPTIONS[scope]}") for scope in scopes.SCOPES],
        initial=scopes.READ_SCOPES,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="What the key may do. Tick write scopes only if the program needs them.",
    )
    ends = forms.TypedChoiceField(
        required=False,
        coerce=int,
        empty_value=None,
        choices=[
            ("", "Never, or at the time below"),
            ("30", "In 30 days"),
            ("90", "In 90 days"),
            ("365", "In 1 year"),
        ],
        widget=UnfoldAdminSelectWidget,
    )
    allowed_networks = MultilineField(
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}),
        help_text="One per line, such as 203.0.113.0/24. Leave empty to allow every address.",
    )
    form_id = forms.CharField(
        required=False, max_length=64, widget=forms.HiddenInput, initial=lambda: secrets.token_urlsafe(16)
    )

    def clean_account(self) -> Account:
        account: Account = self.cleaned_data["account"]
        if account.suspended_at:
            text = f"{account} is suspended, so a new key would not work. Lift the suspension first."
            raise ValidationError(text)
        return account

    def clean_scopes(self) -> str:
        return scopes.join_scopes(self.cleaned_data["scopes"])

    def clean_allowed_networks(self) -> list[str]:
        return networks.normalize(self.cleaned_data["allowed_networks"].split())

    def clean_expires_at(self) -> datetime | None:
        end = cast("datetime | None", self.cleaned_data["expires_at"])
        if end is not None and end <= timezone.now():
            raise ValidationError("This time has passed. Choose a later one, or leave the field empty.")
        return end

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if days := cleaned.get("ends"):
            if cleaned.get("expires_at"):
                self.add_error("ends", "Choose either a period or a time, not both.")
            cleaned["expires_at"] = timezone.now() + timedelta(days=days)
        return cleaned

    def _post_clean(self) -> None:
        """Reject a form that was submitted before: a double click must not issue a second key.

        Runs last, since a form that is invalid for another reason may be submitted again.
        """
        super()._post_clean()  # type: ignore[misc]  # The stubs lack it.
        form_id = self.cleaned_data.get("form_id")
        if form_id and not self.errors and has_issued(form_id, self.cleaned_data["account"]):
            text = (
                "This key has already been issued. If you did not see its text, rotate it. "
                "To issue another key, reopen this form."
            )
            self.add_error(None, text)


def has_issued(form_id: str, account: Account) -> bool:
    """Whether this form has issued a key; if not, claim it in the current transaction.

    A concurrent duplicate waits at the unique index. No client can send this key: it has a space (D31).
    """
    try:
        with transaction.atomic():
            IdempotencyRecord.objects.create(account=account, key=f"form {form_id}")
    except IntegrityError:
        return True
    return False


class RotateForm(forms.Form):
    overlap_hours = forms.IntegerField(
        label="Keep the old key working for (hours)",
        required=False,
        min_value=0,
        max_value=LONGEST_OVERLAP,
        initial=OVERLAP,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=f"From 0 (it expires at once) to {LONGEST_OVERLAP}. Default: {OVERLAP}.",
    )


@admin.register(ApiKey)
class ApiKeyAdmin(PetstoreModelAdmin):
    """Keys are never deleted. Their text is shown once, when they are issued."""

    can_delete = False
    row_pages = {"revoke/": "revoke", "unban/": "unban", "rotate/": "rotate"}
    add_title = "Issue a key"
    list_display = ["public_id", "account", "visible_name", "state", "today", "last_use", "ends"]
    list_select_related = ["account__plan", "standing"]
    list_filter = [StateFilter, ExpiresFilter, BannedFilter, "mode", PlanFilter]
    search_fields = ["public_id"]  # Shows the search box; `search` builds the query.
    search_help_text = "The name of a key or an account, or the start of a key's public ID"
    autocomplete_fields = ["account"]
    palette_commands = (PaletteCommand("key", "Issue a key"),)
    issue_fields = ["account", "name", "scopes", "ends", "expires_at", "allowed_networks", "form_id"]
    change_fields = [
        "name", "account", "public_id", "mode", "its_scopes", "networks", "created_at", "ends",
        "rotated_from", "revoked_at", "revoked_reason",
    ]  # fmt: skip

    # --- The list

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return reports.annotate_ban_reason(with_requests_today(super().get_queryset(request)))

    def get_list_display(self, request: HttpRequest) -> Any:
        banned = request.GET.get(BannedFilter.parameter_name) == "now"
        lifts = ["lift"] if self.has_change_permission(request) else []
        return [*self.list_display, "ban", *lifts] if banned else self.list_display

    def search(self, request: HttpRequest, rows: QuerySet[ApiKey], term: str) -> QuerySet[ApiKey]:
        named = Q(name__search_key__contains=term) | Q(account__name__search_key__contains=term)
        return rows.filter(Q(public_id__startswith=term) | named)

    def palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        now = timezone.now()
        keys = ApiKey.objects.select_related("account", "standing").order_by("public_id")
        for key in keys.filter(public_id__startswith=term)[:MAX_RESULTS] if may_be_id(term) else ():
            rank = 1 if key.public_id == term else 2
            yield SearchResult(rank, "key", key.public_id, describe_key(key, now), change_url(key))
        name = phrase_argument(term, UNBAN_PHRASE)
        if name is not None and request.user.has_perm("accounts.change_apikey"):
            for key in self.search(request, keys.filter(reports.is_banned(now)), name)[:MAX_RESULTS]:
                link = reverse("admin:accounts_apikey_unban", args=[key.pk])
                title = f"{UNBAN_PHRASE} {visible_name(key.name) or key.public_id}"
                yield SearchResult(3, "lock_open", title, describe_key(key, now), link)

    @display(description="state", label=STATE_COLOURS)
    def state(self, key: ApiKey) -> tuple[str, str]:
        state, text = key_state(key, timezone.now())
        return state, text.split(" until ")[0]  # The column is narrow.

    @display(description="used today")
    def today(self, key: ApiKey) -> SafeString:
        return usage_bar(getattr(key, "requests_today", 0), key.account.limits.per_day)

    @display(description="last use", ordering="last_used_at")
    def last_use(self, key: ApiKey) -> SafeString:
        return age(key.last_used_at, timezone.now())

    @display(description="expires", ordering="expires_at")
    def ends(self, key: ApiKey) -> str:
        return exact(key.expires_at) if key.expires_at else "never"

    @display(description="ban")
    def ban(self, key: ApiKey) -> str:
        return ban_of(key, timezone.now())

    @display(description="action")
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
        return self.issue_fields if obj is None else self.change_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        if obj is None:
            return []
        return self.change_fields if obj.revoked_at else self.change_fields[1:]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = IssueForm
        return super().get_form(request, obj, change, **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        account = request.GET.get("account", "")
        is_id = account.isascii() and account.isdecimal() and len(account) < len(str(2**63))
        return {"account": int(account)} if is_id else {}

    def form_context(self, request: HttpRequest, row: ApiKey | None) -> dict[str, Any]:
        buttons: dict[str, Any] = {"show_save_and_add_another": False, "show_save_and_continue": False}
        if row is None:
            return buttons
        now = timezone.now()
        may_change, alive = self.has_change_permission(request, row), row.revoked_at is None
        return buttons | {
            "show_save": alive,
            "may_revoke": may_change and alive,
            "may_rotate": row.get_state(now) == "active" and self.may_rotate(request, row),
            "may_unban": may_change and alive and row.get_ban_end(now) is not None,
            "state": state_badge(row, now),
            "ban": ban_of(row, now),
            "replacement": getattr(row, "rotated_to", None),
            "used_today": self.today(row),
            "last_use": age(row.last_used_at, now),
            "usage": usage_chart(now, key=row),
            "sees_refusals": may_view(request, "accounts.refusal"),
            "refusals": row.refusals.select_related("key")[:LATEST],
            "history_title": "History of the key",
            "history": history_entries(row.audit_entries),
        }

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            # Only the name: writing all fields could undo a concurrent revocation.
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
        obj.text = text  # For response_add, in this same request. Never stored.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Do nothing: `issue` has written the audit entry."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        return self.show_text(request, obj, obj.text)

    # --- The pages that revoke, unban and rotate

    revoke_view = reason_view(REVOKE, ApiKey.revoke, "Key {} is revoked.")
    unban_view = reason_view(UNBAN, ApiKey.unban, "The ban of key {} is lifted.")

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self.row(request, object_id, self.may_rotate)

        def rotate(given: dict[str, Any]) -> HttpResponse:
            hours = given["overlap_hours"]
            overlap = timedelta(hours=OVERLAP if hours is None else hours)
            new, text = key.rotate(by=Actor.of(request), overlap=overlap)
            warn_if_unpublished(self, request, key)
            return self.show_text(request, new, text)

        context = self.question_context(key)
        return confirm(self, request, ROTATE, RotateForm, rotate, back=change_url(key), **context)

    def question_context(self, key: ApiKey) -> dict[str, Any]:
        now = timezone.now()
        other_keys = (
            ApiKey.objects.filter(is_active(now), account=key.account_id).exclude(pk=key.pk).count()
        )
        ban_end = key.get_ban_end(now)
        event = key.audit_entries.filter(action=Action.BANNED).first() if ban_end else None
        ban = {"Banned since": exact(event.at), "Reason for the ban": event.reason} if event else {}
        facts = {
            "Name of the key": visible_name(key.name) or "none",
            "Scopes": ", ".join(key.scopes.split()),
            "Last use": age(key.last_used_at, now),
            **recent_requests(now, key=key),
            "Other active keys of the account": other_keys or "None. This is its only one.",
            **ban,
            **({"The ban ends": exact(ban_end)} if ban_end else {}),
        }
        about = format_html(
            'Key <span class="public-id">{}</span> of <strong>{}</strong>', key.public_id, key.account
        )
        return {"about": about, "badge": state_badge(key, now), "facts": facts}

    def show_text(self, request: HttpRequest, key: ApiKey, text: str) -> HttpResponse:
        # In response to the POST: a redirect would have to store the text in the session or a cookie.
        return self.page(
            request, "accounts/apikey/issued", "Copy the new key now",
            key=key, text=text, now=timezone.now(), may_view=self.has_view_permission(request, key),
            curl=f"curl -H 'Authorization: Bearer {text}' {settings.BASE_URL}/pets",
        )  # fmt: skip

    def may_rotate(self, request: HttpRequest, key: ApiKey) -> bool:
        return self.has_change_permission(request, key) and self.has_add_permission(request)


def describe_key(key: ApiKey, now: datetime) -> str:
    state = key_state(key, now)[1]
    return f"Key of {key.account}, {state[:1].lower()}{state[1:]}"


def ban_of(key: ApiKey, now: datetime) -> str:
    ends_at = key.get_ban_end(now)
    return f"Banned until {exact(ends_at)}. {getattr(key, 'ban_reason', '')}" if ends_at else ""
