"""Schemathesis sends generated reads, and compares the responses with the OpenAPI document."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.generation import GenerationMode

from tests.conformance.client import Client
from tests.conformance.document import CHECKS, OPERATIONS

EXAMPLES = 3  # Of each operation and mode.


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("label", [label for label in OPERATIONS if label.startswith("GET ")])
def test_response_to_generated_read_is_as_documented(
    client: Client, label: str, mode: GenerationMode
) -> None:
    @given(case=OPERATIONS[label].as_strategy(mode))
    @settings(
        max_examples=EXAMPLES, phases=[Phase.generate], derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def send(case: Case[Any]) -> None:
        case.call_and_validate(client.url, client, client.credentials, CHECKS)

    send()
