"""The nodes of a logical plan: what is done to rows.

Each gives `fields`, with distinct names, and has `inputs`. Nodes are frozen and compare by content.
Only `Filter`, `Project`, `Values` and the `condition` of joins hold expressions; all else names
columns of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from pkray.relational.plan.expressions import (
    TRUE,
    AggregateCall,
    ColumnRef,
    Expression,
    Literal,
    SortKey,
    WindowCall,
)
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.source import Source
from pkray.schema.types import DataType

IF_SET = "if_set"
"""Marks an attribute that plans say only where it is set, as it came after plans were written."""
BIGINT = DataType("BIGINT", nullable=False)
BOOLEAN = DataType("BOOLEAN")


@dataclass(frozen=True)
class Node:
    """One step of a plan."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """List the nodes whose rows this one takes."""
        return ()

    @cached_property
    def fields(self) -> Fields:
        """Give the columns of the rows that come out."""
        raise NotImplementedError

    def with_inputs(self, *inputs: Node) -> Node:
        """Take other inputs, in the order of `inputs`."""
        return self

    def walk(self) -> Iterator[Node]:
        """List this node and all below it, from the top down."""
        yield self
        for node in self.inputs:
            yield from node.walk()

    def transform(self, change: Callable[[Node], Node]) -> Node:
        """Apply `change` to each node, from the bottom up."""
        changed = tuple(node.transform(change) for node in self.inputs)
        same = all(new is old for new, old in zip(changed, self.inputs, strict=True))
        return change(self if same else self.with_inputs(*changed))


@dataclass(frozen=True)
class _OneInput(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, *inputs: Node) -> Node:
        return replace(self, input=inputs[0])

    @cached_property
    def fields(self) -> Fields:
        return self.input.fields


@dataclass(frozen=True)
class _TwoInputs(Node):
    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, *inputs: Node) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])


@dataclass(frozen=True)
class Scan(Node):
    """Reads a source.

    Attributes:
        columns: which, in order; None for all.
        condition: rows for which it is not true need not come (the source may prune by it; the
            optimizer keeps a Filter above of what ``source.remaining`` gives). Over the source's
            columns, not only those that are read.
        options: of hints: ``scan.snapshot-id`` and the like; sorted pairs.
    """

    source: Source
    columns: tuple[str, ...] | None = None
    condition: Expression = TRUE
    options: tuple[tuple[str, str], ...] = ()

    @cached_property
    def fields(self) -> Fields:
        fields = self.source.fields
        return fields if self.columns is None else fields.only(self.columns)


@dataclass(frozen=True)
class Values(Node):
    """Gives rows that are written in the query."""

    columns: Fields
    rows: tuple[tuple[Literal, ...], ...]

    @cached_property
    def fields(self) -> Fields:
        return self.columns


@dataclass(frozen=True)
class Filter(_OneInput):
    """Keeps rows for which a condition is true."""

    condition: Expression


@dataclass(frozen=True)
class Project(_OneInput):
    """Computes columns.

    Attributes:
        columns: (name, expression) pairs; names are distinct.
    """

    columns: tuple[tuple[str, Expression], ...]

    @cached_property
    def fields(self) -> Fields:
        return Fields(tuple(self._field(name, value) for name, value in self.columns))

    def _field(self, name: str, value: Expression) -> Field:
        rowtime = isinstance(value, ColumnRef) and self.input.fields[value.name].is_rowtime
        return Field(name, value.type, rowtime)


@dataclass(frozen=True)
class Calc(Project):
    """Computes columns of the rows for which a condition is true: a Filter and a Project in one."""

    condition: Expression = TRUE


@dataclass(frozen=True)
class Expand(_OneInput):
    """Repeats each row once a grouping set, with NULL in the `keys` that the set leaves out.

    Gives the input's columns (those in `keys` nullable) and `id_name`, the BIGINT that
    GROUPING_ID gives: bit i from the right is set where the i-th key from the right is left out;
    `number_name` if there are equal sets: which of them, as INT.

    Attributes:
        sets: a set a repetition, as positions in `keys`.
    """

    keys: tuple[str, ...]
    sets: tuple[tuple[int, ...], ...]
    id_name: str
    number_name: str | None = None

    @cached_property
    def fields(self) -> Fields:
        columns = [
            replace(column, type=column.type.with_nullable(True))
            if column.name in self.keys
            else column
            for column in self.input.fields
        ]
        columns.append(Field(self.id_name, BIGINT))
        if self.number_name:
            columns.append(Field(self.number_name, DataType("INT", nullable=False)))
        return Fields(tuple(columns))


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
class Aggregate(_OneInput):
    """Gives a row a group: its keys, then its aggregates. Without keys, always one row.

    NULL is a group. Keys of floating type are compared by bits, NaNs being equal: where 0.0 and
    -0.0 are one group the binder has normalized them.

    Attributes:
        slices: of physical plans: the windows that are aggregated where the input's are slices.
    """

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    slices: Slices | None = field(default=None, metadata={IF_SET: True})

    @cached_property
    def fields(self) -> Fields:
        keys = self.input.fields.only(self.keys)
        return keys + Fields(tuple(Field(name, call.type) for name, call in self.aggregates))


@dataclass(frozen=True)
class Distinct(_OneInput):
    """Keeps one of equal rows; NULLs are equal."""


class JoinKind(StrEnum):
    """What a join gives.

    ``SINGLE`` is LEFT that fails if a row has more than one match (a scalar subquery). ``MARK``
    gives the left rows and a BOOLEAN: whether there is a match (with ``null_aware``: NULL where
    there is none but a comparison with a NULL, as IN has it). ``ANTI`` with ``null_aware`` is NOT
    IN.
    """

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"
    SINGLE = "single"
    MARK = "mark"

    @property
    def keeps_right(self) -> bool:
        """Whether the right side's columns come out."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK)


@dataclass(frozen=True)
class Join(_TwoInputs):
    """Pairs rows. Without keys and with a true condition it is a cross join.

    Attributes:
        left_keys, right_keys: columns of each side that are equal, of one type; NULL keys never
            match unless `null_safe`.
        condition: what holds besides, over the left columns and the right ones under
            `right_names`.
        right_names: what each right column is called in the result, distinct from the left ones
            (also in kinds that give no right columns).
        null_safe: for each key, whether NULL equals NULL (IS NOT DISTINCT FROM).
        null_aware: of ANTI and MARK: the first key is compared as IN does.
        mark_name: of MARK: the BOOLEAN's name.
    """

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    right_names: tuple[str, ...]
    condition: Expression = TRUE
    null_safe: tuple[bool, ...] = ()
    null_aware: bool = False
    mark_name: str | None = None

    @cached_property
    def fields(self) -> Fields:
        left, right = self.left.fields, self.right_fields
        if self.kind in (JoinKind.RIGHT, JoinKind.FULL):
            left = _all_nullable(left)
        if self.kind in (JoinKind.LEFT, JoinKind.FULL, JoinKind.SINGLE):
            right = _all_nullable(right)
        if self.kind is JoinKind.MARK:
            assert self.mark_name
            mark = BOOLEAN.with_nullable(self.null_aware)
            return left + Fields((Field(self.mark_name, mark),))
        return left + right if self.kind.keeps_right else left

    @cached_property
    def right_fields(self) -> Fields:
        """Give the right side's columns under the names they have in the result."""
        return _renamed(self.right.fields, self.right_names)


@dataclass(frozen=True)
class IntervalJoin(_TwoInputs):
    """Pairs rows of equal keys whose times are near: lower <= left time - right time <= upper.

    Attributes:
        kind: inner, left, right, full, semi or anti.
        lower, upper: microseconds.
    """

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    right_names: tuple[str, ...]
    left_time: str
    right_time: str
    lower: int
    upper: int
    condition: Expression = TRUE

    @cached_property
    def fields(self) -> Fields:
        return self._plain.fields

    @cached_property
    def right_fields(self) -> Fields:
        """Give the right side's columns under the names they have in the result."""
        return self._plain.right_fields

    @property
    def _plain(self) -> Join:
        return Join(
            self.left, self.right, self.kind, self.left_keys, self.right_keys, self.right_names
        )


@dataclass(frozen=True)
class TemporalJoin(_TwoInputs):
    """Pairs each left row with the version of the right row of its key at the left row's time.

    Attributes:
        kind: inner or left.
        left_time: None: that at which the left row is handled.
        right_time: the column by which the right side's rows are versions; None: a lookup join,
            with the right side as it is when the left row is handled.
    """

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    right_names: tuple[str, ...]
    left_time: str | None
    right_time: str | None
    condition: Expression = TRUE

    @cached_property
    def fields(self) -> Fields:
        right = Fields(tuple(replace(column, is_rowtime=False) for column in self.right_fields))
        return self.left.fields + (_all_nullable(right) if self.kind is JoinKind.LEFT else right)

    @cached_property
    def right_fields(self) -> Fields:
        """Give the right side's columns under the names they have in the result."""
        return _renamed(self.right.fields, self.right_names)


@dataclass(frozen=True)
class Window(_OneInput):
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
    early: int | None = field(default=None, metadata={IF_SET: True})
    lateness: int = field(default=0, metadata={IF_SET: True})
    late_delay: int = field(default=0, metadata={IF_SET: True})

    @property
    def is_updated(self) -> bool:
        """Whether results change, instead of being given once when the watermark passes."""
        return self.early is not None or self.lateness > 0

    @cached_property
    def fields(self) -> Fields:
        time = self.input.fields[self.time].type.with_nullable(False)
        millis = DataType(time.root, False, precision=max(time.precision or 0, 3))
        start, end, last = self.names
        return self.input.fields + Fields(
            (Field(start, time), Field(end, time), Field(last, millis, True))
        )


@dataclass(frozen=True)
class Over(_OneInput):
    """Adds a column a window function, all over the same partitions and order.

    Attributes:
        waits: whether rows come when the watermark passes their time, by which they are ordered,
            and do not change; else they come at once, and later rows may change them.
    """

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    calls: tuple[tuple[str, WindowCall], ...]
    waits: bool = field(default=False, metadata={IF_SET: True})

    @cached_property
    def fields(self) -> Fields:
        return self.input.fields + Fields(
            tuple(Field(name, call.type) for name, call in self.calls)
        )


@dataclass(frozen=True)
class TopN(_OneInput):
    """Keeps the rows of each partition whose number in the order is from `start` to `end`.

    Attributes:
        rank_name: the column the number goes to (BIGINT NOT NULL, from 1); None: not kept.
    """

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    start: int
    end: int
    rank_name: str | None = None

    @cached_property
    def fields(self) -> Fields:
        rank = (Field(self.rank_name, BIGINT),) if self.rank_name else ()
        return self.input.fields + Fields(rank)


@dataclass(frozen=True)
class Deduplicate(_OneInput):
    """Keeps the first or the last row of each key: ROW_NUMBER() = 1 by one time column.

    Attributes:
        order_by: the column; None: by arrival.
        rank_name: as of TopN; the number is always 1.
    """

    keys: tuple[str, ...]
    order_by: str | None
    keep_first: bool
    rank_name: str | None = None

    @cached_property
    def fields(self) -> Fields:
        rank = (Field(self.rank_name, BIGINT),) if self.rank_name else ()
        return self.input.fields + Fields(rank)


class SetKind(StrEnum):
    """Which rows of two inputs are taken."""

    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"


@dataclass(frozen=True)
class SetOperation(_TwoInputs):
    """Unites, intersects or subtracts rows; both sides have the same types, the left's names.

    Attributes:
        all: whether equal rows count as often as they occur.
    """

    kind: SetKind
    all: bool

    @cached_property
    def fields(self) -> Fields:
        return Fields(
            tuple(
                replace(
                    left,
                    type=left.type.with_nullable(left.type.nullable or right.type.nullable),
                    is_rowtime=left.is_rowtime and right.is_rowtime,
                )
                for left, right in zip(self.left.fields, self.right.fields, strict=True)
            )
        )


@dataclass(frozen=True)
class Sort(_OneInput):
    """Orders rows. Equal rows keep their order."""

    order_by: tuple[SortKey, ...]


@dataclass(frozen=True)
class Limit(_OneInput):
    """Keeps the rows from number `offset` on, at most `count` (None: all)."""

    count: int | None
    offset: int = 0


@dataclass(frozen=True)
class Unnest(_OneInput):
    """Gives a row for each row that a table function makes of a row.

    Attributes:
        function: ``explode`` (an ARRAY's elements; a MAP's keys and values), ``posexplode``,
            ``inline`` (an ARRAY of ROWs), ``sequence_rows``, or ``udtf``.
        arguments: columns of the input.
        names: of the columns that it adds.
        types: of the columns that it adds.
        outer: whether rows that it makes nothing of come out once with NULLs.
        udf: for ``udtf``, a `pkray.relational.functions.user_functions.UserFunction`.
        keeps: the input's columns that come out; None: all. Without the array itself a row of n
            elements costs n, with it n times n.
    """

    function: str
    arguments: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    outer: bool = False
    udf: Any = None
    keeps: tuple[str, ...] | None = field(default=None, metadata={IF_SET: True})

    @cached_property
    def fields(self) -> Fields:
        added = zip(self.names, self.types, strict=True)
        below = self.input.fields
        return (below if self.keeps is None else below.only(self.keeps)) + Fields(
            tuple(
                Field(name, kind.with_nullable(kind.nullable or self.outer)) for name, kind in added
            )
        )


@dataclass(frozen=True)
class Hint(_OneInput):
    """Says something about its input that changes no row: STATE_TTL and the like.

    Attributes:
        options: sorted pairs.
    """

    name: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class WatermarkAssign(_OneInput):
    """Declares that watermarks follow a column.

    Attributes:
        delay: an expression of the input's columns that gives the watermark.
    """

    time: str
    delay: Expression

    @cached_property
    def fields(self) -> Fields:
        return Fields(
            tuple(
                replace(column, is_rowtime=column.name == self.time) for column in self.input.fields
            )
        )


@dataclass(frozen=True)
class Normalize(_OneInput):
    """Completes a changelog by key: repeats vanish, updates and deletes get their old rows."""

    keys: tuple[str, ...]


ROW_KEY = "_row_key"
"""The column that is the key of results whose rows have none."""


@dataclass(frozen=True)
class RowKey(_OneInput):
    """Adds a first column, BYTES, that tells rows apart: the key of a table of the result.

    Attributes:
        keys: a unique key, whose columns may be NULL; without it the row as a whole counts, with a
            number for each of equal rows.
        name: of the column.
    """

    keys: tuple[str, ...]
    name: str = ROW_KEY

    @cached_property
    def fields(self) -> Fields:
        return Fields((Field(self.name, DataType("BYTES", nullable=False)), *self.input.fields))


@dataclass(frozen=True)
class Unique(_OneInput):
    """Fails where two rows agree in the keys at the end of an epoch."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Exchange(_OneInput):
    """Brings rows of equal keys together; without keys, all rows to one place."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Sink(_OneInput):
    """Writes to a table.

    Attributes:
        table: its full name.
        target: columns of the table, in the order of the input's.
        on_conflict: ``error``, ``nothing`` or ``deduplicate``; None: not said.
    """

    table: str
    target: tuple[str, ...]
    on_conflict: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


def _all_nullable(fields: Fields) -> Fields:
    return Fields(tuple(replace(column, type=column.type.with_nullable(True)) for column in fields))


def _renamed(fields: Fields, names: tuple[str, ...]) -> Fields:
    pairs = zip(fields, names, strict=True)
    return Fields(tuple(replace(column, name=name) for column, name in pairs))
