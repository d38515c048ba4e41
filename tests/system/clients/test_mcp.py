"""The MCP server of the Python package, as an agent uses it: JSON-RPC on standard input and output."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.live import ROOT, Service
from tests.support.skips import needs_program

pytestmark = needs_program(importlib.util.find_spec("mcp"), "mcp")
OPERATIONS = {
    operation["operationId"]: method
    for methods in yaml.safe_load((ROOT / "tests/openapi.yaml").read_text())["paths"].values()
    for method, operation in methods.items()
}


class Agent:
    """An MCP client."""

    def __init__(self, service: Service, key: str, *options: str) -> None:
        command = [sys.executable, "-m", "petstore_client.mcp", f"{service.url}/v1", *options]
        own = {
            "PETSTORE_KEY": key,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "clients/python/src"), *sys.path]),
        }
        self.process = subprocess.Popen(
            command, env=os.environ | own, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.count = 0

    def initialize(self) -> None:
        about = {"name": "tests", "version": "1"}
        self.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> Any:
        assert self.process.stdout is not None
        self.count += 1
        self.send({"id": self.count, "method": method, "params": params})
        while (message := json.loads(self.process.stdout.readline())).get("id") != self.count:
            pass
        return message["result"]

    def call(self, name: str, /, **arguments: Any) -> tuple[str, bool]:
        result = self.request("tools/call", name=name, arguments=arguments)
        return result["content"][0]["text"], result.get("isError", False)


@pytest.fixture
def agent(service: Service, request: pytest.FixtureRequest) -> Iterator[Agent]:
    limits, *options = request.param
    numbers = ("--per-minute", limits, "--per-day", "1000")
    key = str(service.issue(request.node.name, "enterprise", *numbers)["key"])
    agent = Agent(service, key, *options)
    with agent.process:
        try:
            agent.initialize()
            yield agent
        finally:
            agent.process.terminate()


def get_tools(agent: Agent) -> dict[str, Any]:
    return {tool["name"]: tool for tool in agent.request("tools/list")["tools"]}


@pytest.mark.parametrize("agent", [["1"]], indirect=True)
def test_tools_only_read_by_default_and_say_when_a_limit_resets(agent: Agent) -> None:
    tools = get_tools(agent)
    assert set(tools) == {name for name, method in OPERATIONS.items() if method == "get"}
    assert all(tool["annotations"]["readOnlyHint"] and tool["description"] for tool in tools.values())
    text, failed = agent.call("listCategories", limit=1)
    assert (len(json.loads(text)["rows"]), failed) == (1, False)
    text, failed = agent.call("listPets", limit=1)
    assert failed
    for part in ("429 rate_limit_exceeded", "Try again after ", " UTC, in "):
        assert part in text
    assert not agent.call("getAccount")[1]


@pytest.mark.parametrize("agent", [["1000", "--write"]], indirect=True)
def test_every_operation_is_a_tool_with_write(agent: Agent) -> None:
    tools = get_tools(agent)
    assert set(tools) == set(OPERATIONS)
    assert not tools["createPet"]["annotations"]["readOnlyHint"]
    pet = json.loads(agent.call("createPet", name="Biscuit", category_id=1)[0])
    [second] = json.loads(agent.call("createPets", pets=[{"name": "Rex", "category_id": 1}])[0])["rows"]
    assert second["name"] == "Rex"
    order = json.loads(agent.call("placeOrder", pet_id=pet["id"])[0])
    assert agent.call("cancelOrder", order_id=order["id"]) == ('"Done."', False)
    text, failed = agent.call("placeOrder", pet_id=0)
    assert ("pet_not_found" in text, failed) == (True, True)
