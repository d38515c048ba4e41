"""Why was a request refused? Staff paste its id and read what the service knew at that moment."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.admin.badges import age, state_badge
from accounts.admin.base import PastedKeyAdmin, without_secret
from accounts.models import Refusal
from petstore.backoffice.navigation import may_view
from petstore.observability.request_ids import WELL_FORMED

REASONS = {
    Refusal.Rule.MINUTE: "The account had used up the requests of the minute.",
    Refusal.Rule.DAY: "The account had used up the requests of the day.",
    Refusal.Rule.BAN: "The key was banned: it had kept sending before the Retry-After of a 429 ran out.",
}
SHARED = "All keys of the account share the limit. If the account needs more, look at a larger plan."
ADVICE = {
    Refusal.Rule.MINUTE: f"Wait as Retry-After says, then go on; spread requests over the minute. {SHARED}",
    Refusal.Rule.DAY: f"Wait until the day ends, at 00:00 UTC. {SHARED}",
    Refusal.Rule.BAN: (
        "Fix the program: after a 429 it must wait as Retry-After says. The key works again when the ban "
        "ends; requests until then don't prolong it. Staff can lift the ban once the program is fixed."
    ),
}


class RequestIdForm(forms.Form):
    q = forms.CharField(
        label="Request id",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="It is in the X-Request-Id header of every answer; ask the customer for it.",
    )

    def clean_q(self) -> str:
        request_id: str = self.cleaned_data["q"]
        if not WELL_FORMED.fullmatch(request_id):
            raise forms.ValidationError(
                "This isn't a request id: those have at most 128 letters, digits and the signs . _ ~ -"
            )
        return request_id


@admin.register(Refusal)
class RefusalAdmin(PastedKeyAdmin):
    """Instead of a list, one page that answers one question."""

    can_add = can_change = can_delete = False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Ask for a request id, and explain what is kept of it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return without_secret(request) or self.explain(request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        query = urlencode({"q": self.row(request, object_id).request_id})
        return HttpResponseRedirect(f"{reverse('admin:accounts_refusal_changelist')}?{query}")

    def explain(self, request: HttpRequest) -> HttpResponse:
        form = RequestIdForm(request.GET if "q" in request.GET else None)
        request_id = form.cleaned_data["q"] if form.is_valid() else ""
        now = timezone.now()
        found = Refusal.objects.for_request(request_id).select_related(
            "account__plan", "key__standing", "key__account"
        )
        return self.page(
            request, "accounts/refusal/explain", "Why was I refused?",
            form=form,
            request_id=request_id,
            found=[explanation(refusal, now) for refusal in found],
            kept_days=settings.REFUSALS_KEPT_DAYS,
            sees_accounts=may_view(request, "accounts.account"),
            sees_keys=may_view(request, "accounts.apikey"),
        )  # fmt: skip


def explanation(refusal: Refusal, now: datetime) -> dict[str, Any]:
    rule = Refusal.Rule(refusal.rule)
    return {
        "refusal": refusal,
        "reason": REASONS[rule],
        "advice": ADVICE[rule],
        "age": age(refusal.at, now),
        "key_badge": state_badge(refusal.key, now),
        "windows": windows(refusal),
    }


def windows(refusal: Refusal) -> list[tuple[str, int, int, datetime, datetime]]:
    """Return of both windows, as they were: name, used, limit, start, and the first moment after it."""
    minute_ends, day_ends = refusal.minute_ends_at, refusal.day_ends_at
    minute, day = timedelta(minutes=1), timedelta(days=1)
    return [
        ("Minute", refusal.minute_used, refusal.minute_limit, minute_ends - minute, minute_ends),
        ("Day (UTC)", refusal.day_used, refusal.day_limit, day_ends - day, day_ends),
    ]
