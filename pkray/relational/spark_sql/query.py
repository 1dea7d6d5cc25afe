"""Plans as Spark SQL."""

from pkray.errors import UnsupportedError
from pkray.relational.plan.fields import Field
from pkray.relational.plan.nodes import Node
from pkray.relational.spark_sql import groups, joins, rows, windows
from pkray.relational.spark_sql.constants import order_of, quoted, type_text
from pkray.relational.spark_sql.rows import last_sort
from pkray.relational.spark_sql.writer import Writer

NODES = (groups, joins, rows, windows)
"""The modules that say how nodes are written, which they do as soon as they are imported."""


class SparkSql(Writer):
    """Writes plans as Spark SQL."""

    def query(self, plan: Node) -> str:
        """Write a plan as one query whose columns have exactly the plan's types."""
        for each in plan.fields:
            if each.type.span:
                raise UnsupportedError(
                    f"{each.name} is {each.type}, which is not read from Spark: CAST it to STRING, "
                    'or run it with engine="local"'
                )
        last = self.name(plan)
        columns = ", ".join(_as_declared(each) for each in plan.fields)
        order = last_sort(plan)
        ordered = f"\nORDER BY {order_of(order)}" if order else ""
        if not self.parts:
            return f"SELECT {columns} FROM {last}{ordered}"
        parts = ",\n".join(self.parts)
        return f"WITH {parts}\nSELECT {columns} FROM {last}{ordered}"


def _as_declared(column: Field) -> str:
    name = quoted(column.name)
    return f"CAST({name} AS {type_text(column.type)}) AS {name}"
