"""OpenTelemetry spans. Its packages are imported only if OTEL_EXPORTER_OTLP_ENDPOINT is set.

OpenTelemetry's own instrumentation of Django is unsuitable: it calls `get_host`, which raises an error for
hosts outside ALLOWED_HOSTS, although /v1 serves any host; it does not know the routes under /v1; and it
records query strings. These spans record the method, route and status, named by the semantic conventions
for HTTP, and the request ID.
"""

from collections.abc import Callable
from multiprocessing.util import Finalize

from django.conf import settings
from django.http import HttpRequest

from petstore.observability import logs
from petstore.observability.instrumentation import ResponseT, get_request_metrics
from petstore.observability.redaction import redact

# In characters. OpenTelemetry takes quadratic time to parse a header, and logs a malformed one.
MAX_HEADER_LENGTHS = {"traceparent": 64, "tracestate": 512}


def start_tracing() -> None:
    """Export spans as configured by the OTEL_* variables, and flush them at exit."""
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


def trace_requests(get_response: Callable[[HttpRequest], ResponseT]) -> Callable[[HttpRequest], ResponseT]:
    """Wrap a handler to give each request a span in the client's trace (W3C Trace Context)."""
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return get_response
    from opentelemetry import trace
    from opentelemetry.propagate import extract

    tracer = trace.get_tracer("petstore")

    def respond_in_span(request: HttpRequest) -> ResponseT:
        carrier = {}
        for name, max_length in MAX_HEADER_LENGTHS.items():
            value = request.META.get(f"HTTP_{name.upper()}", "")
            if len(value) <= max_length:
                carrier[name] = value
        with tracer.start_as_current_span("request", extract(carrier), kind=trace.SpanKind.SERVER) as span:
            response = get_response(request)
            metrics = get_request_metrics(request, response.status_code)
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
