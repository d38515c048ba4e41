"""Settings of drf-spectacular.

The apps describe their operations (inventory/openapi.py); hooks.py completes the document.
"""

from typing import Any


def openapi_settings(
    base_url: str, staging_url: str, contact: dict[str, str], enums: dict[str, str]
) -> dict[str, Any]:
    """Build SPECTACULAR_SETTINGS for a service at these addresses; `staging_url` may be empty.

    `contact` has `url` and `email`. `enums` maps schema names to the import paths of their choices.
    """
    return {
        "TITLE": "Pet Store",
        "DESCRIPTION": (
            "List the pets of a pet store, add one, order one.\n\n"
            "Every operation needs an API key, sent as `Authorization: Bearer <key>`. Each request with a "
            "valid key costs one of its account's quota, but for `getAccount`, which is free; every answer "
            "says in its headers what is left. "
            "After 429, wait as `Retry-After` says. The numbers in `x-rate-limits` are those on delivery: "
            "what holds for your account, the headers say.\n\n"
            "Every answer of 400 and above is an Error: `code` is for programs, `message` for people. "
            'Lists come in pages: follow `Link: rel="next"`. A POST with an `Idempotency-Key` can safely '
            "be sent again. Within `/v1` there are only additive changes."
        ),
        "VERSION": "1.0.0",
        "LICENSE": {"name": "Proprietary"},
        "CONTACT": {"name": "Pet Store", "url": base_url.removesuffix("v1")} | contact,
        "EXTERNAL_DOCS": {
            "description": "Documentation in which every operation can be tried",
            "url": base_url.removesuffix("v1") + "docs",
        },
        # The contract, "Limits". Enterprise has numbers of its own.
        "EXTENSIONS_INFO": {
            "x-rate-limits": {
                "free": {"per-minute": 60, "per-day": 1_000},
                "pro": {"per-minute": 300, "per-day": 10_000},
                "business": {"per-minute": 1_000, "per-day": 100_000},
                "enterprise": "agreed with each account",
            }
        },
        "TAGS": [
            {"name": "pets", "description": "The pets: those for sale, those promised, those sold."},
            {"name": "orders", "description": "What your account has ordered, and no one else's orders."},
            {"name": "categories", "description": "The kinds that pets belong to; staff keep them."},
            {
                "name": "events",
                "description": "What happened, in one order, for clients that follow it.",
            },
            {
                "name": "account",
                "description": "Your account, the key that asks, and what is left of the quota.",
            },
        ],
        "SERVERS": [{"url": base_url, "description": "This service"}]
        + ([{"url": staging_url, "description": "Staging"}] if staging_url else []),
        "SCHEMA_PATH_PREFIX": r"/v1",
        "SCHEMA_PATH_PREFIX_TRIM": True,
        # Nothing on /docs comes from, or goes to, another site: not even Swagger's online validator.
        "SWAGGER_UI_SETTINGS": {"deepLinking": True, "validatorUrl": None, "defaultModelsExpandDepth": 0},
        "COMPONENT_SPLIT_REQUEST": False,
        "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
        "ENUM_NAME_OVERRIDES": enums,
        "PREPROCESSING_HOOKS": ["petstore.api.openapi.hooks.only_v1"],
        "POSTPROCESSING_HOOKS": [
            "drf_spectacular.hooks.postprocess_schema_enums",
            "petstore.api.openapi.hooks.complete",
        ],
    }
