"""Records spans for OpenTelemetry: commits, pushes, reads, lookups, epochs, batches of Spark.

Where the environment has ``PKRAY_TRACING=otlp``, each process does so when it imports pkray: the
command line, a server, workers on Ray. OpenTelemetry's own variables say where spans go
(OTEL_EXPORTER_OTLP_ENDPOINT), how many are kept (OTEL_TRACES_SAMPLER) and under which name
(OTEL_SERVICE_NAME). They alone turn nothing on: a machine often has them for other programs,
whose owners did not ask for what a database does.

`start` records in this process, by the application's own provider where it has one. What is a span
is said in `pkray.spans`; ``recorder`` alone imports OpenTelemetry, and nothing imports it before
`start` is called.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pkray import spans
from pkray.errors import MissingExtraError
from pkray.extras import require_extra, wing

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_log = logging.getLogger(__name__)

VARIABLE = "PKRAY_TRACING"
_SDK, _EXPORTER = "opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"

_own: Any = None
"""The provider that `start` has made, if it was not given one."""


def start(provider: TracerProvider | None = None) -> None:
    """Record spans in this process from now on.

    Args:
        provider: makes and exports them, and is shut down by whoever made it. Default: one that
            sends them by OTLP over HTTP, as OpenTelemetry's variables say.

    Raises:
        MissingExtraError: packages of OpenTelemetry are not installed (extra ``tracing``).
    """
    global _own
    for package in (_SDK, _EXPORTER) if provider is None else (_SDK,):
        require_extra("tracing", package, "tracing")
    recorder = wing("tracing")
    stop()
    _own = recorder.exporting() if provider is None else None
    spans.record(recorder.OpenTelemetryRecorder(provider or _own))


def stop() -> None:
    """Record no more spans; what was recorded for OTLP is sent."""
    global _own
    spans.record(None)
    if _own is not None:
        _own.shutdown()
        _own = None


def set_up(form: str) -> None:
    """Record as the environment says: ``otlp``, or ``off`` as without it.

    A process works without spans where they cannot be recorded, and its log says why.
    """
    if form == "otlp":
        try:
            start()
        except MissingExtraError as error:
            _log.warning("%s=%s is ignored: %s", VARIABLE, form, error)
    elif form not in ("", "off"):
        _log.warning("%s is ignored, as it is %r: set it to otlp or off", VARIABLE, form)
