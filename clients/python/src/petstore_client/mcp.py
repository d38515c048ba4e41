"""An MCP server on standard input and output, with a tool for each operation.

    PETSTORE_KEY=... petstore-mcp https://pets.example/v1 [--write]

Errors are results that say what to do and when, since MCP clients do not read Retry-After.
"""

import argparse
import functools
import json
import os
from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from petstore_client.client import Client
from petstore_client.errors import ApiError, PetstoreError

MAX_WAIT = 5.0  # Seconds. After a longer Retry-After, the agent gets the error at once.
INSTRUCTIONS = (
    "A pet store's inventory. If a result says when to try again, call no tool but getAccount before. "
    "Lists have up to 100 rows a page."
)


def wrap(method: Callable[..., Any]) -> Callable[..., str]:
    @functools.wraps(method)
    def tool(**arguments: Any) -> str:
        try:
            result = method(**arguments)
        except PetstoreError as error:
            raise ToolError(explain(error)) from error
        if isinstance(result, list):
            result = {"rows": result, "next_cursor": getattr(result, "next_cursor", None)}
        # A dataclass has a __dict__, a datetime has none.
        return json.dumps(result or "Done.", default=lambda value: getattr(value, "__dict__", str(value)))

    return tool


def explain(error: PetstoreError) -> str:
    if not isinstance(error, ApiError):
        return f"{error} Whether it was carried out is unknown."
    parts = [str(error), *(f"{detail.field}: {detail.message}" for detail in error.details)]
    if error.retry_at is not None:
        instant = f"{error.retry_at:%d %B %Y, %H:%M:%S} UTC"
        parts.append(f"Try again after {instant}, in {error.retry_after:.0f} seconds, and not before.")
    return " ".join([*parts, f"Request ID: {error.request_id}."])


def main() -> None:
    parser = argparse.ArgumentParser(prog="petstore-mcp", description="MCP server of the Pet Store API.")
    parser.add_argument("base_url", help="the address of the API, which ends in /v1")
    parser.add_argument("--write", action="store_true", help="offer the tools that change something")
    options = parser.parse_args()
    key = os.environ.get("PETSTORE_KEY") or parser.error("Set the environment variable PETSTORE_KEY.")
    client = Client(key, base_url=options.base_url, max_wait=MAX_WAIT)
    server = MCPServer("petstore", instructions=INSTRUCTIONS)
    tools: dict[str, Callable[..., Any]] = {
        "listPets": client.pets.list, "getPet": client.pets.get,
        "createPet": client.pets.create, "createPets": client.pets.create_many,
        "listOrders": client.orders.list, "getOrder": client.orders.get,
        "placeOrder": client.orders.place, "cancelOrder": client.orders.cancel,
        "listCategories": client.categories.list, "listEvents": client.events.list,
        "getAccount": client.account,
    }  # fmt: skip
    for name, method in tools.items():
        reads = name.startswith(("list", "get"))
        if reads or options.write:
            annotations = ToolAnnotations(read_only_hint=reads, open_world_hint=False)
            server.add_tool(wrap(method), name, annotations=annotations, structured_output=False)
    server.run()


if __name__ == "__main__":
    main()
