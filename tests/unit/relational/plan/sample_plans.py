"""Small sources and nodes for tests of plans."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pkray.relational.plan.expressions import AggregateCall, Call, ColumnRef, Expression, Literal
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Aggregate, Filter, Node, Project, Scan
from pkray.relational.sources import Source, Watermark
from pkray.schema.types import DataType

BIGINT = DataType("BIGINT", nullable=False)


@dataclass(frozen=True)
class SampleSource(Source):
    """A source that holds nothing."""

    name: str
    fields: Fields
    primary_key: tuple[str, ...] = ()
    mode: str = "insert"
    watermark: Watermark | None = None
    options: tuple[tuple[str, str], ...] = field(default=())

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        return iter(())


def scan(columns: str, key: str = "", mode: str = "insert", name: str = "db.t") -> Scan:
    """Read a table of columns such as ``"k INT NOT NULL, v STRING"``; ``*`` marks the rowtime."""
    fields = []
    for column in columns.split(", "):
        said, kind = column.split(" ", 1)
        fields.append(Field(said.rstrip("*"), DataType.parse(kind), said.endswith("*")))
    keys = tuple(key.split(", ")) if key else ()
    return Scan(SampleSource(name, Fields(tuple(fields)), keys, mode))


def ref(node: Node, name: str) -> ColumnRef:
    return ColumnRef(node.fields[name].type, name)


def project(node: Node, *names: str, **computed: Expression) -> Project:
    kept = tuple((name, ref(node, name)) for name in names)
    return Project(node, (*kept, *computed.items()))


def where(node: Node, column: str) -> Filter:
    """Keep rows whose column is above one."""
    one = Literal(DataType("INT", nullable=False), 1)
    compared = Call(DataType("BOOLEAN"), "gt", (ref(node, column), one))
    return Filter(node, compared)


def count(node: Node, *keys: str) -> Aggregate:
    return Aggregate(node, keys, (("c", AggregateCall("count", (), BIGINT)),))
