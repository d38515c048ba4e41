"""Admin of staff and their roles. staff_forms.py has the forms."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from allauth.account import admin as account_pages  # noqa: F401  Registers admins that are unregistered below.
from allauth.account.models import EmailAddress
from allauth.mfa import admin as mfa_pages  # noqa: F401
from allauth.mfa.models import Authenticator
from allauth.usersessions import admin as session_pages  # noqa: F401
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from unfold.decorators import display

from accounts.actions import Action
from accounts.admin import escalation
from accounts.admin.escalation import get_user
from accounts.admin.staff_forms import (
    ROLE_DESCRIPTIONS,
    MakeStaffForm,
    NewStaffForm,
    RemoveFromStaffForm,
    ResetPasswordForm,
    ResetTwoFactorForm,
    RoleField,
    StaffForm,
)
from petstore.audit import Actor, record, record_changes
from petstore.audit.forms import ActionForm
from petstore.audit.models import FailedSignIn
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.confirmation import ActionFormsMixin
from petstore.backoffice.history import HistoryEntry
from petstore.backoffice.model_admin import PetstoreModelAdmin, change_url
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult
from petstore.sign_in.password_links import create_link
from petstore.sign_in.second_factors import SECOND_FACTORS, has_second_factor, reset_two_factor
from petstore.text import format_time

# Replaced below or hidden. django-allauth's page of authenticators would show their secrets.
admin.site.unregister([User, Group, Authenticator, EmailAddress, UserSession])

NO_SUCH_CUSTOMER = "No active customer has this username. Check the spelling, or add a new member of staff."
SIGN_IN_DISABLED = (
    'This user is not allowed to sign in, so the link would not work. Turn on "May sign in" first.'
)
MAX_FAILED_SIGN_INS = 20  # A low limit, so that an attack does not hide other entries.
MEMBER_PERMISSIONS = ["change_account", "add_apikey", "change_apikey"]


class RoleFilter(ChoiceFilter):
    title = parameter_name = "role"
    field = "groups"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(pk), name) for pk, name in Group.objects.order_by("name").values_list("pk", "name")]


@admin.register(User)
class StaffAdmin(UserAdmin, ActionFormsMixin):  # type: ignore[type-arg]
    add_form_template = None  # Django's template announces a second form.
    form = StaffForm
    add_form = NewStaffForm
    list_display = ("username", "name", "email", "role", "may_sign_in", "last_sign_in", "has_second_factor")
    list_filter = (RoleFilter, "is_active")
    identity_fields = ("username", "first_name", "last_name", "email")
    action_forms = (ResetTwoFactorForm, RemoveFromStaffForm)
    pages = {"make-staff/": ("make_staff", "add")}
    palette_commands = (
        PaletteCommand("person_add", "Add a member of staff"),
        PaletteCommand("badge", "Make a person staff", "make_staff"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        device = Authenticator.objects.filter(user=OuterRef("pk"), type__in=SECOND_FACTORS)
        users: QuerySet[User] = super().get_queryset(request).filter(is_staff=True)
        return users.annotate(second_factor=Exists(device)).prefetch_related("groups")

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        users = User.objects.filter(is_staff=True, username__search_key__startswith=term)
        for user in users.order_by("username")[:MAX_RESULTS]:
            yield SearchResult(2, "badge", user.username, "Member of staff", change_url(user))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return [(None, {"fields": (*self.identity_fields, "groups")})]
        permission_fields = ["role" if obj.pk == request.user.pk else "groups", "is_active"]
        if get_user(request).is_superuser:
            permission_fields.append("is_superuser")
        if obj.user_permissions.exists():
            permission_fields.append("user_permissions")
        password = ["reset_password"] if self.may_act(request, obj) else []
        return (
            (None, {"fields": (*self.identity_fields, *password)}),
            ("Permissions", {"fields": permission_fields}),
            ("Dates", {"fields": ("last_sign_in", "date_joined")}),
        )

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer only roles whose permissions the user may grant."""
        if db_field.name == "groups":
            groups = Group.objects.all()
            user = get_user(request)
            if not user.is_superuser:
                grantable = escalation.get_grantable_permissions(user)
                groups = groups.exclude(permissions__in=Permission.objects.exclude(pk__in=grantable))
            help_text = "If none fits, add one under Roles."
            return RoleField(groups.order_by("name"), required=False, label="Role", help_text=help_text)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.is_staff = True
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        """Show the password link instead of Django's second form."""
        return self.show_password_link(request, obj, reason="")

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002  Django's name.
        """Create a link, so that staff never know the password of a colleague."""
        return self.action_form_view(ResetPasswordForm, request, id)

    @method_decorator(transaction.atomic)  # In a transaction, `get_object` locks all staff.
    def action_form_view(self, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().action_form_view(*args, **kwargs)

    def may_act(self, request: HttpRequest, obj: User, verb: str = "") -> bool:
        """Whether the user is a colleague whom the editor may reset or remove from staff."""
        return obj.pk != request.user.pk and self.has_change_permission(request, obj)

    def get_obstacle(self, verb: str, obj: User) -> str:
        return SIGN_IN_DISABLED if verb == "reset_password" and not obj.is_active else ""

    def respond(self, request: HttpRequest, form: ActionForm, obj: User, result: Any) -> HttpResponse:
        if form.verb == "reset_password":
            return self.show_password_link(request, obj, reason=form.cleaned_data["reason"])
        response = super().respond(request, form, obj, result)
        return redirect(self.list_url()) if form.verb == "remove_from_staff" else response

    def get_confirmation_context(self, obj: User) -> dict[str, Any]:
        return {"description": f"Member of staff: {obj}"}

    def get_history(self, request: HttpRequest, row: User) -> list[HistoryEntry]:
        """Include the latest failed sign-ins."""
        failed_sign_ins = FailedSignIn.objects.filter(user_id=row.pk)[:MAX_FAILED_SIGN_INS]
        failures = [HistoryEntry(row.at, "Failed to sign in", "", row.reason) for row in failed_sign_ins]
        history = super().get_history(request, row) + failures
        return sorted(history, key=lambda entry: entry.at, reverse=True)

    def show_password_link(self, request: HttpRequest, user: User, *, reason: str) -> HttpResponse:
        """Render the link in response to the POST, so that it is not stored anywhere."""
        record(Actor.from_request(request), user, Action.LINK_ISSUED, reason=reason)
        context = {"object": user, "colleague": user, "link": create_link(user, by=get_user(request))}
        return self.render_page(request, "auth/user/password_link", "Copy the link now", **context)

    @display(description="password")
    def reset_password(self, user: User) -> SafeString:
        url = reverse("admin:auth_user_password_change", args=[user.pk])
        return format_html('<a class="office-link" href="{}">Reset password</a>', url)

    @display(description="name")
    def name(self, user: User) -> str | None:
        return user.get_full_name() or None

    @display(description="role")
    def role(self, user: User) -> str:
        names = ["Superuser"] if user.is_superuser else []
        return ", ".join(names + [group.name for group in user.groups.all()]) or "None"

    @display(description="may sign in", boolean=True)
    def may_sign_in(self, user: User) -> bool:
        return user.is_active

    @display(description="last sign-in", ordering="last_login")
    def last_sign_in(self, user: User) -> str:
        return format_time(user.last_login) if user.last_login else "Never"

    @display(description="two-factor", boolean=True)
    def has_second_factor(self, user: Any) -> bool:
        return bool(user.second_factor)

    def outranks(self, request: HttpRequest, obj: User) -> bool:
        """Also compare the permissions that are implied by membership of an account."""
        editor = get_user(request)
        codenames = MEMBER_PERMISSIONS if obj.memberships.exists() else []
        own = escalation.get_user_permissions(obj).values("pk")
        implied = Permission.objects.filter(Q(pk__in=own) | Q(codename__in=codenames))
        return (obj.is_superuser and not editor.is_superuser) or escalation.outranks(editor, implied)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and not (obj and self.outranks(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Require that the user is inactive, and not the editor."""
        may_be_deleted = obj is None or (
            obj.pk != request.user.pk and not obj.is_active and not self.outranks(request, obj)
        )
        return may_be_deleted and super().has_delete_permission(request, obj)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        return escalation.offer_grantable_permissions(field, get_user(request))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        with escalation.keep_other_permissions(form.instance.user_permissions):
            super().save_related(request, form, formsets, change)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Protect the editor's own permissions, and let only superusers make superusers."""
        readonly_fields = ["reset_password", "role", "last_sign_in", "date_joined"]
        if obj is not None and obj.pk == request.user.pk:
            readonly_fields += ["is_active", "is_superuser", "user_permissions"]
        elif not get_user(request).is_superuser:
            readonly_fields.append("is_superuser")
        return readonly_fields

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Lock all staff before a change, so that two Owners can't lock each other out concurrently."""
        if request.method == "POST" and transaction.get_connection().in_atomic_block:
            staff = User.objects.filter(is_staff=True)
            list(staff.select_for_update().order_by("pk").values_list("pk"))
            # A concurrent change may have removed the editor's access.
            editor = User.objects.filter(pk=get_user(request).pk, is_active=True, is_staff=True).first()
            if editor is None or not editor.has_perm("auth.view_user"):
                raise PermissionDenied
        return super().get_object(request, object_id, from_field)

    def get_form_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        if row is None:
            return {"show_save_and_add_another": False, "show_save_and_continue": False}
        may_manage = self.may_act(request, row)
        return {"may_reset": row.second_factor and may_manage, "may_remove": may_manage}

    def make_staff_view(self, request: HttpRequest) -> HttpResponse:
        role = self.formfield_for_dbfield(User._meta.get_field("groups"), request)

        @transaction.atomic
        def make_staff(form: MakeStaffForm) -> HttpResponse:
            people = User.objects.select_for_update().filter(is_active=True, is_staff=False)
            user = people.filter(username=form.cleaned_data["username"]).first()
            if user is None:
                raise ValidationError({"username": NO_SUCH_CUSTOMER})
            if self.outranks(request, user):
                raise PermissionDenied
            actor, reason = Actor.from_request(request), form.cleaned_data["reason"]
            with record_changes(actor, user, Action.MADE_STAFF, reason=reason):
                user.is_staff, user.is_superuser = True, False
                # Also ends the sessions, which started without the checks for staff.
                user.set_unusable_password()
                user.save()
                user.groups.set(form.cleaned_data["groups"])
                user.user_permissions.clear()
            # A thief of the old password may have added them.
            EmailAddress.objects.filter(user=user, verified=False).delete()
            if has_second_factor(user):
                reset_two_factor(user, reason=reason, by=actor)
            return self.show_password_link(request, user, reason=reason)

        return self.confirm(
            request, partial(MakeStaffForm, role=role), make_staff, None, back=self.list_url()
        )


@admin.register(Group)
class StaffGroupAdmin(GroupAdmin, PetstoreModelAdmin):
    list_display = ("visible_name", "purpose")

    def may_edit(self, request: HttpRequest, obj: Group | None) -> bool:
        """Protect the editor's own groups as well."""
        editor = get_user(request)
        if obj is None or editor.is_superuser:
            return True
        own = editor.groups.filter(pk=obj.pk).exists()
        return not own and not escalation.outranks(editor, Permission.objects.filter(group=obj.pk))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and self.may_edit(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and self.may_edit(request, obj)

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        return escalation.offer_grantable_permissions(field, get_user(request))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        with escalation.keep_other_permissions(form.instance.permissions):
            super().save_related(request, form, formsets, change)

    @display(description="purpose")
    def purpose(self, group: Group) -> str | None:
        return capfirst(ROLE_DESCRIPTIONS.get(group.name))
