"""Spans for OpenTelemetry. Nothing is loaded unless OTEL_EXPORTER_OTLP_ENDPOINT is set.

OpenTelemetry's instrumentation for Django does not fit: it calls `get_host`, which raises for hosts outside
ALLOWED_HOSTS (any host is served under /v1), knows no route there, and records query strings. These spans
have the same content as the log, named by the semantic conventions for HTTP.
"""

from collections.abc import Callable
from multiprocessing.util import Finalize

from django.conf import settings
from django.http import HttpRequest

from petstore.observability import logs
from petstore.observability.instrumentation import ResponseT, metrics_of
from petstore.observability.redaction import redact

# Characters. OpenTelemetry parses longer ones in quadratic time, and logs malformed ones.
MAX_HEADER_LENGTHS = {"traceparent": 64, "tracestate": 512}


def start_tracing() -> None:
    """Export spans from now on, as OpenTelemetry's own variables say, and flush them at exit."""
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "petstore"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    Finalize(None, provider.shutdown, exitpriority=1)  # Workers don't run atexit handlers.


def traced(get_response: Callable[[HttpRequest], ResponseT]) -> Callable[[HttpRequest], ResponseT]:
    """Wrap a handler so that each request has a span in the client's trace (W3C Trace Context)."""
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return get_response
    from opentelemetry import trace
    from opentelemetry.propagate import extract

    tracer = trace.get_tracer("petstore")

    def respond_in_span(request: HttpRequest) -> ResponseT:
        sent = {name: request.META.get(f"HTTP_{name.upper()}", "") for name in MAX_HEADER_LENGTHS}
        sent = {name: value for name, value in sent.items() if len(value) <= MAX_HEADER_LENGTHS[name]}
        with tracer.start_as_current_span("request", extract(sent), kind=trace.SpanKind.SERVER) as span:
            response = get_response(request)
            metrics = metrics_of(request, response.status_code)
            span.update_name(f"{metrics.method} {metrics.route}")
            span.set_attributes(
                {
                    "http.request.method": metrics.method,
                    "http.route": metrics.route,
                    "http.response.status_code": response.status_code,
                    "petstore.request_id": redact(logs.request_id.get("")),
                }
            )
            if response.status_code >= 500:
                span.set_status(trace.StatusCode.ERROR)
        return response

    return respond_in_span
