"""Spans for OpenTelemetry, where OTEL_EXPORTER_OTLP_ENDPOINT names a collector; else nothing is loaded.

OpenTelemetry's own instrumentation of Django asks for the Host of each request, which raises for one that
is not in ALLOWED_HOSTS: under /v1 any is served. It also knows no route there, and records query strings.
What a span says here, the log says too, under the names of OpenTelemetry's semantic conventions for HTTP.
"""

from collections.abc import Callable
from multiprocessing.util import Finalize

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponseBase

from petstore.observability.redaction import redact
from petstore.observability.requests import kind_of


def start_worker() -> None:
    """Send spans from now on, as OpenTelemetry's own variables say, and the last ones at the end."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "petstore"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    Finalize(None, provider.shutdown, exitpriority=1)  # A worker process ends without atexit.


class TracingMiddleware:
    """Gives each request a span, which continues the caller's trace (W3C Trace Context)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
            raise MiddlewareNotUsed
        from opentelemetry import trace
        from opentelemetry.propagate import extract

        self.get_response = get_response
        self.trace = trace
        self.extract = extract
        self.tracer = trace.get_tracer("petstore")

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, within a span."""
        meta = request.META
        sent = {name: meta.get(f"HTTP_{name.upper()}", "") for name in ("traceparent", "tracestate")}
        server = self.trace.SpanKind.SERVER
        with self.tracer.start_as_current_span("request", self.extract(sent), kind=server) as span:
            response = self.get_response(request)
            kind = kind_of(request, response.status_code)
            span.update_name(f"{kind.method} {kind.route}")
            span.set_attributes(
                {
                    "http.request.method": kind.method,
                    "http.route": kind.route,
                    "http.response.status_code": response.status_code,
                    "petstore.request_id": redact(meta["REQUEST_ID"]),
                }
            )
            if response.status_code >= 500:
                span.set_status(self.trace.StatusCode.ERROR)
        return response
