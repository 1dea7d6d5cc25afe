"""Nodes as parts of one query, each written once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import singledispatch

from pkray.errors import UnsupportedError
from pkray.relational.functions.coercion import has_order
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.spark_sql.expressions import ExpressionWriter


@dataclass
class Writer(ExpressionWriter):
    """Writes nodes, each once, as parts of one query.

    Attributes:
        scans: the scans that the text reads as views, by the views' names.
        parts: common table expressions, in the order in which they read each other.
    """

    scans: dict[str, Scan] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def name(self, node: Node) -> str:
        """Write a node, once, and give the name by which others read it."""
        if id(node) not in self._names:
            text = write(node, self)
            self._names[id(node)] = f"n{len(self._names)}"
            self.parts.append(f"{self._names[id(node)]} AS (\n  {text}\n)")
        return self._names[id(node)]


def check_compared(node: Node, names: Iterable[str]) -> None:
    """Refuse columns with MAPs where rows are compared: Spark compares none."""
    for name in names:
        kind = node.fields[name].type
        if not has_order(kind):
            raise UnsupportedError(
                f"{kind} values are not compared on Spark: use engine='local', or compare "
                "array_sort(map_entries(…))",
                column=name,
            )


@singledispatch
def write(node: Node, writer: Writer) -> str:
    """Write one node; what says something about rows without changing them gives its input."""
    return f"SELECT * FROM {writer.name(node.inputs[0])}"
