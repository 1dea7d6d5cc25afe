"""Relations as tables for people."""

import pyarrow as pa

from pkray.relational.plan.nodes import Node, WatermarkAssign
from pkray.relational.plan.scans import scan_of
from pkray.relational.sources.table import TableSource
from pkray.relational.sources.watermarks import declared_watermark
from pkray.rows.python_values import to_python_list
from pkray.schema.computed_columns import ComputedColumn

# For people


def described(plan: Node) -> pa.Table:
    """List columns as DESCRIBE does."""
    scan = scan_of(plan)
    source = None if scan is None else scan.source
    keys = source.primary_key if source else ()
    mark = source.watermark if source else None
    if isinstance(source, TableSource) and mark is None and isinstance(plan, WatermarkAssign):
        mark = declared_watermark(source.schema)
    columns = source.columns if isinstance(source, TableSource) else ()
    computed = {
        each.name: f"AS {each.expression}"
        for each in columns
        if isinstance(each, ComputedColumn) and each.expression is not None
    }
    key = f"PRI({', '.join(keys)})"
    rows = [
        {
            "name": field.name,
            "type": str(field.type.with_nullable(True))
            + (" *ROWTIME*" if field.is_rowtime else ""),
            "null": field.type.nullable,
            "key": key if field.name in keys else None,
            "extras": computed.get(field.name),
            "watermark": mark.text if mark and mark.column == field.name else None,
        }
        for field in plan.fields
    ]
    names = ("name", "type", "null", "key", "extras", "watermark")
    types = [pa.bool_() if name == "null" else pa.string() for name in names]
    schema = pa.schema(list(zip(names, types, strict=True)))
    return pa.Table.from_pylist(rows, schema)


def printed(rows: pa.Table) -> str:
    """Draw a table of text."""
    cells = [[str(field.name) for field in rows.schema]]
    columns = [to_python_list(column) for column in rows.columns]
    cells += [["NULL" if v is None else str(v) for v in row] for row in zip(*columns, strict=True)]
    widths = [max(len(row[i]) for row in cells) for i in range(rows.num_columns)]
    lines = [" | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)
