"""Windows of time, functions with OVER, and the first rows of groups."""

from collections.abc import Sequence
from decimal import Decimal

from pkray.relational.plan.expressions import Frame, WindowCall
from pkray.relational.plan.nodes import Deduplicate, Over, TopN, Window, WindowKind
from pkray.relational.spark_sql.constants import (
    literal,
    micros_of,
    moment,
    names_of,
    order_of,
    plain_text,
    quoted,
)
from pkray.relational.spark_sql.groups import aggregate
from pkray.relational.spark_sql.writer import Writer, check_compared, write


@write.register
def _window(node: Window, writer: Writer) -> str:
    below, kind = writer.name(node.input), node.input.fields[node.time].type
    absent = f"raise_error('the time column {plain_text(node.time)} is NULL')"
    known = f"if({quoted(node.time)} IS NULL, {absent}, {micros_of(node.time)})"
    if node.kind is WindowKind.SESSION:
        bounds = _sessions(node, below, known)
    else:
        bounds = f"(SELECT *, {known} AS `$t` FROM {below}) {_views(node)}"
    start, end, last = node.names
    columns = [
        *map(quoted, node.input.fields.names),
        f"{moment('`$start`', kind)} AS {quoted(start)}",
        f"{moment('`$end`', kind)} AS {quoted(end)}",
        f"{moment('`$end` - 1000', kind)} AS {quoted(last)}",
    ]
    return f"SELECT {', '.join(columns)} FROM {bounds}"


def _sessions(node: Window, below: str, known: str) -> str:
    by = [quoted(name) for name in node.partition_by]
    partition = f"PARTITION BY {', '.join(by)} " if by else ""
    gap = f"`$t` - lag(`$t`) OVER ({partition}ORDER BY `$t`)"
    timed = f"SELECT *, {known} AS `$t` FROM {below}"
    begins = f"SELECT *, if({gap} <= {node.size}L, 0, 1) AS `$new` FROM ({timed})"
    before = f"{partition}ORDER BY `$t` RANGE UNBOUNDED PRECEDING"
    numbered = f"SELECT *, sum(`$new`) OVER ({before}) AS `$session` FROM ({begins})"
    whole = f"PARTITION BY {', '.join([*by, '`$session`'])}"
    return (
        f"(SELECT *, min(`$t`) OVER ({whole}) AS `$start`, "
        f"max(`$t`) OVER ({whole}) + {node.size}L AS `$end` FROM ({numbered}))"
    )


@write.register
def _over(node: Over, writer: Writer) -> str:
    by = _partitions(node, node.partition_by)
    order = f"ORDER BY {order_of(node.order_by)}" if node.order_by else ""
    columns = [
        f"{_call_over(call, node, by, order)} AS {quoted(name)}" for name, call in node.calls
    ]
    return f"SELECT *, {', '.join(columns)} FROM {writer.name(node.input)}"


def _partitions(node: Over | TopN | Deduplicate, names: Sequence[str]) -> str:
    check_compared(node.input, names)
    return f"PARTITION BY {names_of(names)} " if names else ""


def _call_over(call: WindowCall, node: Over, by: str, order: str) -> str:
    value, further = call.arguments[:1], call.arguments[1:]
    constants = map(literal, call.parameters)
    arguments = [*map(quoted, value), *constants, *map(quoted, further)]
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    has_frame = call.function not in (*_RANKINGS, "lag", "lead")
    over = f"OVER ({by}{order}{f' {_frame(call.frame, node)}' if has_frame else ''})"
    if has_frame and call.function not in ("first_value", "last_value", "nth_value"):
        return aggregate(call.of_group(), node.input, over)
    return f"{call.function}({', '.join(arguments)}){nulls} {over}"


@write.register
def _topn(node: TopN, writer: Writer) -> str:
    by = _partitions(node, node.partition_by)
    over = f"{by}ORDER BY {', '.join([*filter(None, [order_of(node.order_by)]), '`$arrival`'])}"
    return _numbered(node, over, node.start, node.end, writer)


@write.register
def _deduplicate(node: Deduplicate, writer: Writer) -> str:
    direction = "ASC" if node.keep_first else "DESC"
    time = f"{quoted(node.order_by)} {direction}, " if node.order_by else ""
    over = f"{_partitions(node, node.keys)}ORDER BY {time}`$arrival` {direction}"
    return _numbered(node, over, 1, 1, writer)


def _numbered(node: TopN | Deduplicate, over: str, start: int, end: int, writer: Writer) -> str:
    """Write rows whose number is in a range; equal ones are numbered as they come."""
    name = quoted(node.rank_name or "$number")
    number = f"CAST(row_number() OVER ({over}) AS BIGINT) AS {name}"
    below = f"SELECT *, monotonically_increasing_id() AS `$arrival` FROM {writer.name(node.input)}"
    rows = f"(SELECT *, {number} FROM ({below}))"
    return (
        f"SELECT {names_of(node.fields.names)} FROM {rows} WHERE {name} BETWEEN {start} AND {end}"
    )


_RANKINGS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")


def _frame(frame: Frame, node: Over) -> str:
    if not node.order_by and frame.unit == "range":
        return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    start = _bound(frame.start, "PRECEDING", frame, node)
    end = _bound(frame.end, "FOLLOWING", frame, node)
    return f"{frame.unit.upper()} BETWEEN {start} AND {end}"


def _bound(bound: int | float | None, side: str, frame: Frame, node: Over) -> str:
    if bound is None:
        return f"UNBOUNDED {side}"
    if bound == 0:
        return "CURRENT ROW"
    side = "PRECEDING" if bound < 0 else "FOLLOWING"
    kind = node.input.fields[node.order_by[0].column].type.root if node.order_by else ""
    if frame.unit == "range" and kind.startswith("TIMESTAMP"):
        seconds = Decimal(int(abs(bound))) / 1_000_000
        return f"INTERVAL '{seconds:f}' SECOND {side}"
    if frame.unit == "range" and kind == "DATE":
        return f"INTERVAL '{int(abs(bound)) // 86_400_000_000}' DAY {side}"
    return f"{abs(bound)} {side}"


def _views(node: Window) -> str:
    """Write the windows of a row whose time is ``$t`` microseconds."""
    size, step = node.size, node.step
    since = f"pmod(`$t` - {node.offset}L, {step if node.kind is WindowKind.HOP else size}L)"
    starts, ends = f"array(`$t` - {since})", f"array(`$start` + {size}L)"
    if node.kind is WindowKind.HOP:
        count = f"({size}L - 1 - {since}) div {step}L"
        starts = (
            f"if({since} >= {size}L, array(), "
            f"transform(sequence(0L, greatest({count}, 0L)), i -> `$t` - {since} - i * {step}L))"
        )
    elif node.kind is WindowKind.CUMULATE:
        first = f"(`$t` - `$start`) div {step}L + 1"
        ends = f"transform(sequence({first}, {size // step}L), i -> `$start` + i * {step}L)"
    return f"LATERAL VIEW explode({starts}) a AS `$start` LATERAL VIEW explode({ends}) b AS `$end`"
