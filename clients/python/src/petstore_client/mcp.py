"""An MCP server on standard input and output, with a tool for each operation.

    PETSTORE_KEY=... petstore-mcp https://pets.example/v1 [--write]

Errors are results that say what to do and when, since MCP clients do not read Retry-After.
"""

import argparse
import dataclasses
import functools
import json
import os
from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from petstore_client.client import Client
from petstore_client.errors import ApiError, PetstoreError
from petstore_client.models import Page

MAX_WAIT = 5.0  # Seconds. An agent should do something else meanwhile.
INSTRUCTIONS = (
    "A pet store's inventory. If a result says when to try again, call no tool but getAccount before. "
    "Lists have up to 100 rows a page."
)


def get_tools(client: Client, *, write: bool) -> dict[str, Callable[..., Any]]:
    """Return the method of each operation, by its name in the OpenAPI document."""
    tools: dict[str, Callable[..., Any]] = {
        "listPets": client.pets.list,
        "getPet": client.pets.get,
        "listCategories": client.categories.list,
        "listOrders": client.orders.list,
        "getOrder": client.orders.get,
        "listEvents": client.events.list,
        "getAccount": client.account,
    }
    if write:
        tools |= {
            "createPet": client.pets.create,
            "createPets": client.pets.create_many,
            "placeOrder": client.orders.place,
            "cancelOrder": client.orders.cancel,
        }
    return tools


def wrap(method: Callable[..., Any]) -> Callable[..., CallToolResult]:
    @functools.wraps(method)
    def tool(**arguments: Any) -> CallToolResult:
        try:
            text, failed = render(method(**arguments)), False
        except PetstoreError as error:
            text, failed = explain(error), True
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=failed)

    return tool


def render(result: Any) -> str:
    if isinstance(result, list) and not isinstance(result, Page):
        result = Page(result, None)
    if isinstance(result, Page):
        result = {"rows": list(map(dataclasses.asdict, result)), "next_cursor": result.next_cursor}
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        result = dataclasses.asdict(result)
    return json.dumps("Done." if result is None else result, default=str)


def explain(error: PetstoreError) -> str:
    if not isinstance(error, ApiError):
        return f"{error} Whether it was carried out is unknown."
    parts = [str(error), *(f"{detail.field}: {detail.message}" for detail in error.details)]
    if error.retry_at is not None and error.retry_after is not None:
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
    for name, method in get_tools(client, write=options.write).items():
        annotations = ToolAnnotations(
            read_only_hint=name.startswith(("list", "get")), open_world_hint=False
        )
        server.add_tool(wrap(method), name, annotations=annotations, structured_output=False)
    server.run()


if __name__ == "__main__":
    main()
