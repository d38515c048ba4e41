"""The pages on which staff suspend an account, lift that, and change its plan."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from accounts.admin.badges import exact
from accounts.admin.base import WarnsIfUntold, warn_if_untold
from accounts.admin.plans import number_field
from accounts.admin.use import sent_lately
from accounts.models import Account, PlanCode, active
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
PLAN = Question("Change the plan", "", "It holds from the next request on, and what was used stays used.")


class SuspendedFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    offered = (("suspended", "Suspended"), ("active", "Not suspended"))

    def condition(self, chosen: str) -> Q:
        return Q(suspended_at__isnull=chosen == "active")


class PlanForm(ReasonForm):
    """A reason, the two numbers of Enterprise, and the plan, which is the button that was pressed."""

    per_minute = number_field("Requests per minute, for Enterprise", required=False)
    per_day = number_field("Requests per day, for Enterprise", required=False)
    choice = forms.ChoiceField(choices=PlanCode.choices)


class AccountPages(WarnsIfUntold):
    row_pages = {
        "suspend/": "suspend", "lift-suspension/": "lift_suspension", "change-plan/": "change_plan",
    }  # fmt: skip

    def suspend_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_why(request, object_id, SUSPEND, Account.suspend, "{} is suspended.")

    def lift_suspension_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_why(
            request, object_id, LIFT, Account.lift_suspension, "The suspension of {} is lifted."
        )

    def change_plan_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def move(account: Account, **given: Any) -> None:
            account.change_plan(PlanCode(given.pop("choice")), **given)

        said = "The plan of {0} is {0.plan} now, with {0.limits.per_minute:,} requests a minute and "
        said += "{0.limits.per_day:,} a day."
        return self.ask_why(request, object_id, PLAN, move, said, form_class=PlanForm, choices=offered)

    def ask_why(
        self,
        request: HttpRequest,
        object_id: str,
        question: Question,
        verb: Callable[..., None],
        said: str,
        *,
        form_class: type[forms.Form] = ReasonForm,
        choices: Callable[[Account], list[tuple[str, str]]] = lambda account: [],
    ) -> HttpResponse:
        account = self.row(request, object_id, self.has_change_permission)
        back = reverse("admin:accounts_account_change", args=[account.pk])

        def act(given: dict[str, Any]) -> HttpResponse:
            verb(account, **given, by=Actor.of(request))
            self.message_user(request, said.format(account))
            warn_if_untold(self, request, account=account.pk)
            return HttpResponseRedirect(back)

        return confirm(
            self, request, question, form_class, act,
            back=back, about=str(account), facts=facts(account), choices=choices(account),
        )  # fmt: skip


def offered(account: Account) -> list[tuple[str, str]]:
    """Return the plans to move to, and the words on their buttons."""
    others = [(plan.value, f"Move to {plan.label}") for plan in PlanCode if plan != account.plan_id]
    custom = account.plan_id == PlanCode.ENTERPRISE
    return [*others, (PlanCode.ENTERPRISE.value, "Set these numbers")] if custom else others


def facts(account: Account) -> dict[str, Any]:
    """Return what somebody should know before they change what the keys may do, by its name for people."""
    now = timezone.now()
    since = {
        "Suspended since": exact(account.suspended_at),
        "Reason of the suspension": account.suspended_reason,
    } if account.suspended_at else {}  # fmt: skip
    limits = account.limits
    return {
        "Plan": account.plan,
        "Requests per minute": f"{limits.per_minute:,}",
        "Requests per day": f"{limits.per_day:,}",
        "Active keys": account.keys.filter(active(now)).count(),
        **sent_lately(now, key__account=account),
        **since,
    }
