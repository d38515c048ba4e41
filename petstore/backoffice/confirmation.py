"""Pages that ask for confirmation of an action, and for its data, such as a reason."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.forms.widgets import Input
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from petstore.audit import Actor
from petstore.audit.forms import ActionForm
from petstore.backoffice.model_admin import PetstoreModelAdmin, change_url

CONFIRMED = "confirmed"
Response = TypeVar("Response", bound=HttpResponse | None)


class ActionFormsMixin(PetstoreModelAdmin):
    """Adds a page for each form. Its action writes the audit entry, with the reason."""

    action_forms: Sequence[type[ActionForm]] = ()

    def get_urls(self) -> list[Any]:
        urls = []
        for form_class in self.action_forms:
            route = f"<path:object_id>/{form_class.verb.replace('_', '-')}/"
            route += "<int:row_id>/" if form_class.relation else ""
            urls.append(self.make_url(route, form_class.verb, partial(self.action_form_view, form_class)))
        return [*urls, *super().get_urls()]

    def may_act(self, request: HttpRequest, obj: Any, verb: str) -> bool:
        return self.has_change_permission(request, obj)

    def get_obstacle(self, verb: str, obj: Any) -> str:
        """Return why the action is impossible, or an empty string."""
        return ""

    def get_confirmation_context(self, obj: Any) -> dict[str, Any]:
        """Describe the object on the pages."""
        return {"description": str(obj)}

    def action_form_view(
        self, form_class: type[ActionForm], request: HttpRequest, object_id: str, row_id: int | None = None
    ) -> HttpResponse:
        verb = form_class.verb
        obj = self.get_permitted_object(request, object_id, partial(self.may_act, verb=verb))
        relation = form_class.relation
        row = get_object_or_404(getattr(obj, relation), pk=row_id) if relation else obj
        if obstacle := self.get_obstacle(verb, obj):
            self.message_user(request, obstacle, messages.WARNING)
            return redirect(change_url(obj))

        def act(form: ActionForm) -> HttpResponse:
            return self.respond(request, form, obj, form.save(Actor.from_request(request)))

        context = {"description": str(row)} if relation else self.get_confirmation_context(obj)
        return self.confirm(request, form_class, act, row, back=change_url(obj), object=obj, **context)

    def respond(self, request: HttpRequest, form: ActionForm, obj: Any, result: Any) -> HttpResponse:
        """Respond to an action on a page of the object, given what the form's `save` returned."""
        self.message_user(request, form.success.format(form.row), messages.SUCCESS)
        return redirect(change_url(obj))

    def confirm(
        self,
        request: HttpRequest,
        form_class: Callable[..., ActionForm],
        act: Callable[[Any], Response],
        subject: Any,
        *,
        action: str = "",
        **context: Any,
    ) -> Response | HttpResponse:
        """Show the page about a row or a text until its form is valid, then call `act` with the form.

        The page also shows a ValidationError that `act` raises. `action` names the changelist action to
        which the page submits `rows` (IDs and labels) again. If the form has a field `choice`, the page has
        a button for each of `choices` in the context (values and labels).
        """
        is_submitted = CONFIRMED in request.POST if action else request.method == "POST"
        data = request.POST if is_submitted else None
        form = form_class(data, row=subject)
        if form.is_valid():
            try:
                return act(form)
            except ValidationError as error:
                form.add_error(None, error)
        if isinstance(widget := next((field.widget for field in form.fields.values()), None), Input):
            widget.attrs["autofocus"] = True
        title, button = form.title.format(subject), form.button.format(subject)
        return self.render_page(
            request, "confirm", title, form=form, button=button, action=action,
            checkbox=ACTION_CHECKBOX_NAME, confirmed=CONFIRMED, **context,
        )  # fmt: skip
