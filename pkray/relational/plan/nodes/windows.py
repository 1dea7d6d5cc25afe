"""Nodes that give rows to windows of time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from pkray.relational.plan import describe
from pkray.relational.plan import node as n
from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes.changes import Exchange
from pkray.schema.types import DataType


class WindowKind(StrEnum):
    """Says how time is cut into windows."""

    TUMBLE = "tumble"
    HOP = "hop"
    CUMULATE = "cumulate"
    SESSION = "session"


@dataclass(frozen=True)
class Slices:
    """Windows that overlap, put together of slices: tumbling windows in which each row is once.

    Attributes:
        kind: of the windows: HOP or CUMULATE.
        size, step: of the windows, as of `Window`; the size of a slice divides both.
    """

    kind: WindowKind
    size: int
    step: int


@dataclass(frozen=True)
class Window(n.OneInput):
    """Gives each row once for each window that it is in, with the window's bounds.

    Adds ``window_start``, ``window_end`` (of the time's type, NOT NULL) and ``window_time`` (the
    end less a millisecond), under `names`. A NULL time fails.

    Attributes:
        time: the TIMESTAMP or TIMESTAMP_LTZ column.
        size: microseconds: of TUMBLE, HOP and CUMULATE (its largest) the length; of SESSION the
            gap (a row exactly a gap later is still in the session).
        step: of HOP the slide, of CUMULATE the step, in microseconds; 0 for others.
        offset: microseconds after 1970-01-01 00:00:00 at which a window begins.
        partition_by: of SESSION.
        early: microseconds of processing time after which aggregates give results before the
            watermark, and again where they change: 0 in each epoch; None: they do not.
        lateness: microseconds of event time after its end for which a window takes rows.
        late_delay: microseconds of processing time after which results change for such rows.
    """

    kind: WindowKind
    time: str
    size: int
    step: int = 0
    offset: int = 0
    partition_by: tuple[str, ...] = ()
    names: tuple[str, str, str] = ("window_start", "window_end", "window_time")
    early: int | None = field(default=None, metadata={n.IF_SET: True})
    lateness: int = field(default=0, metadata={n.IF_SET: True})
    late_delay: int = field(default=0, metadata={n.IF_SET: True})

    @property
    def is_updated(self) -> bool:
        """Whether results change, instead of being given once when the watermark passes."""
        return self.early is not None or self.lateness > 0

    @cached_value
    def fields(self) -> Fields:
        time = self.input.fields[self.time].type.with_nullable(False)
        millis = DataType(time.root, False, precision=max(time.precision or 0, 3))
        start, end, last = self.names
        return self.input.fields + Fields(
            (Field(start, time), Field(end, time), Field(last, millis, True))
        )

    def described(self) -> list[tuple[str, str]]:
        return [
            ("kind", str(self.kind)),
            ("time", self.time),
            *describe.spans(self),
            ("partitionBy", describe.names(self.partition_by)),
            *([] if self.early is None else [("early", describe.span_text(self.early))]),
            *([("lateness", describe.span_text(self.lateness))] if self.lateness else []),
            *([("lateDelay", describe.span_text(self.late_delay))] if self.late_delay else []),
        ]

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        start, end, _ = self.names
        added = {WindowKind.HOP: {start}, WindowKind.CUMULATE: {end}}.get(self.kind, set())
        return frozenset(key | added for key in keys_of(self.input))

    def kinds_from(self, inputs: tuple[n.Kinds, ...]) -> n.Kinds:
        return n.INSERT if self.kind is WindowKind.SESSION else inputs[0]

    def states(self) -> tuple[n.State, ...]:
        if self.kind is not WindowKind.SESSION:
            return ()
        rows = "rows of open sessions"
        return (n.State("sessionState", "ordered", self.partition_by, rows, "watermark"),)

    def window_bounds(self) -> n.WindowBounds:
        return n.WindowBounds(self, *(frozenset({name}) for name in self.names))

    def updates_windows(self) -> bool:
        return self.is_updated

    def judges_lateness(self) -> bool:
        return self.kind is WindowKind.SESSION

    def waits_for_time(self) -> bool:
        return True

    def passes_in_time(self, column: str) -> bool:
        if column == self.names[2]:
            return self.input.comes_in_time(self.time)
        return self.kind is not WindowKind.SESSION and self.input.comes_in_time(column)

    def exchanged(self) -> n.Node:
        if self.kind is not WindowKind.SESSION:
            return self
        return self.with_inputs(Exchange(self.input, self.partition_by))
