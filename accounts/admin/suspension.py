"""The pages on which staff suspend an account, and lift that."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db.models import Q, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from accounts.admin.badges import exact
from accounts.admin.base import WarnsIfUntold, warn_if_untold
from accounts.models import Account, DailyUsage, active
from petstore.backoffice.audit import Actor
from petstore.backoffice.confirmation import Question, ReasonForm, confirm
from petstore.backoffice.filters import ChoiceFilter

SUSPEND = Question(
    "Suspend this account?",
    "Suspend the account",
    "All its keys stop working: their next requests are answered with 403 account_suspended. "
    "Nothing is lost, and the same keys work again once the suspension is lifted.",
    danger=True,
)
LIFT = Question(
    "Lift the suspension of this account?",
    "Lift the suspension",
    "Its keys work again from the next request on. Revoked, expired and banned ones stay so.",
)


class SuspendedFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    offered = (("suspended", "Suspended"), ("active", "Not suspended"))

    def condition(self, chosen: str) -> Q:
        return Q(suspended_at__isnull=chosen == "active")


class SuspensionPages(WarnsIfUntold):
    row_pages = {"suspend/": "suspend", "lift-suspension/": "lift_suspension"}

    def suspend_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        said = "{} is suspended. Its keys are refused from now on."
        return self.ask_why(request, object_id, SUSPEND, Account.suspend, said)

    def lift_suspension_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        said = "The suspension of {} is lifted. Its keys work again."
        return self.ask_why(request, object_id, LIFT, Account.lift_suspension, said)

    def ask_why(
        self, request: HttpRequest, object_id: str, question: Question, verb: Callable[..., None], said: str
    ) -> HttpResponse:
        account = self.row(request, object_id, self.has_change_permission)
        back = reverse("admin:accounts_account_change", args=[account.pk])

        def act(given: dict[str, Any]) -> HttpResponse:
            verb(account, reason=given["reason"], by=Actor.of(request))
            self.message_user(request, said.format(account))
            warn_if_untold(self, request, account=account.pk)
            return HttpResponseRedirect(back)

        return confirm(
            self, request, question, ReasonForm, act, back=back, about=str(account), facts=facts(account)
        )


def facts(account: Account) -> dict[str, Any]:
    """Return what somebody should know before the keys stop or work again, by its name for people."""
    now = timezone.now()
    today = now.date()
    in_week = DailyUsage.objects.filter(
        key__account=account, day__gt=today - timedelta(days=7), day__lte=today
    )
    sent = in_week.aggregate(today=Sum("requests", filter=Q(day=today)), week=Sum("requests"))
    since = {
        "Suspended since": exact(account.suspended_at),
        "Reason of the suspension": account.suspended_reason,
    } if account.suspended_at else {}  # fmt: skip
    return {
        "Plan": account.plan,
        "Active keys": account.keys.filter(active(now)).count(),
        "Requests today": f"{sent['today'] or 0:,}",
        "Requests in the last 7 days": f"{sent['week'] or 0:,}",
        **since,
    }
