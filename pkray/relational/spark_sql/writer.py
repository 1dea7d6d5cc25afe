"""Nodes as parts of one query, each written once, and expressions as Spark SQL."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from pkray.errors import UnsupportedError
from pkray.relational.functions.coercion import has_order
from pkray.relational.functions.function import NO_SPARK, function
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.spark_sql.constants import at_precision, literal, quoted, type_text, wrapped


@dataclass
class Writer:
    """Writes nodes, each once, as parts of one query, and the expressions in them.

    Attributes:
        prefix: what the names of views and functions begin with.
        kernels: the calls that run in Python, by the functions' names; their arguments are
            ColumnRefs to ``arg0``, ``arg1`` ….
        scans: the scans that the text reads as views, by the views' names.
        parts: common table expressions, in the order in which they read each other.
    """

    prefix: str = "pkray"
    kernels: dict[str, ir.Call | ir.Chain | ir.UdfCall] = field(default_factory=dict)
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

    def expression(self, value: ir.Expression) -> str:
        """Write one expression."""
        match value:
            case ir.ColumnRef():
                return quoted(value.name)
            case ir.Literal():
                return literal(value)
            case ir.Cast():
                return self._cast(value)
            case ir.Case():
                branches = " ".join(
                    f"WHEN {self.expression(when)} THEN {self.expression(then)}"
                    for when, then in value.branches
                )
                return f"CASE {branches} ELSE {self.expression(value.otherwise)} END"
            case ir.Lambda():
                names = ", ".join(quoted(name) for name in value.parameters)
                names = f"({names})" if len(value.parameters) > 1 else names
                return f"{names} -> {self.expression(value.body)}"
            case ir.UdfCall() | ir.Chain():  # Spark exhausts its stack in what is as deep
                return self._kernel(value)
            case ir.Call():
                return self._call(value)
        raise AssertionError(value)

    def _call(self, value: ir.Call) -> str:
        known = function(value.function)
        if known.spark is NO_SPARK:
            return self._kernel(value)
        arguments = [self.expression(each) for each in value.arguments]
        if known.spark is None:
            return f"{value.function}({', '.join(arguments)})"
        try:
            return f"({known.spark(value, arguments)})"
        except NotImplementedError:
            return self._kernel(value)

    def _kernel(self, value: ir.Call | ir.Chain | ir.UdfCall) -> str:
        read = (each for each in value.operands() if not isinstance(each, ir.Literal))
        return self.in_python(value, list(map(self.expression, read)))

    def in_python(self, value: ir.Call | ir.Chain | ir.UdfCall, arguments: Sequence[str]) -> str:
        """Write a call that runs in Python.

        Args:
            arguments: texts of those that are no constants.
        """
        places = tuple(
            each if isinstance(each, ir.Literal) else ir.ColumnRef(each.type, f"arg{index}")
            for index, each in enumerate(value.operands())
        )
        shape = value.with_operands(places)
        assert isinstance(shape, ir.Call | ir.Chain | ir.UdfCall)
        known = [name for name, each in self.kernels.items() if each == shape]
        name = known[0] if known else f"{self.prefix}_function_{len(self.kernels)}"
        self.kernels[name] = shape
        return f"{name}({', '.join(arguments)})"

    def _cast(self, value: ir.Cast) -> str:
        operand, kind = self.expression(value.operand), value.type
        if value.on_error == "wrap":
            return wrapped(operand, kind)
        word = "TRY_CAST" if value.on_error == "null" else "CAST"
        text = f"{word}({operand} AS {type_text(kind)})"
        if kind.root.startswith("TIMESTAMP") and (kind.precision or 0) < 6:
            return at_precision(text, kind)
        return _SIZED.get(kind.root, "{0}").format(text, kind.length)


_SIZED = {
    "CHAR": "RPAD({0}, {1}, ' ')",
    "VARCHAR": "LEFT({0}, {1})",
    "BINARY": "RPAD({0}, {1}, X'00')",
    "VARBINARY": "SUBSTRING({0}, 1, {1})",
}
"""Cuts and fills what is cast to a length, as Spark has none."""


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
