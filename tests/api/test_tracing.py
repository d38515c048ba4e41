"""Spans: one per request, in the client's trace, without secrets."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.api.test_logs import get_secret
from tests.conftest import Api

COLLECTOR = "http://127.0.0.1:4318"


TakeSpan = Callable[[], ReadableSpan]


@pytest.fixture
def take_span(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[TakeSpan]:
    """Returns the only span of clients that are created after this."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = COLLECTOR

    def take() -> ReadableSpan:
        (span,) = exporter.get_finished_spans()
        return span

    yield take
    provider.shutdown()


def test_request_has_a_span(take_span: TakeSpan, key: Any) -> None:
    Api(key.text).get("/pets/1?limit=3", X_Request_Id="mine", Host="elsewhere.example")
    span = take_span()
    assert (span.name, span.kind) == ("GET /v1/pets/{petId}", SpanKind.SERVER)
    assert span.attributes == {
        "http.request.method": "GET",
        "http.route": "/v1/pets/{petId}",
        "http.response.status_code": 404,
        "petstore.request_id": "mine",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is None


@pytest.mark.parametrize(("size", "is_read"), [(512, True), (513, False), (8_000, False)])
def test_span_continues_the_callers_trace_and_a_tracestate_of_up_to_512_characters(
    take_span: TakeSpan, key: Any, size: int, is_read: bool
) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    Api(key.text).get("/pets", traceparent=parent, tracestate="a=b".ljust(size - 1, ",") + ",")
    span = take_span()
    assert span.parent is not None
    assert f"{span.context.trace_id:x}" == "a" * 32
    assert f"{span.parent.span_id:x}" == "b" * 16
    assert bool(span.context.trace_state) is is_read


@pytest.mark.parametrize("traceparent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ü"])
def test_invalid_traceparent_starts_a_new_trace(take_span: TakeSpan, key: Any, traceparent: str) -> None:
    assert Api(key.text).get("/pets", traceparent=traceparent).status_code == 200
    assert take_span().parent is None


def test_failure_marks_the_span(take_span: TakeSpan, key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inventory.views.PetViewSet.list", None)
    Api(key.text).get("/pets")
    assert take_span().status.status_code is StatusCode.ERROR


def test_span_contains_no_key(take_span: TakeSpan, key: Any) -> None:
    Api(key.text).get(f"/pets/{key.text}?key={key.text}", X_Request_Id=key.text)
    assert get_secret(key.text) not in take_span().to_json()
