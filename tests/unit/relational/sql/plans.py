"""Plans of queries over tables that are only schemas, as short text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.plan import expressions as ir
from pkray.relational.plan import nodes
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.binder.scope import OuterRef
from pkray.relational.sql.parser import parse_query
from pkray.relational.sql.places import nearest
from pkray.scan.moment import Moment
from pkray.schema.types import DataType
from tests.unit.relational.plan.sample_plans import SampleSource


def table(name: str, columns: str, *, key: str = "", rowtime: str = "") -> SampleSource:
    """Make a table of ``name TYPE, …``."""
    row = DataType.parse(f"ROW<{columns}>")
    fields = Fields(tuple(Field(f.name, f.type, f.name == rowtime) for f in row.fields or ()))
    return SampleSource(name, fields, tuple(key.split(",")) if key else ())


@dataclass
class Schemas:
    """Tables by name."""

    tables: Mapping[str, SampleSource]
    dialect: Dialect = Dialect.SPARK
    udfs: Mapping[str, Any] = field(default_factory=dict)

    def relation(
        self, parts: tuple[str, ...], options: Mapping[str, str], at: Moment
    ) -> nodes.Node:
        name = parts[-1]
        known = {
            each.lower() if self.dialect is Dialect.SPARK else each: each for each in self.tables
        }
        found = known.get(name.lower() if self.dialect is Dialect.SPARK else name)
        if found is None:
            raise QueryError(f"no table is called {name}{nearest(name, self.tables)}")
        said = {**options, **{name: str(value) for name, value in at.named.items()}}
        return nodes.Scan(self.tables[found], options=tuple(sorted(said.items())))

    def udf(self, name: str) -> Any | None:
        return self.udfs.get(name)


def schemas(*tables: SampleSource, dialect: Dialect = Dialect.SPARK) -> Schemas:
    """Make names of tables."""
    return Schemas({each.name: each for each in tables}, dialect)


def bound(text: str, names: Schemas) -> nodes.Node:
    """Bind a query."""
    node = Binder(names).query(parse_query(text, names.dialect))
    for each in node.walk():
        check(each)
    return node


def check(node: nodes.Node) -> None:
    """Check that a node reads columns that there are, of the types that they have."""
    for each in (node, *node.inputs):
        names = [name.lower() for name in each.fields.names]
        assert len(set(names)) == len(names), f"{_line(each)}: {names}"
    match node:
        case nodes.Filter():
            _check_types(node.condition, node.input.fields)
        case nodes.Project():
            for _, value in node.columns:
                _check_types(value, node.input.fields)
        case nodes.Join() | nodes.IntervalJoin() | nodes.TemporalJoin():
            taken = node.left.fields.names
            assert len(node.right_names) == len(node.right.fields), _line(node)
            right = [
                Field(name, each.type)
                for name, each in zip(node.right_names, node.right.fields, strict=True)
            ]
            assert not {name.lower() for name in taken} & {each.name.lower() for each in right}
            _check_types(node.condition, node.left.fields + Fields(tuple(right)))
            for one, other in zip(node.left_keys, node.right_keys, strict=True):
                left_type, right_type = node.left.fields[one].type, node.right.fields[other].type
                assert left_type.with_nullable(True) == right_type.with_nullable(True), _line(node)
        case nodes.Aggregate():
            for _, call in node.aggregates:
                for name in (*call.arguments, *([call.filter] if call.filter else [])):
                    assert name in node.input.fields, _line(node)
        case nodes.SetOperation():
            for one, other in zip(node.left.fields, node.right.fields, strict=True):
                assert one.type.with_nullable(True) == other.type.with_nullable(True), _line(node)
        case nodes.Sort() | nodes.TopN() | nodes.Over():
            assert all(key.column in node.input.fields for key in node.order_by), _line(node)
    assert not any(isinstance(each, OuterRef) for each in _expressions(node)), _line(node)


def _expressions(node: nodes.Node) -> list[ir.Expression]:
    match node:
        case nodes.Filter() | nodes.Join() | nodes.IntervalJoin():
            return list(node.condition.walk())
        case nodes.Project():
            return [part for _, value in node.columns for part in value.walk()]
    return []


def _check_types(value: ir.Expression, fields: Fields) -> None:
    for name in value.columns():
        assert name in fields, f"{text(value)}: no {name} in {fields.names}"
    if any(isinstance(part, ir.Lambda) for part in value.walk()):
        return
    for part in value.walk():
        if isinstance(part, ir.ColumnRef):
            assert part.type == fields[part.name].type, f"{text(value)}: {part} {fields[part.name]}"


def plan(text: str, names: Schemas) -> str:
    """Bind a query and write its plan."""
    return shown(bound(text, names))


def columns(node: nodes.Node) -> list[str]:
    """Write the columns of a node: ``name TYPE``."""
    return [str(each) for each in node.fields]


def shown(node: nodes.Node, indent: int = 0) -> str:
    """Write a plan, a line a node, inputs indented below."""
    lines = ["  " * indent + _line(node)]
    lines += [shown(each, indent + 1) for each in node.inputs]
    return "\n".join(lines)


def _line(node: nodes.Node) -> str:
    match node:
        case nodes.Scan():
            said = " ".join(f"{name}={value}" for name, value in node.options)
            return f"{node.source.name} {said}".rstrip()
        case nodes.Values():
            return f"values {[tuple(cell.value for cell in row) for row in node.rows]}"
        case nodes.Filter():
            return f"filter {text(node.condition)}"
        case nodes.Project():
            return "project " + ", ".join(_column(*each) for each in node.columns)
        case nodes.Expand():
            return f"expand {_names(node.keys)} {list(node.sets)} {node.id_name}"
        case nodes.Aggregate():
            calls = ", ".join(f"{name}={_call(call)}" for name, call in node.aggregates)
            return f"aggregate [{_names(node.keys)}] {calls}".rstrip()
        case nodes.Join():
            return f"{node.kind}{_join(node)}"
        case nodes.IntervalJoin():
            span = f" {node.left_time} - {node.right_time} in {node.lower}..{node.upper}"
            return f"interval {node.kind}{_join(node)}{span}"
        case nodes.TemporalJoin():
            return f"temporal {node.kind}{_join(node)} at {node.left_time}/{node.right_time}"
        case nodes.Window():
            return f"{node.kind} {node.time} {node.size}/{node.step} [{_names(node.partition_by)}]"
        case nodes.Over():
            calls = ", ".join(f"{name}={_call(call)}" for name, call in node.calls)
            return f"over [{_names(node.partition_by)}] {_order(node.order_by)}: {calls}"
        case nodes.TopN():
            rank = f" as {node.rank_name}" if node.rank_name else ""
            by = f"[{_names(node.partition_by)}] {_order(node.order_by)}"
            return f"top {node.start}..{node.end} {by}{rank}"
        case nodes.Deduplicate():
            which = "first" if node.keep_first else "last"
            return f"keep {which} [{_names(node.keys)}] {node.order_by}"
        case nodes.SetOperation():
            return f"{node.kind}{' all' if node.all else ''}"
        case nodes.Sort():
            return f"sort {_order(node.order_by)}"
        case nodes.Limit():
            return f"limit {node.count} offset {node.offset}"
        case nodes.Unnest():
            outer = " outer" if node.outer else ""
            return f"{node.function}{outer} {_names(node.arguments)} as {_names(node.names)}"
        case nodes.Hint():
            return f"hint {node.name} {dict(node.options)}"
    return type(node).__name__.lower()


def _join(node: nodes.Join | nodes.IntervalJoin | nodes.TemporalJoin) -> str:
    equal = ", ".join(f"{a}={b}" for a, b in zip(node.left_keys, node.right_keys, strict=True))
    said = f" on {equal}" if equal else ""
    if isinstance(node, nodes.Join):
        if any(node.null_safe):
            said += " null-safe"
        if node.null_aware:
            said += " null-aware"
        if node.kind is nodes.JoinKind.MARK:
            said += f" as {node.mark_name}"
    return said + (f" where {text(node.condition)}" if node.condition != ir.TRUE else "")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def _order(keys: Sequence[ir.SortKey]) -> str:
    return ", ".join(
        key.column
        + (" desc" if key.descending else "")
        + (
            ""
            if key.nulls_first != key.descending
            else " nulls " + ("first" if key.nulls_first else "last")
        )
        for key in keys
    )


def _column(name: str, value: ir.Expression) -> str:
    return (
        name if isinstance(value, ir.ColumnRef) and value.name == name else f"{name}={text(value)}"
    )


def _call(call: ir.AggregateCall | ir.WindowCall) -> str:
    arguments = [*call.arguments, *(str(each.value) for each in call.parameters)]
    said = f"{call.function}({', '.join(arguments)})"
    if isinstance(call, ir.AggregateCall):
        said = said.replace("(", "(distinct ", 1) if call.distinct else said
        said += f" filter {call.filter}" if call.filter else ""
        said += f" order {_order(call.order_by)}" if call.order_by else ""
    elif call.function not in ("row_number", "rank"):
        said += f" {call.frame.unit} {call.frame.start}..{call.frame.end}"
    return said + (" ignore nulls" if call.ignore_nulls else "")


def text(value: ir.Expression) -> str:
    """Write an expression."""
    match value:
        case ir.ColumnRef():
            return value.name
        case ir.Literal():
            return repr(value.value)
        case ir.Cast():
            return f"cast({text(value.operand)} as {value.type.with_nullable(True)})"
        case ir.Case():
            parts = " ".join(f"when {text(a)} then {text(b)}" for a, b in value.branches)
            return f"case {parts} else {text(value.otherwise)} end"
        case ir.Lambda():
            return f"{','.join(value.parameters)} -> {text(value.body)}"
        case ir.Call():
            return f"{value.function}({', '.join(text(each) for each in value.arguments)})"
    return str(value)


__all__ = ["bound", "columns", "exp", "plan", "schemas", "shown", "table", "text"]
