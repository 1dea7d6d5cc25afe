"""Names what the process is at work on: in the lines of its logs, and as spans of traces.

A *field* says what is worked on: table, bucket, session, query, epoch. Code that begins such work
names its fields (``within``); where that is a piece of work whose time is of interest, it is a
*span* (``span``), which has the fields around it as attributes. Threads that work for it take both
along (``carried``), and so do other processes, by the *envelope* of a call (``envelope``,
``resumed``).

As long as nobody asked for lines of JSON (`pkray.logs`) or for spans (`pkray.tracing`), nothing is
kept: entering costs a comparison.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")

FIELDS = ("table", "bucket", "session", "query", "epoch")


class Recorder(Protocol):
    """Records spans."""

    def span(self, name: str, attributes: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Record the block as a span below the one that this thread is in."""

    def traceparent(self) -> str | None:
        """Write which span this thread is in, as W3C's header says it; None where in none."""

    def below(self, traceparent: str) -> AbstractContextManager[None]:
        """Have spans of the block be below one of another process."""

    def ids(self) -> Mapping[str, str]:
        """Name the trace and the span that this thread is in; empty where in none."""


class _Envelope(msgspec.Struct, omit_defaults=True):
    """Says to another process what is worked on."""

    traceparent: str | None = None
    fields: dict[str, Any] = {}


_fields: ContextVar[Mapping[str, Any] | None] = ContextVar("pkray_fields", default=None)
_NOTHING: AbstractContextManager[None] = nullcontext()
_are_logged = False
_recorder: Recorder | None = None
_is_on = False


def keep_for_logs(wanted: bool) -> None:
    """Keep fields for lines of logs from now on, or no longer."""
    global _are_logged
    _are_logged = wanted
    _switch()


def record(recorder: Recorder | None) -> None:
    """Record spans from now on; None: no longer."""
    global _recorder
    _recorder = recorder
    _switch()


def _switch() -> None:
    global _is_on
    _is_on = _are_logged or _recorder is not None


def within(**fields: Any) -> AbstractContextManager[None]:
    """Name fields of what is done meanwhile in this thread; one that is None says nothing."""
    return _within(fields) if _is_on else _NOTHING


def span(name: str, /, **fields: Any) -> AbstractContextManager[None]:
    """Name fields of what is done meanwhile in this thread, and record it as a span.

    Args:
        name: of the kind of work: a word of a short list, which the guide to monitoring has.
    """
    return _span(name, fields) if _is_on else _NOTHING


def each(name: str, items: Iterator[T]) -> Iterator[T]:
    """Yield items; the time that each takes to be made is a span."""
    return _each(name, items) if _is_on else items


def over(
    name: str, items: Iterator[T], envelope: str | None = None, /, **fields: Any
) -> Iterator[T]:
    """Yield items; one span lasts from the first to the last of them.

    What makes them is below it, and what is done with them between is not.

    Args:
        envelope: of the process that has asked for them; None: this one has.
    """
    return _over(name, items, envelope, fields) if _is_on else items


def carried(call: Callable[..., T]) -> Callable[..., T]:
    """Make a call that has the fields and the span of now in whatever threads it runs."""
    if not _is_on:
        return call
    context = copy_context()
    return lambda *given, **named: context.copy().run(call, *given, **named)


def envelope() -> str | None:
    """Write what this thread is at work on, as JSON; None where nobody asked, or it is nothing."""
    if not _is_on:
        return None
    parent = None if _recorder is None else _recorder.traceparent()
    fields = _fields.get() or {}
    if parent is None and not fields:
        return None
    return msgspec.json.encode(_Envelope(parent, dict(fields)), enc_hook=str).decode()


def resumed(envelope: str | None) -> AbstractContextManager[None]:
    """Be at work on what another process has written; one that cannot be read says nothing."""
    if envelope is None or not _is_on:
        return _NOTHING
    try:
        return _resumed(msgspec.json.decode(envelope, type=_Envelope))
    except msgspec.MsgspecError:
        return _NOTHING


def here() -> dict[str, Any]:
    """Give the fields of now, and where spans are recorded the ids of the trace and the span."""
    ids = {} if _recorder is None else _recorder.ids()
    return {**(_fields.get() or {}), **ids}


@contextmanager
def _within(fields: Mapping[str, Any]) -> Iterator[None]:
    known = {name: value for name, value in fields.items() if value is not None}
    token = _fields.set({**(_fields.get() or {}), **known})
    try:
        yield
    finally:
        _fields.reset(token)


@contextmanager
def _span(name: str, fields: Mapping[str, Any]) -> Iterator[None]:
    with _within(fields):
        if _recorder is None:
            yield
            return
        known = _fields.get() or {}
        attributes = {f"pkray.{name}": _attribute(value) for name, value in known.items()}
        with _recorder.span(f"pkray.{name}", attributes):
            yield


def _each(name: str, items: Iterator[T]) -> Iterator[T]:
    while True:
        with span(name):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def _over(
    name: str, items: Iterator[T], envelope: str | None, fields: Mapping[str, Any]
) -> Iterator[T]:
    """Make the items in a context of their own: readers come from any thread and any span."""
    context, work, end = copy_context(), ExitStack(), object()
    context.run(work.enter_context, resumed(envelope))
    context.run(work.enter_context, _span(name, fields))
    raised: Any = (None, None, None)
    try:
        while (item := context.run(next, items, end)) is not end:
            yield item  # type: ignore[misc]
    except Exception:  # one who stops reading is no error
        raised = sys.exc_info()
        raise
    finally:
        context.run(work.__exit__, *raised)


@contextmanager
def _resumed(sent: _Envelope) -> Iterator[None]:
    with _within({name: sent.fields[name] for name in FIELDS if name in sent.fields}):
        if _recorder is None or sent.traceparent is None:
            yield
            return
        with _recorder.below(sent.traceparent):
            yield


def plain(value: Any) -> Any:
    """Make what JSON can have of a value of a field."""
    return msgspec.to_builtins(value, enc_hook=str)


def _attribute(value: Any) -> str | int:
    """Write a value as a span can have it: a session is ``user/generation/epoch``."""
    made = plain(value)
    if isinstance(made, dict):
        return "/".join(str(each) for each in made.values())
    return made if isinstance(made, int) else str(made)
