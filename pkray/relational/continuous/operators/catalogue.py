"""Every operator there is: which one computes a node, and which nodes none does."""

from pkray.errors import UnsupportedError
from pkray.relational.continuous.operator import OPERATORS, Operator, asks_anew, asks_time_or_chance
from pkray.relational.continuous.operators import keyed, over, ranked, sets, stateless
from pkray.relational.continuous.operators.aggregates import aggregate
from pkray.relational.continuous.operators.joins import intervals, joins, lookups, temporal
from pkray.relational.continuous.operators.windows import (
    bounded,
    first_rows,
    over_in_time,
    sessions,
    slice_aggregate,
    updated_windows,
    window_aggregate,
)
from pkray.relational.dialect import Dialect
from pkray.relational.functions.numbers import chance
from pkray.relational.plan import nodes
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.expressions import Call
from pkray.relational.plan.node import INSERT
from pkray.relational.plan.nodes.rows import is_now, origin_of

FAMILIES = (
    aggregate,
    bounded,
    first_rows,
    intervals,
    joins,
    keyed,
    lookups,
    over,
    over_in_time,
    ranked,
    sessions,
    sets,
    slice_aggregate,
    stateless,
    temporal,
    updated_windows,
    window_aggregate,
)
"""The modules of operators, which put themselves into `OPERATORS` when they are imported."""


def operator_of(node: nodes.Node) -> type[Operator]:
    """Find what computes a node.

    Raises:
        UnsupportedError: nothing does continuously.
    """
    for when, operator in OPERATORS.get(type(node), ()):
        if when(node):
            return operator
    raise UnsupportedError(
        f"this {type(node).__name__} does not run continuously: run the query bounded",
        node=type(node).__name__,
    )


def check_operators(plan: nodes.Node, dialect: str) -> None:
    """Check that every node of a physical plan runs continuously.

    Raises:
        UnsupportedError: one does not; the error names it.
    """
    for node in plan.walk():
        if not isinstance(node, nodes.Scan | nodes.Values):
            operator_of(node)
            _check_determined(node)
            _check_emission(node)
        if dialect == Dialect.FLINK and isinstance(node, nodes.Filter | nodes.Calc):
            _check_ranks(node)


def _check_emission(node: nodes.Node) -> None:
    """Refuse results that change where they are given once."""
    if isinstance(node, nodes.Over) and node.waits and change_kinds(node.input) != INSERT:
        raise UnsupportedError(
            "OVER gives rows at the watermark where its input only adds rows, and this one takes "
            "some back: take 'waits' out of the plan",
            node="Over",
        )
    if isinstance(node, nodes.Window):
        if node.kind is nodes.WindowKind.SESSION and node.is_updated:
            raise UnsupportedError(
                "sessions give rows when they are over: take early results and lateness off, or "
                "use windows of a fixed size",
                node="Window",
            )
    elif not isinstance(node, nodes.Aggregate) and node.updates_windows():
        kind = type(node).__name__
        raise UnsupportedError(
            f"a {kind} within windows gives rows when the watermark passes their end: take early "
            "results and lateness off, or aggregate the windows",
            node=kind,
        )


def _check_determined(node: nodes.Node) -> None:
    """Refuse the time and chance where rows are computed more than once: what is taken back, or
    paired later, would not be what was added.
    """
    if isinstance(node, nodes.Filter | nodes.Project) and (name := _chance(node)):
        raise UnsupportedError(
            f"{name} gives other values when rows are computed again, as continuous queries do "
            "after a failure: take a hash of a key, such as pmod(hash(key), 100), or keep the "
            "value in a table first",
            node=type(node).__name__,
        )
    match node:
        case nodes.Filter() | nodes.Project():
            if change_kinds(node.input) != INSERT and asks_time_or_chance(node):
                raise UnsupportedError(
                    "the time of day, or chance, is asked for of rows that may change: what is "
                    "taken back would not be what was added; ask for it of a source that only adds "
                    "rows, or keep the value in a table first",
                    node=type(node).__name__,
                )
        case nodes.Join() | nodes.IntervalJoin() | nodes.TemporalJoin() if asks_anew(
            [node.condition]
        ):
            raise UnsupportedError(
                "the time of day, or chance, is asked for in ON: rows are paired when either "
                "comes; make it a column of one side first",
                node=type(node).__name__,
            )
        case nodes.Window() if is_now(node.input, node.time):
            raise UnsupportedError(
                f"windows over {node.time}, the time at which a row is handled, are not supported: "
                "windows end by event time; let a WATERMARK follow a time of the rows",
                node=type(node).__name__,
            )
        case nodes.WatermarkAssign() if asks_anew([node.delay]):
            raise UnsupportedError(
                f"the watermark of {node.time} asks for the time of day, or chance: it follows the "
                "rows alone, such as ts - INTERVAL '5' SECOND",
                node=type(node).__name__,
            )


def _chance(node: nodes.Filter | nodes.Project) -> str:
    """Name a function of chance that a node computes; empty where there is none."""
    calls = (part for value in node.expressions() for part in value.walk())
    names = (part.function for part in calls if isinstance(part, Call))
    return next((name for name in names if name in chance.NAMES), "")


def _check_ranks(node: nodes.Filter | nodes.Calc) -> None:
    """Refuse rows by their RANK(), which the flink dialect has in bounded queries alone."""
    for column in sorted(node.condition.columns()):
        function = _window_function(node.input, column)
        if function in ("rank", "dense_rank"):
            raise UnsupportedError(
                f"rows by their {function.upper()}() are not kept continuously in the flink "
                "dialect: use ROW_NUMBER(), or the spark dialect",
                node="Over",
            )


def _window_function(node: nodes.Node, column: str) -> str:
    """Name the window function that a column is computed by; empty if it is by none."""
    below, name = origin_of(node, column)
    calls = dict(below.calls) if isinstance(below, nodes.Over) else {}
    return calls[name].function if isinstance(name, str) and name in calls else ""
