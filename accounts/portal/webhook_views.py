"""The pages on which members view and manage webhooks, and follow their attempts (D51 to D57)."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from accounts.models import Account, Actor, Membership, Role, WebhookEndpoint
from accounts.models.webhooks import MAX_ENDPOINTS
from accounts.portal.access import act_locked, for_members
from accounts.portal.history import build_history
from accounts.portal.webhook_forms import CHANGES, AddForm
from accounts.webhooks.backlog import build_message, get_oldest_time
from petstore.api.int64 import INT64_MAX, parse_id
from petstore.audit.forms import ActionForm

ATTEMPTS_PER_PAGE = 25


@for_members()
@require_safe
def webhooks(request: HttpRequest, me: Membership) -> HttpResponse:
    now = timezone.now()
    endpoints = me.account.webhooks.select_related("account")
    rows = [(endpoint, *endpoint.describe_state(now), get_oldest_time(endpoint)) for endpoint in endpoints]
    context = {"me": me, "page": "webhooks", "rows": rows, "max_endpoints": MAX_ENDPOINTS}
    return render(request, "portal/webhooks.html", context)


@for_members()
@require_safe
def webhook(request: HttpRequest, me: Membership, webhook_id: str) -> HttpResponse:
    endpoint, now = find_webhook(me, webhook_id), timezone.now()
    state, state_text = endpoint.describe_state(now)
    is_parked, before = "parked" in request.GET, parse_id(request.GET.get("before"))
    log = endpoint.attempt_log.filter(pk__lt=before or INT64_MAX, **({"parked": True} if is_parked else {}))
    attempts = list(log[: ATTEMPTS_PER_PAGE + 1])
    old_secret_ends_at = endpoint.old_secret_ends_at
    context = {
        "endpoint": endpoint,
        "state": state,
        "state_text": state_text,
        "oldest": get_oldest_time(endpoint),
        "old_secret_ends_at": old_secret_ends_at and old_secret_ends_at > now and old_secret_ends_at,
        "attempts": [(attempt, *attempt.describe_outcome()) for attempt in attempts[:ATTEMPTS_PER_PAGE]],
        "next": attempts[-2].pk if len(attempts) > ATTEMPTS_PER_PAGE else None,
        "before": before,
        "is_parked": is_parked,
        "has_parked": endpoint.attempt_log.filter(parked=True).exists(),
        "history": build_history(endpoint),
    }
    return render(request, "portal/webhook.html", context | {"me": me, "page": "webhooks"})


def find_webhook(me: Membership, webhook_id: str) -> WebhookEndpoint:
    endpoints = me.account.webhooks.select_related("account")
    endpoint: WebhookEndpoint = get_object_or_404(endpoints, public_id=webhook_id)
    return endpoint


@for_members(post=Role.DEVELOPER, limit="send-again")
def attempt(request: HttpRequest, me: Membership, webhook_id: str, attempt_id: str) -> HttpResponse:
    """Show what was sent, and the response. POST sends the event again."""
    endpoint = find_webhook(me, webhook_id)
    row = get_object_or_404(endpoint.attempt_log, pk=parse_id(attempt_id))
    if request.method == "POST":
        return send_again(request, me, endpoint, row)
    state, text = row.describe_outcome()
    message = build_message(row)
    context = {
        "endpoint": endpoint,
        "attempt": row,
        "state": state,
        "state_text": text,
        "message": message,
        "body": message and message.body.decode(),
        "timestamp": None if row.is_pending else int(row.created_at.timestamp()),
    }
    return render(request, "portal/webhook_attempt.html", context | {"me": me, "page": "webhooks"})


def send_again(request: HttpRequest, me: Membership, endpoint: WebhookEndpoint, row: Any) -> HttpResponse:
    by = Actor.from_request(request)
    try:
        if row.kind == row.Kind.LOST:
            raise Http404
        if row.kind == row.Kind.TEST:
            endpoint.send_test(by=by)
        else:
            endpoint.send_again(row.event_id, by=by)
        messages.success(request, "The event will be sent again within seconds.")
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
    return redirect("portal:webhook", me.account.public_id, endpoint.public_id)


@for_members(Role.DEVELOPER, reauthenticate=True, locks=False, limit="add-webhook")
def add(request: HttpRequest, me: Membership) -> HttpResponse:
    return handle_form(request, me, AddForm, me.account)


@for_members(Role.DEVELOPER, reauthenticate=True, locks=False)
def change(request: HttpRequest, me: Membership, webhook_id: str, verb: str) -> HttpResponse:
    endpoint = find_webhook(me, webhook_id)
    if verb not in CHANGES:
        raise Http404
    return handle_form(request, me, CHANGES[verb], endpoint)


def handle_form(
    request: HttpRequest, me: Membership, form_class: type[ActionForm], row: Account | WebhookEndpoint
) -> HttpResponse:
    """Show the form until it is valid, then save it."""
    data = request.POST if request.method == "POST" else None
    form = form_class(data, row=row)
    context = {"me": me, "page": "webhooks", "form": form, "title": form.title}

    def save(request: HttpRequest, me: Membership) -> HttpResponse:
        try:
            with transaction.atomic():
                result = form.save(Actor.from_request(request))
        except ValidationError as error:
            form.add_error(None, error)
            return render(request, "portal/webhook_form.html", context)
        if form.verb == "reveal_secret":  # Shown in the response to the POST, so that it is not stored.
            shown = context | {"endpoint": form.row, "secret": result}
            return render(request, "portal/webhook_secret.html", shown)
        messages.success(request, form.success)
        if form.verb == "remove":
            return redirect("portal:webhooks", me.account.public_id)
        return redirect("portal:webhook", me.account.public_id, form.row.public_id)

    if form.is_valid():
        return act_locked(request, me, Role.DEVELOPER, save)
    return render(request, "portal/webhook_form.html", context)
