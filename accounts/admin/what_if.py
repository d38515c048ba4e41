"""What other numbers would have refused: the page that asks, for a plan or for one account."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from accounts import reports
from accounts.limits import Limits
from accounts.models import Account, Plan

DAYS = 30
LARGEST = 2**63 - 1


class LimitsForm(forms.Form):
    """Two numbers that don't hold."""

    per_minute = forms.IntegerField(
        label="Requests per minute", min_value=1, max_value=LARGEST, widget=UnfoldAdminIntegerFieldWidget
    )
    per_day = forms.IntegerField(
        label="Requests per day", min_value=1, max_value=LARGEST, widget=UnfoldAdminIntegerFieldWidget
    )


def form_of(request: HttpRequest, limits: Limits | None) -> LimitsForm:
    """Return the form as it was sent, or with the numbers that hold now."""
    if any(name in request.GET for name in LimitsForm.base_fields):
        return LimitsForm(request.GET)
    return LimitsForm(initial=limits._asdict() if limits else None)


def answer(form: LimitsForm, whose: Plan | Account, limits: Limits | None) -> dict[str, Any]:
    """Return what the page says of the numbers in a valid form, else nothing."""
    if not form.is_bound or not form.is_valid():
        return {}
    other = Limits(form.cleaned_data["per_minute"], form.cleaned_data["per_day"])
    if isinstance(whose, Plan):
        found = reports.what_if(*other, plan=whose.pk, days=DAYS)
    else:
        found = reports.what_if(*other, account_id=whose.pk, days=DAYS)
    return {
        "found": found,
        "verdict": in_words(found),
        "requests": f"{found.requests:,}",
        "rows": rows(found, other, limits),
    }


class Row(NamedTuple):
    """A line of the comparison."""

    name: str
    today: str
    other: str


def rows(found: reports.WhatIf, other: Limits, limits: Limits | None) -> list[Row]:
    """Return the comparison. Without `limits`, each account has numbers of its own."""
    return [
        Row(
            "Requests per minute",
            f"{limits.per_minute:,}" if limits else "its own",
            f"{other.per_minute:,}",
        ),
        Row("Requests per day", f"{limits.per_day:,}" if limits else "its own", f"{other.per_day:,}"),
        Row("Refused", f"{found.refused_now:,}", f"{found.refused:,} ({share(found)})"),
        Row("of them for the minute", "", f"{found.refused_by_minute:,}"),
        Row("of them for the day", "", f"{found.refused_by_day:,}"),
        Row("Accounts refused at least once", "", f"{found.accounts_refused:,} of {found.accounts:,}"),
    ]


def in_words(found: reports.WhatIf) -> str:
    """Return the comparison with today's numbers, in a sentence."""
    difference = found.refused - found.refused_now
    if not found.requests:
        return f"No request came in the last {found.days} days, so no numbers would have refused any."
    if not difference:
        return "These numbers would have refused as many requests as today's."
    more_or_fewer = "more" if difference > 0 else "fewer"
    return f"These numbers would have refused {abs(difference):,} requests {more_or_fewer} than today's."


def share(found: reports.WhatIf) -> str:
    """Return how much of what was wanted would have been refused, in percent."""
    return f"{found.refused / found.requests:.1%}" if found.requests else "0%"
