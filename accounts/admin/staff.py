"""Who works in the back office."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from petstore.backoffice.pages import PetstoreModelAdmin

admin.site.unregister([User, Group])


@admin.register(User)
class StaffAdmin(UserAdmin, PetstoreModelAdmin):  # type: ignore[type-arg,misc]  # Stubs and unfold differ.
    """Who may sign in. As in Django, but with the care of our other pages."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class StaffGroupAdmin(GroupAdmin, PetstoreModelAdmin):  # type: ignore[misc]  # Unfold has no types.
    """What groups of staff may do."""
