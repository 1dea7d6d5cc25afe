"""Sources that know their sizes, and the shapes of the plans over them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pkray.relational.dialect import Dialect
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.sources import ColumnStatistics, Source, Watermark
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.parser import parse_query
from pkray.schema.types import DataType


@dataclass(eq=False)
class Sized(Source):
    """A source of integers: each column's number of values, and rows if they are read."""

    name: str
    rows: int
    values: Mapping[str, int]
    primary_key: tuple[str, ...] = ()
    content: Sequence[tuple[int | None, ...]] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    mode = "insert"
    watermark: Watermark | None = None

    @property
    def fields(self) -> Fields:
        return Fields(
            tuple(Field(name, DataType.parse(self.kinds.get(name, "INT"))) for name in self.values)
        )

    def row_count(self) -> int:
        return self.rows

    def statistics(self, column: str) -> ColumnStatistics:
        return ColumnStatistics(1, self.values[column], 0)

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        lists = list(zip(*self.content, strict=True)) or [()] * len(self.values)
        schema = self.fields.arrow
        table = pa.table(
            [pa.array(each, kind.type) for each, kind in zip(lists, schema, strict=True)], schema
        )
        yield from table.select(list(columns)).to_batches(max_chunksize=3)


class Tables:
    """Names of sources, in the spark dialect."""

    dialect = Dialect.SPARK

    def __init__(self, *sources: Source) -> None:
        self.sources = {source.name: source for source in sources}

    def relation(self, parts: tuple[str, ...], options: object, at: object) -> nodes.Node:
        return nodes.Scan(self.sources[parts[-1]])

    def udf(self, name: str) -> None:
        return None

    def bound(self, query: str) -> nodes.Node:
        """Bind a query, as it is written."""
        return Binder(self).query(parse_query(query, self.dialect))


def shape(node: nodes.Node) -> str:
    """Write the joins, the aggregates and the scans of a plan."""
    if isinstance(node, nodes.Scan):
        return node.source.name
    if isinstance(node, nodes.Project | nodes.Filter | nodes.Hint):
        return shape(node.input)
    inputs = ", ".join(map(shape, node.inputs))
    if isinstance(node, nodes.Join):
        return f"({inputs})" if node.kind is nodes.JoinKind.INNER else f"{node.kind}({inputs})"
    if isinstance(node, nodes.Aggregate):
        return f"by[{', '.join(node.keys)}]({inputs})"
    return f"{type(node).__name__.lower()}({inputs})"
