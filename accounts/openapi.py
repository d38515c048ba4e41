"""What drf-spectacular says of our authentication."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class BearerKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The bearer scheme of the contract."""

    target_class = "accounts.authentication.BearerKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Return the security scheme object."""
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key: `Authorization: Bearer psk_live_...`.",
        }
