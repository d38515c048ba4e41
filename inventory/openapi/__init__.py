"""What the OpenAPI document says of the inventory, beyond what it infers.

Loaded when the document is built, not with the service: drf-spectacular takes long to import.
"""

from inventory.openapi import fields, operations  # noqa: F401  drf-spectacular finds the extensions in them.
