"""The settings of drf-spectacular.

Each app describes its operations in its openapi.py; hooks.py completes the document.
"""

from typing import Any


def build_openapi_settings(
    base_url: str, staging_url: str, contact: dict[str, str], enums: dict[str, str]
) -> dict[str, Any]:
    """Build SPECTACULAR_SETTINGS for a service at these addresses; `staging_url` may be empty.

    `contact` may have `url` and `email`. `enums` maps schema names to the import paths of their choices.
    """
    return {
        "TITLE": "Pet Store",
        "DESCRIPTION": (
            "List, add and order the pets of a pet store.\n\n"
            "Every operation needs an API key, sent as `Authorization: Bearer <key>`. Each request with a "
            "valid key counts towards its account's quota, except `getAccount`, which is free. The headers "
            "of every response show the remaining quota. After 429, wait as long as `Retry-After` says. "
            "`x-rate-limits` lists the default limits; the headers show the limits of your account.\n\n"
            "Every response with a status of 400 or above is an Error: `code` is for programs, `message` "
            'for people. Lists are paginated: follow `Link: rel="next"`. A POST with an `Idempotency-Key` '
            "can safely be retried. Changes within `/v1` are only additive."
        ),
        "VERSION": "1.0.0",
        "LICENSE": {"name": "Proprietary"},
        "CONTACT": {"name": "Pet Store", "url": base_url.removesuffix("v1")} | contact,
        "EXTERNAL_DOCS": {
            "description": "Guides, and a reference in which you can try every operation",
            "url": base_url.removesuffix("v1") + "docs",
        },
        # The contract, "Limits". Enterprise limits are set per account.
        "EXTENSIONS_INFO": {
            "x-rate-limits": {
                "free": {"per-minute": 60, "per-day": 1_000},
                "pro": {"per-minute": 300, "per-day": 10_000},
                "business": {"per-minute": 1_000, "per-day": 100_000},
                "enterprise": "agreed with each account",
            }
        },
        "TAGS": [
            {"name": "pets", "description": "Pets: for sale, reserved or sold."},
            {"name": "orders", "description": "Orders of your account."},
            {"name": "categories", "description": "Pet categories, maintained by staff."},
            {"name": "events", "description": "A feed of changes, in the same order for all clients."},
            {
                "name": "account",
                "description": "Your account, the key in use, and the remaining quota.",
            },
        ],
        "SERVERS": [{"url": base_url, "description": "This service"}]
        + ([{"url": staging_url, "description": "Staging"}] if staging_url else []),
        "SCHEMA_PATH_PREFIX": r"/v1",
        "SCHEMA_PATH_PREFIX_TRIM": True,
        "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
        "ENUM_NAME_OVERRIDES": enums,
        "PREPROCESSING_HOOKS": ["petstore.api.openapi.hooks.select_v1_endpoints"],
        "POSTPROCESSING_HOOKS": [
            "drf_spectacular.hooks.postprocess_schema_enums",
            "petstore.api.openapi.hooks.complete_document",
        ],
    }
