"""What other numbers would have refused: the page that asks, for a plan or for one account."""

from __future__ import annotations

from typing import NamedTuple

from django import forms
from django.http import HttpRequest, HttpResponse
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from accounts import reports
from accounts.admin.unpublished import WarnsIfUntold
from accounts.limits import Limits

DAYS = 30
LARGEST = 2**63 - 1


class LimitsForm(forms.Form):
    per_minute = forms.IntegerField(
        label="Requests per minute", min_value=1, max_value=LARGEST, widget=UnfoldAdminIntegerFieldWidget
    )
    per_day = forms.IntegerField(
        label="Requests per day", min_value=1, max_value=LARGEST, widget=UnfoldAdminIntegerFieldWidget
    )


class WhatIfAdmin(WarnsIfUntold):
    """The pages of something that has `limits`, with one that asks what others would have refused."""

    row_pages = {"what-if/": "what_if"}
    reported_as: str  # The name of the row's id in `reports.what_if`.

    def what_if_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for two numbers, and say how many of the last requests they would have refused."""
        row = self.row(request, object_id)
        limits: Limits | None = row.limits
        sent = request.GET if LimitsForm.base_fields.keys() & request.GET.keys() else None
        form = LimitsForm(sent, initial=limits._asdict() if limits else None)
        answer = {}
        if form.is_valid():
            other = Limits(form.cleaned_data["per_minute"], form.cleaned_data["per_day"])
            found = reports.what_if(*other, days=DAYS, **{self.reported_as: row.pk})
            answer = {
                "found": found, "verdict": in_words(found), "requests": f"{found.requests:,}",
                "rows": rows(found, other, limits),
            }  # fmt: skip
        title = f"What if {row} had other numbers?"
        return self.page(request, "accounts/what_if", title, whose=row, form=form, **answer)


class Row(NamedTuple):
    name: str
    today: str
    other: str


def rows(found: reports.WhatIf, other: Limits, limits: Limits | None) -> list[Row]:
    """Return the comparison. Without `limits`, each account has numbers of its own."""
    minute, day = (f"{limits.per_minute:,}", f"{limits.per_day:,}") if limits else ("its own", "its own")
    share = f"{found.refused / found.requests:.1%}" if found.requests else "0%"
    return [
        Row("Requests per minute", minute, f"{other.per_minute:,}"),
        Row("Requests per day", day, f"{other.per_day:,}"),
        Row("Refused", f"{found.refused_now:,}", f"{found.refused:,} ({share})"),
        Row("of them for the minute", "", f"{found.refused_by_minute:,}"),
        Row("of them for the day", "", f"{found.refused_by_day:,}"),
        Row("Accounts refused at least once", "", f"{found.accounts_refused:,} of {found.accounts:,}"),
    ]


def in_words(found: reports.WhatIf) -> str:
    """Return the comparison with today's numbers, in a sentence."""
    difference = found.refused - found.refused_now
    if not found.requests:
        return f"There were no requests in the last {found.days} days, so nothing would have been refused."
    if not difference:
        return "These numbers would have refused as many requests as today's."
    more_or_fewer = "more" if difference > 0 else "fewer"
    return f"These numbers would have refused {abs(difference):,} {more_or_fewer} requests than today's."
