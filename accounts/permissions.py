"""Scopes (D18)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from accounts.caller import Caller
from petstore.api.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from rest_framework.views import APIView


class HasScope(BasePermission):
    """Asks for the scope that the view's `required_scopes` names for its action."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return True, or raise the ApiError 403."""
        action = getattr(view, "action", None)
        scope = getattr(view, "required_scopes", {}).get(action)
        caller = request.auth
        if scope is None or (isinstance(caller, Caller) and scope in caller.scopes):
            return True
        raise ApiError(
            ErrorCode.INSUFFICIENT_SCOPE,
            f"The API key lacks the scope {scope}. Use a key that has it.",
        )
