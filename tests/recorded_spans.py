"""The spans that a test's process has recorded, and how they stand below each other."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pkray import tracing


@contextmanager
def recorded() -> Iterator[InMemorySpanExporter]:
    """Record spans meanwhile."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.start(provider)
    try:
        yield exporter
    finally:
        tracing.stop()


def trees(exporter: InMemorySpanExporter, root: str) -> list[set[tuple[str, str]]]:
    """Pairs of names of spans, each with its parent's, of each trace that begins with a span of
    this name."""
    spans = exporter.get_finished_spans()
    names = {each.context.span_id: each.name for each in spans}
    found = []
    for top in spans:
        if top.name == root and top.parent is None:
            below = [s for s in spans if s.context.trace_id == top.context.trace_id and s.parent]
            found.append({(names[s.parent.span_id], s.name) for s in below})
    return found
