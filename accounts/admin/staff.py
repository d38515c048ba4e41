"""Who works in the back office.

Nobody edits somebody who may do more than they, or gives what they don't have; nobody takes away their own
rights. So the right to edit staff never leads to more rights, and the last who can let others in stays in.
"""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django_otp.plugins.otp_static import admin as otp_static_pages  # noqa: F401  Registers what goes below.
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp import admin as otp_totp_pages  # noqa: F401
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextInputWidget

from petstore.backoffice import audit, two_factor
from petstore.backoffice.model_admin import PetstoreModelAdmin

# django-otp's own pages would show the secrets of everybody's authenticator app.
admin.site.unregister([User, Group, TOTPDevice, StaticDevice])

APPS_WITH_PAGES = ("accounts", "inventory", "auth", "backoffice")
OWN_RIGHTS = ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")


def rights_of(request: HttpRequest) -> set[str]:
    """Return the permissions of the member of staff who is signed in."""
    return set(cast("User", request.user).get_all_permissions())


def names(permissions: QuerySet[Permission]) -> set[str]:
    """Return permissions as app_label.codename."""
    pairs = permissions.values_list("content_type__app_label", "codename")
    return {f"{app}.{codename}" for app, codename in pairs}


def grantable(request: HttpRequest) -> QuerySet[Permission]:
    """Return the permissions that somebody may give to others: their own, as far as a page needs them."""
    found = Permission.objects.filter(content_type__app_label__in=APPS_WITH_PAGES).select_related(
        "content_type"
    )
    if cast("User", request.user).is_superuser:
        return found
    own = rights_of(request)
    pairs = found.values_list("pk", "content_type__app_label", "codename")
    return found.filter(pk__in=[pk for pk, app, codename in pairs if f"{app}.{codename}" in own])


class ReasonForm(forms.Form):
    """Why somebody's second factor is reset."""

    reason = forms.CharField(
        max_length=255, help_text="For the audit trail.", widget=UnfoldAdminTextInputWidget
    )


class NobodyAboveAdmin(PetstoreModelAdmin):
    """Pages on which nobody raises anybody above themselves, or touches what stands above them."""

    def outranks(self, request: HttpRequest, row: Any) -> bool:
        """Tell whether the row has rights that the member of staff has not."""
        raise NotImplementedError

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow it for what stands no higher."""
        may: bool = super().has_change_permission(request, obj)
        return may and (obj is None or not self.outranks(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow it for what stands no higher."""
        may: bool = super().has_delete_permission(request, obj)
        return may and (obj is None or not self.outranks(request, obj))

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer only what may be given."""
        if db_field.name in {"permissions", "user_permissions"}:
            kwargs["queryset"] = grantable(request)
        if db_field.name == "groups" and not cast("User", request.user).is_superuser:
            above = Permission.objects.exclude(pk__in=grantable(request))
            kwargs["queryset"] = Group.objects.exclude(permissions__in=above)
        kwargs["widget"] = UnfoldAdminCheckboxSelectMultipleWidget()
        return super().formfield_for_manytomany(db_field, request, **kwargs)


@admin.register(User)
class StaffAdmin(UserAdmin, NobodyAboveAdmin):  # type: ignore[type-arg,misc]  # Stubs and unfold differ.
    """Who may sign in. As in Django, but with the care of our other pages."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "first_name", "last_name", "is_staff", "has_second_factor")
    filter_horizontal = ()  # Boxes to tick, which need neither a wide screen nor a mouse.

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """Return the members of staff, each with whether a second factor is set up."""
        device = TOTPDevice.objects.filter(user=OuterRef("pk"), confirmed=True)
        found: QuerySet[User] = super().get_queryset(request)
        return found.annotate(second_factor=Exists(device))

    @display(description="two-factor", boolean=True)
    def has_second_factor(self, user: Any) -> bool:
        """Return whether a second factor is set up."""
        return bool(user.second_factor)

    def outranks(self, request: HttpRequest, row: User) -> bool:
        """Tell whether somebody has rights that the member of staff has not, active or not."""
        if cast("User", request.user).is_superuser:
            return False
        given = Permission.objects.filter(Q(user=row) | Q(group__user=row))
        return row.is_superuser or not names(given) <= rights_of(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid to delete oneself."""
        return super().has_delete_permission(request, obj) and (obj is None or obj.pk != request.user.pk)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what can't be edited: one's own rights; and only superusers make superusers."""
        fixed = ("last_login", "date_joined")
        if obj is not None and obj.pk == request.user.pk:
            return (*fixed, *OWN_RIGHTS)
        return fixed if cast("User", request.user).is_superuser else (*fixed, "is_superuser")

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> User | None:
        """Return somebody; two who take away each other's rights at the same moment don't both succeed."""
        if request.method == "POST" and transaction.get_connection().in_atomic_block:
            list(User.objects.select_for_update().order_by("pk").values_list("pk"))
            own = User.objects.filter(pk=cast("User", request.user).pk).first()
            if own is None or not own.is_active or not own.is_staff or not own.has_perm("auth.view_user"):
                raise PermissionDenied
        found: User | None = super().get_object(request, object_id, from_field)
        return found

    def get_urls(self) -> list[URLPattern]:
        """Add the page to reset somebody's second factor."""
        view = self.admin_site.admin_view(self.reset_view)
        return [path("<id>/two-factor/", view, name="auth_user_reset_two_factor"), *super().get_urls()]

    def may_reset(self, request: HttpRequest, user: User | None) -> bool:
        """Tell whether somebody may: for others only, who turn their own off with password and code."""
        return user is not None and user.pk != request.user.pk and self.has_change_permission(request, user)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Show the page, with the link to reset where there is something to reset."""
        user = context.get("original")
        context["may_reset"] = self.may_reset(request, user) and getattr(user, "second_factor", False)
        return super().render_change_form(request, context, *args, **kwargs)

    def reset_view(self, request: HttpRequest, id: str) -> HttpResponse:  # noqa: A002  As UserAdmin names it.
        """Ask for the reason, then take away somebody's second factor."""
        user = self.get_object(request, unquote(id))
        if user is None:
            raise Http404
        if not self.may_reset(request, user):
            raise PermissionDenied
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            with transaction.atomic():
                two_factor.remove(user)
                reason = form.cleaned_data["reason"]
                audit.record(request, user, audit.Action.TWO_FACTOR_RESET, reason=reason)
            self.message_user(
                request, f"{user} signs in with the password alone now, and can set up a new app."
            )
            return HttpResponseRedirect(reverse("admin:auth_user_change", args=[user.pk]))
        request.current_app = self.admin_site.name
        shared = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "colleague": user,
            "form": form,
        }
        return TemplateResponse(
            request, "admin/two_factor/reset.html", shared | {"title": "Reset two-factor sign-in"}
        )


@admin.register(Group)
class StaffGroupAdmin(GroupAdmin, NobodyAboveAdmin):  # type: ignore[misc]  # Unfold has no types.
    """What groups of staff may do."""

    filter_horizontal = ()

    def outranks(self, request: HttpRequest, row: Model) -> bool:
        """Tell whether the group has rights that the member of staff has not, or is one of theirs."""
        user = cast("User", request.user)
        if user.is_superuser:
            return False
        if user.groups.filter(pk=row.pk).exists():
            return True
        return not names(Permission.objects.filter(group=row.pk)) <= rights_of(request)
