"""Writes what pkray logs as lines of JSON, with what the process was at work on.

A *field* says what a message is about: table, bucket, session, query, epoch. Code that begins such
work names its fields (``within``), and hands them on to threads that work for it (``carried``). As
long as nobody asked for lines of JSON, no field is kept.

`json_lines` turns them on in this process. Where the environment has ``PKRAY_LOG_FORMAT=json``,
each process does so when it imports pkray: the command line, a server, workers on Ray.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import Any, TextIO, TypeVar

import msgspec

T = TypeVar("T")

VARIABLE = "PKRAY_LOG_FORMAT"
FIELDS = ("table", "bucket", "session", "query", "epoch")

_log = logging.getLogger(__name__)
_fields: ContextVar[dict[str, Any] | None] = ContextVar("pkray_log_fields", default=None)
_NOTHING: AbstractContextManager[None] = nullcontext()
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
        known = {**(_fields.get() or {}), **vars(record)}
        line.update({name: known[name] for name in FIELDS if name in known})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=_plain)


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


def stop() -> None:
    """Log as Python's `logging` is set up again."""
    global _handler
    if _handler is not None:
        logger = logging.getLogger("pkray")
        logger.removeHandler(_handler)
        logger.propagate = True
        _handler = None


def set_up(form: str) -> None:
    """Log in the form that the environment names: ``json``, or ``text`` as without it."""
    if form == "json":
        json_lines()
    elif form not in ("", "text"):
        _log.warning("%s is ignored, as it is %r: set it to json or text", VARIABLE, form)


def within(**fields: Any) -> AbstractContextManager[None]:
    """Name fields of what is logged meanwhile in this thread."""
    return _NOTHING if _handler is None else _within(fields)


def carried(call: Callable[..., T]) -> Callable[..., T]:
    """Make a call that has the fields of now in whatever thread it runs."""
    if _handler is None:
        return call
    context = copy_context()
    return lambda *given, **named: context.run(call, *given, **named)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str)


@contextmanager
def _within(fields: dict[str, Any]) -> Iterator[None]:
    token = _fields.set({**(_fields.get() or {}), **fields})
    try:
        yield
    finally:
        _fields.reset(token)
