"""Records spans with OpenTelemetry."""

import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pkray.version import __version__

_HEADER = "traceparent"
_W3C = TraceContextTextMapPropagator()
_PROCESS = "process.pid"


def exporting() -> TracerProvider:
    """Make a provider that sends spans by OTLP over HTTP, as OpenTelemetry's variables say."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    resource = Resource.create({_PROCESS: os.getpid()})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "pkray"}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class OpenTelemetryRecorder:
    """Records spans by a provider: see `Recorder`."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._tracer = provider.get_tracer("pkray", __version__)

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Any]) -> Iterator[None]:
        """Record the block; an error that leaves it by its class and where it comes from."""
        made = self._tracer.start_span(name, attributes=dict(attributes))
        token = context.attach(trace.set_span_in_context(made))
        try:
            yield
        except BaseException as error:
            _note(made, error)
            raise
        finally:
            context.detach(token)
            made.end()

    def traceparent(self) -> str | None:
        """Write which span this thread is in."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier.get(_HEADER)

    @contextmanager
    def below(self, traceparent: str) -> Iterator[None]:
        """Have spans of the block be below one of another process."""
        token = context.attach(_W3C.extract({_HEADER: traceparent}))
        try:
            yield
        finally:
            context.detach(token)

    def ids(self) -> Mapping[str, str]:
        """Name the trace and the span, as OpenTelemetry has them in logs."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return {}
        return {
            "trace_id": trace.format_trace_id(found.trace_id),
            "span_id": trace.format_span_id(found.span_id),
        }


def _note(span: trace.Span, error: BaseException) -> None:
    """Note an error without its message, which may have values of rows."""
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    frames = traceback.extract_tb(error.__traceback__)
    stack = "".join(f"{each.filename}:{each.lineno} {each.name}\n" for each in frames)
    span.add_event("exception", {"exception.type": name, "exception.stacktrace": stack})
    span.set_status(StatusCode.ERROR, kind.__name__)
