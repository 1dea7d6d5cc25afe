"""Writes what pkray logs as lines of JSON, with what the process was at work on (`pkray.spans`).

`json_lines` turns them on in this process. Where the environment has ``PKRAY_LOG_FORMAT=json``,
each process does so when it imports pkray: the command line, a server, workers on Ray.
"""

import json
import logging
import time
from typing import Any, TextIO

from pkray import spans

VARIABLE = "PKRAY_LOG_FORMAT"
FIELDS = (*spans.FIELDS, "trace_id", "span_id")
"""Members that a line has besides, where they are known."""

_log = logging.getLogger(__name__)
_handler: logging.Handler | None = None


class JsonLines(logging.Formatter):
    """Write a record as one line of JSON: time in UTC, level, logger, message, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; fields that it was logged with count before those of the context."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        known = {**spans.here(), **vars(record)}
        line.update({name: known[name] for name in FIELDS if name in known})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=spans.plain)


def json_lines(stream: TextIO | None = None) -> None:
    """Write what pkray logs in this process as lines of JSON, and nowhere else.

    Args:
        stream: where to; by default the standard error. A later call replaces it.
    """
    global _handler
    stop()
    _handler = logging.StreamHandler(stream)
    _handler.setFormatter(JsonLines())
    logger = logging.getLogger("pkray")
    logger.addHandler(_handler)
    logger.propagate = False
    spans.keep_for_logs(True)


def stop() -> None:
    """Log as Python's `logging` is set up again."""
    global _handler
    if _handler is not None:
        logger = logging.getLogger("pkray")
        logger.removeHandler(_handler)
        logger.propagate = True
        spans.keep_for_logs(False)
        _handler = None


def set_up(form: str) -> None:
    """Log in the form that the environment names: ``json``, or ``text`` as without it."""
    if form == "json":
        json_lines()
    elif form not in ("", "text"):
        _log.warning("%s is ignored, as it is %r: set it to json or text", VARIABLE, form)
