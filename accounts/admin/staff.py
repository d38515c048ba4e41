"""Admin of staff and their roles.

Staff can't edit colleagues who have more permissions, grant permissions they lack, or drop their own. So
editing staff never leads to more permissions, and at least one person can always admit others.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, cast

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django_otp.plugins.otp_static import admin as otp_static_pages  # noqa: F401  Registers what goes below.
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp import admin as otp_totp_pages  # noqa: F401
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.decorators import display
from unfold.forms import UserChangeForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from accounts.admin.badges import exact
from accounts.admin.base import change_url, confirm_with_reason
from petstore.backoffice import two_factor
from petstore.backoffice.audit import Action, Actor, record
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.confirmation import Confirmation, ReasonForm, confirm
from petstore.backoffice.history import HistoryEntry
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.models import FailedSignIn
from petstore.backoffice.navigation import PAGES
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult
from petstore.backoffice.password_links import create_link

# django-otp's own pages would show the secrets of authenticator apps.
admin.site.unregister([User, Group, TOTPDevice, StaticDevice])

APPS_WITH_PAGES = ("accounts", "inventory", "auth", "backoffice")
RESET = Confirmation(
    "Reset two-factor sign-in?",
    "Reset two-factor",
    "Their app and their recovery codes stop working. Make sure that the request really comes from them: "
    "until they set up a new app, their password alone is enough to sign in.",
    danger=True,
)
NEW_PASSWORD = Confirmation(
    "Reset the password?",
    "Create a link",
    "Creates a link for choosing a new password. Make sure that the request really comes from them. "
    "Their old password works until they use the link.",
)
FAILED_SIGN_INS_SHOWN = 20
OWN_PERMISSIONS = ("is_active", "is_superuser", "user_permissions")
ROLE_HELP = "If none fits, add one under Roles."
ROLES = {
    "Viewer": "read-only access to everything except staff and the audit trail",
    "Support": "a Viewer who also manages keys and accounts",
    "Stock": "manages pets, categories and orders; no access to accounts",
    "Owner": "full access, including plans, staff and the audit trail",
}

LABELS = {"is_active": "May sign in", "is_superuser": "Superuser"}
HELP = {
    "username": "For signing in. Letters, digits and @ . + - _ only.",
    "is_active": "Switch this off when they leave. Their entries in the audit trail remain.",
    "is_superuser": "Has all permissions, regardless of the role. The Owner role is enough for daily work.",
    "user_permissions": "Permissions in addition to the role.",
}

ACTIONS = {"view": "See", "add": "Add", "change": "Change", "delete": "Delete"}


def permissions_of(user: User) -> QuerySet[Permission]:
    """Return all permissions of a user, also of an inactive one."""
    return Permission.objects.filter(Q(user=user) | Q(group__user=user))


def grantable(request: HttpRequest) -> QuerySet[Permission]:
    """Return the permissions the user may grant: their own, for apps that have pages."""
    found = Permission.objects.filter(content_type__app_label__in=APPS_WITH_PAGES)
    user = cast("User", request.user)
    own = found if user.is_superuser else found.filter(pk__in=permissions_of(user).values("pk"))
    return own.select_related("content_type")


def permission_choices(permissions: Iterable[Permission]) -> list[tuple[str, list[tuple[int, str]]]]:
    """Group the permissions by page of the navigation, as choices with optgroups."""
    given = {(each.content_type_id, each.codename): each.pk for each in permissions}
    found = []
    for path, title, _ in chain(*PAGES.values()):
        model = apps.get_model(path)
        page, kind = admin.site.get_model_admin(model), ContentType.objects.get_for_model(model)
        keys = {action: (kind.pk, f"{action}_{model._meta.model_name}") for action in ACTIONS}
        choices = [
            (given[key], f"{ACTIONS[action]} {model._meta.verbose_name_plural}")
            for action, key in keys.items()
            if key in given and getattr(page, f"can_{action}", True)
        ]
        found += [(title, choices)] if choices else []
    return found


class RoleSelect(UnfoldAdminSelectWidget):
    """A single select for a many-to-many field. A value is a comma-separated list of IDs."""

    def format_value(self, value: Any) -> list[str]:
        return [",".join(sorted(str(pk) for pk in value or []))]

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        return [pk for pk in data.get(name, "").split(",") if pk]


class RoleField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # Generic in its stubs only.
    widget = RoleSelect

    def label_from_instance(self, group: Any) -> str:
        return f"{group.name}: {ROLES[group.name]}" if group.name in ROLES else group.name


class StaffForm(UserChangeForm):
    class Meta(UserChangeForm.Meta):
        labels, help_texts = LABELS, HELP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offer the current combination of groups, if it is not exactly one."""
        super().__init__(*args, **kwargs)
        self.initial["is_active"] = self.instance.is_active and self.instance.is_staff
        groups: list[Group] = self.initial.get("groups", [])
        if "groups" in self.fields and len(groups) != 1:
            role: Any = self.fields["groups"]
            [value] = role.widget.format_value(group.pk for group in groups)
            name = " and ".join(group.name for group in groups) or "No role: no access"
            role.choices = [(value, name), *role.choices]


class NewStaffForm(UserCreationForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Has no password fields: the new colleague chooses a password with a link."""

    password1 = password2 = None  # type: ignore[assignment]  # So Django leaves a field out.

    class Meta(UserCreationForm.Meta):
        labels, help_texts = LABELS, HELP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        role: Any = self.fields["groups"]
        role.required = True
        role.choices = [("", "Choose a role"), *role.choices]

    def save(self, commit: bool = True) -> Any:
        self.instance.set_unusable_password()
        return forms.ModelForm.save(self, commit)


class NoEscalationAdmin(PetstoreModelAdmin):
    """Protects rows with more permissions than the user has, and limits what the user can grant."""

    permissions_field: str

    def outranks(self, request: HttpRequest, row: Any) -> bool:
        """Whether the row has permissions that the user lacks."""
        user = cast("User", request.user)
        above = self.permissions_in(row).exclude(pk__in=permissions_of(user).values("pk"))
        return not user.is_superuser and above.exists()

    def permissions_in(self, row: Any) -> QuerySet[Permission]:
        raise NotImplementedError

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or not self.outranks(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_delete_permission(request, obj)
        return allowed and (obj is None or not self.outranks(request, obj))

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer checkboxes of the grantable permissions; Django's filter widget needs a mouse."""
        if db_field.name != self.permissions_field:
            return super().formfield_for_manytomany(db_field, request, **kwargs)
        kwargs |= {"queryset": grantable(request), "widget": UnfoldAdminCheckboxSelectMultipleWidget()}
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        field.choices = permission_choices(grantable(request))
        return field

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Keep permissions that the form does not offer."""
        offered = [pk for _, choices in permission_choices(Permission.objects.all()) for pk, _ in choices]
        field = getattr(form.instance, self.permissions_field)
        kept = list(field.exclude(pk__in=offered))
        super().save_related(request, form, formsets, change)
        field.add(*kept)


class RoleFilter(ChoiceFilter):
    title = parameter_name = "role"
    field = "groups"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(pk), name) for pk, name in Group.objects.order_by("name").values_list("pk", "name")]


@admin.register(User)
class StaffAdmin(UserAdmin, NoEscalationAdmin):  # type: ignore[type-arg,misc]  # Stubs and unfold differ.
    add_form_template = None  # Django's says that there is a second form.
    form = StaffForm
    add_form = NewStaffForm
    list_display = ("username", "name", "email", "role", "may_sign_in", "last_sign_in", "has_second_factor")
    list_filter = (RoleFilter, "is_active")
    permissions_field = "user_permissions"
    person = ("username", "first_name", "last_name", "email")
    row_pages = {"two-factor/": "reset_two_factor"}
    palette_commands = (PaletteCommand("person_add", "Add a member of staff"),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        device = TOTPDevice.objects.filter(user=OuterRef("pk"), confirmed=True)
        found: QuerySet[User] = super().get_queryset(request)
        return found.annotate(second_factor=Exists(device)).prefetch_related("groups")

    def palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        found = User.objects.filter(is_staff=True, username__search_key__startswith=term)
        for user in found.order_by("username")[:MAX_RESULTS]:
            yield SearchResult(2, "badge", user.username, "Member of staff", change_url(user))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ((None, {"fields": (*self.person, "groups")}),)
        permissions = ["role" if obj.pk == request.user.pk else "groups", "is_active"]
        permissions += ["is_superuser"] if cast("User", request.user).is_superuser else []
        permissions += ["user_permissions"] if obj.user_permissions.exists() else []
        password = ["reset_password"] if self.may_reset(request, obj) else []
        return (
            (None, {"fields": (*self.person, *password)}),
            ("Permissions", {"fields": permissions}),
            ("Dates", {"fields": ("last_sign_in", "date_joined")}),
        )

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer the roles whose permissions the user may grant."""
        if db_field.name == "groups":
            above = Permission.objects.exclude(pk__in=grantable(request))
            superuser = cast("User", request.user).is_superuser
            groups = Group.objects.all() if superuser else Group.objects.exclude(permissions__in=above)
            return RoleField(groups.order_by("name"), required=False, label="Role", help_text=ROLE_HELP)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.is_staff = obj.is_active
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        """Show the password link instead of Django's second form."""
        return self.show_link(request, obj, "")

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002  Django's name.
        """Create a link, so that staff never know the password of a colleague."""
        user = self.row(request, id, self.may_reset)

        def create_link(given: dict[str, Any]) -> HttpResponse:
            if not (user.is_active and user.is_staff):
                text = 'They may not sign in, so the link would not work. Turn on "May sign in" first.'
                raise ValidationError(text)
            return self.show_link(request, user, given["reason"])

        about = f"Member of staff: {user}"
        return confirm(
            self, request, NEW_PASSWORD, ReasonForm, create_link, back=change_url(user), about=about
        )

    def history_of(self, row: User) -> list[HistoryEntry]:
        """Add the latest failed sign-ins: few, so that an attack does not hide other entries."""
        failed = FailedSignIn.objects.filter(user_id=row.pk)[:FAILED_SIGN_INS_SHOWN]
        found = [HistoryEntry(one.at, "Failed to sign in", "", one.reason) for one in failed]
        return sorted(super().history_of(row) + found, key=lambda entry: entry.at, reverse=True)

    def show_link(self, request: HttpRequest, user: User, reason: str) -> HttpResponse:
        # In response to the POST, so that the link is not stored anywhere.
        record(
            Actor.of(request), user, Action.ISSUED, after={"link": "to choose a password"}, reason=reason
        )
        link, template = create_link(user, by=cast("User", request.user)), "auth/user/password_link"
        return self.page(request, template, "Copy the link now", colleague=user, link=link)

    @display(description="password")
    def reset_password(self, user: User) -> SafeString:
        link = reverse("admin:auth_user_password_change", args=[user.pk])
        return format_html('<a class="office-link" href="{}">Reset password</a>', link)

    @display(description="name")
    def name(self, user: User) -> str | None:
        return user.get_full_name() or None

    @display(description="role")
    def role(self, user: User) -> str:
        groups = [group.name for group in user.groups.all()]  # Prefetched.
        return ", ".join(["Superuser"] * user.is_superuser + groups) or "None"

    @display(description="may sign in", boolean=True)
    def may_sign_in(self, user: User) -> bool:
        return user.is_active and user.is_staff

    @display(description="last sign-in", ordering="last_login")
    def last_sign_in(self, user: User) -> str:
        return exact(user.last_login) if user.last_login else "Never"

    @display(description="two-factor", boolean=True)
    def has_second_factor(self, user: Any) -> bool:
        return bool(user.second_factor)

    def outranks(self, request: HttpRequest, row: User) -> bool:
        above = row.is_superuser and not cast("User", request.user).is_superuser
        return above or super().outranks(request, row)

    def permissions_in(self, row: User) -> QuerySet[Permission]:
        return permissions_of(row)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow it only once the account is inactive."""
        allowed = super().has_delete_permission(request, obj)
        return allowed and (obj is None or (obj.pk != request.user.pk and not obj.is_active))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Protect the user's own permissions. Only superusers make superusers."""
        fixed = ("reset_password", "role", "last_sign_in", "date_joined")
        if obj is not None and obj.pk == request.user.pk:
            return (*fixed, *OWN_PERMISSIONS)
        return fixed if cast("User", request.user).is_superuser else (*fixed, "is_superuser")

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> User | None:
        """Lock all users before a change, so that two Owners can't lock each other out concurrently."""
        if request.method == "POST" and transaction.get_connection().in_atomic_block:
            list(User.objects.select_for_update().order_by("pk").values_list("pk"))
            own = User.objects.filter(pk=cast("User", request.user).pk).first()
            if own is None or not own.is_active or not own.is_staff or not own.has_perm("auth.view_user"):
                raise PermissionDenied
        found: User | None = super().get_object(request, object_id, from_field)
        return found

    def may_reset(self, request: HttpRequest, user: User) -> bool:
        # Their own password and second factor they change on pages that ask for both.
        return user.pk != request.user.pk and self.has_change_permission(request, user)

    def form_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        if row is None:
            return {"show_save_and_add_another": False, "show_save_and_continue": False}
        return {"may_reset": row.second_factor and self.may_reset(request, row)}

    def reset_two_factor_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        user = self.row(request, object_id, self.may_reset)
        message = "{} can now sign in with the password alone, and set up a new app."
        about = f"Member of staff: {user}"
        return confirm_with_reason(
            self, request, user, RESET, method=reset_two_factor, message=message, about=about
        )


def reset_two_factor(user: User, *, reason: str, by: Actor) -> None:
    with transaction.atomic():
        two_factor.remove(user)
        record(by, user, Action.TWO_FACTOR_RESET, reason=reason)


@admin.register(Group)
class StaffGroupAdmin(GroupAdmin, NoEscalationAdmin):  # type: ignore[misc]  # Unfold has no types.
    permissions_field = "permissions"
    list_display = ("visible_name", "purpose")

    def outranks(self, request: HttpRequest, row: Group) -> bool:
        """Protect the user's own groups as well."""
        user = cast("User", request.user)
        is_own = not user.is_superuser and user.groups.filter(pk=row.pk).exists()
        return is_own or super().outranks(request, row)

    @display(description="purpose")
    def purpose(self, group: Group) -> str | None:
        return capfirst(ROLES.get(group.name))

    def permissions_in(self, row: Group) -> QuerySet[Permission]:
        return Permission.objects.filter(group=row.pk)
