"""Plan what a result holds at the watermarks of a snapshot, to be run bounded.

An operator that judges lateness has seen the rows that did not come late, and has given what the
watermark has passed: windows that are over, rows whose moment has come. Both are written into the
plan: late rows are subtracted from its inputs, and what still waits is filtered out.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.continuous.log.late_rows import ADDED, late_name
from pkray.relational.continuous.operators.windows.event_time import tick
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, Literal, all_of
from pkray.relational.plan.json.writer import in_order, shared_nodes
from pkray.relational.plan.slicing import without_slices
from pkray.relational.sources.arrow import ArrowSource
from pkray.schema.types import DataType

_BOOLEAN = DataType("BOOLEAN", nullable=False)
_MICROS = 6
"""Digits of seconds of a time in microseconds."""
_GREATEST = 200_000_000_000_000_000
"""Microseconds beyond which no time lies that a row may have, and which datetimes still hold."""


@dataclass(frozen=True)
class EventTime:
    """Tells how far event time was in an epoch.

    Attributes:
        watermarks: of the operators that judge lateness, by number: microseconds.
        late: rows of their inputs that came late until then, as `late_until` gives them, by the
            state that keeps them.
        unknown: whether later rows may have come late, which are not written down yet.
    """

    watermarks: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, pa.Table] = field(default_factory=dict)
    unknown: bool = False

    def said(self) -> Iterator[str]:
        """Say what is left out of a comparison."""
        count = sum(pc.sum(rows.column(ADDED)).as_py() or 0 for rows in self.late.values())
        if count:
            yield f"{count} rows that came late were left out"
        if self.unknown:
            yield "rows that came late since the newest checkpoint are not known"


def waits_for_time(roots: Sequence[nodes.Node]) -> bool:
    """Whether an operator of physical plans judges lateness."""
    return any(node.judges_lateness() for root in roots for node in root.walk())


def as_of_watermarks(roots: Sequence[nodes.Node], time: EventTime) -> list[nodes.Node]:
    """Have physical plans give what they have given at some watermarks."""
    shared = shared_nodes(roots)
    made: dict[int, nodes.Node] = {}
    for number, node in enumerate(in_order(shared), 1):
        inputs = tuple(made[id(each)] for each in node.inputs)
        place = id(node)
        if isinstance(node, nodes.Aggregate) and node.slices:
            node = without_slices(replace(node, input=inputs[0]))  # late rows are told by windows
            inputs = node.inputs
        if node.judges_lateness():
            watermark = time.watermarks.get(str(number))
            kept = (
                _without(each, time.late.get(late_name(number, index)))
                for index, each in enumerate(inputs)
            )
            inputs = tuple(
                _passed_rows(node, index, each, watermark) for index, each in enumerate(kept)
            )
            made[place] = _passed_results(node.with_inputs(*inputs), watermark)
        else:
            made[place] = node.with_inputs(*inputs) if inputs else node
    return [made[id(root)] for root in shared]


def _without(node: nodes.Node, late: pa.Table | None) -> nodes.Node:
    """Take late rows out, each once; put back those that were taken back late."""
    if late is None or not late.num_rows:
        return node
    schema = node.fields.arrow
    added, removed = (
        nodes.Scan(ArrowSource("late rows", late.filter(chosen).drop_columns([ADDED]).cast(schema)))
        for chosen in (late.column(ADDED), pc.invert(late.column(ADDED)))
    )
    if not removed.source.row_count():
        return _less(node, added)
    return nodes.SetOperation(
        _less(node, _less(added, removed)), _less(removed, added), nodes.SetKind.UNION, True
    )


def _less(node: nodes.Node, rows: nodes.Node) -> nodes.Node:
    return nodes.SetOperation(node, rows, nodes.SetKind.EXCEPT, True)


def _passed_rows(
    node: nodes.Node, index: int, rows: nodes.Node, watermark: int | None
) -> nodes.Node:
    """Leave the rows of an input that no longer wait."""
    match node:
        case nodes.TemporalJoin(left_time=str() as column) if index == 0:
            return _until(rows, column, watermark)
        case nodes.Deduplicate(order_by=str() as column, keep_first=True) if not node.is_windowed():
            return _until(rows, column, watermark)
        case nodes.Over():
            return _until(rows, node.order_by[0].column, watermark)
    bounds = node.inputs[index].window_bounds() if node.is_windowed() else None
    if bounds is None or bounds.window.early is not None:
        return rows
    return _over(rows, min(bounds.end), watermark)


def _passed_results(node: nodes.Node, watermark: int | None) -> nodes.Node:
    """Leave the results that no longer wait; let versions be all that there were."""
    match node:
        case nodes.Window():
            return _until(node, node.names[1], watermark)
        case nodes.IntervalJoin() if node.kind not in (nodes.JoinKind.INNER, nodes.JoinKind.SEMI):
            return _met_or_passed(node, watermark)
        case nodes.TemporalJoin():
            return node.with_inputs(node.left, versions(node.right))
    return node


def _met_or_passed(node: nodes.IntervalJoin, watermark: int | None) -> nodes.Node:
    """Leave pairs, and rows of an outer join that can meet none any more."""
    if watermark is not None and watermark >= _GREATEST:
        return node
    right_time = node.right_names[node.right.fields.names.index(node.right_time)]
    padded = {
        node.left_time: (nodes.JoinKind.LEFT, nodes.JoinKind.FULL, nodes.JoinKind.ANTI),
        right_time: (nodes.JoinKind.RIGHT, nodes.JoinKind.FULL),
    }
    waits = {node.left_time: max(-node.lower, 0), right_time: max(node.upper, 0)}
    times = [name for name in (node.left_time, right_time) if name in node.fields]
    met: list[Expression] = [
        Call(_BOOLEAN, "is_not_null", (ColumnRef(node.fields[name].type, name),)) for name in times
    ]
    passed = [
        _not_after(node, name, watermark - waits[name])
        for name in times
        if watermark is not None and node.kind in padded[name]
    ]
    if node.kind is nodes.JoinKind.ANTI:
        met = [Literal(_BOOLEAN, False)]
    return nodes.Filter(node, _any_of([all_of(tuple(met)), *passed]))


def versions(node: nodes.Node) -> nodes.Node:
    """Give all versions of a view that has the newest row of each key."""
    match node:
        case nodes.Exchange() | nodes.Hint() | nodes.Project():
            return node.with_inputs(versions(node.input))
        case nodes.Deduplicate(keep_first=False, rank_name=None):
            return node.input
    return node


def _any_of(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else Call(_BOOLEAN, "or", tuple(conditions))


def _over(node: nodes.Node, end: str, watermark: int | None) -> nodes.Node:
    """Leave the rows of windows that are over: their last moment is passed."""
    moment = None if watermark is None else watermark + tick(node.fields[end].type)
    return _until(node, end, moment)


def _until(node: nodes.Node, column: str, moment: int | None) -> nodes.Node:
    """Leave the rows whose time is not after a moment: microseconds; None: before all."""
    if moment is None:
        return nodes.Filter(node, Literal(_BOOLEAN, False))
    return node if moment >= _GREATEST else nodes.Filter(node, _not_after(node, column, moment))


def _not_after(node: nodes.Node, column: str, moment: int) -> Expression:
    kind = node.fields[column].type
    return Call(_BOOLEAN, "less_equal", (ColumnRef(kind, column), _time(kind, moment)))


def _time(kind: DataType, micros: int) -> Literal:
    """Give the last time of a type that is not after a moment."""
    if (kind.precision or 0) > _MICROS:
        return Literal(kind, 1000 * micros + 999)
    step = 10 ** (_MICROS - (kind.precision or 0))
    zone = datetime.UTC if kind.root == "TIMESTAMP_LTZ" else None
    since = datetime.timedelta(microseconds=micros // step * step)
    return Literal(kind, datetime.datetime(1970, 1, 1, tzinfo=zone) + since)
