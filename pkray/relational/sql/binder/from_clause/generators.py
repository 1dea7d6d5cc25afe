"""Functions that make rows of a row."""

from collections.abc import Sequence

from sqlglot import exp

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import coerced, untyped_null
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.relational.plan.fields import distinct_names
from pkray.relational.plan.nodes import Node, Unnest
from pkray.relational.sql.binder.context import Queries
from pkray.relational.sql.binder.from_clause.calls import BIGINT, INT, SINGLE_ROW, Bind, unwrapped
from pkray.relational.sql.binder.scope import Rows, Visible
from pkray.relational.sql.dialects import shown
from pkray.relational.sql.expressions.base import access_field
from pkray.relational.sql.places import nearest, placed, wrong
from pkray.schema.types import DataType

_ROWS_OF = ("explode", "posexplode", "inline")
_OF_MANY = ("stack", "json_tuple")


class Generators:
    """Binds functions that make rows of a row: ``explode``, UNNEST, ``range`` …."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries
        self.dialect = queries.dialect

    def unnest(self, rows: Rows, tree: exp.Expr, bind: Bind, *, outer: bool) -> list[Visible]:
        """Add the rows that a function makes of each row, and name their columns."""
        given = tree.alias_column_names
        qualifier = (tree.alias,) if tree.alias else ()
        if isinstance(tree, exp.Unnest):
            names = self._elements(rows, tree, given, bind, outer=outer)
        else:
            call = tree.this
            if not isinstance(call, exp.Anonymous):
                raise wrong(
                    f"{shown(tree)} is no table function: write explode(column) or UNNEST(column)",
                    tree,
                )
            names = self.generate(rows, unwrapped(call), given, bind, outer=outer)
        return [Visible(shown, column, qualifier) for shown, column in names]

    def range(self, tree: exp.Expr, bind: Bind) -> tuple[Node, list[Visible]]:
        """Bind ``range([start,] end [, step [, partitions]])``: whole numbers, without the end.

        Into how many partitions Spark puts them changes no row.
        """
        call = unwrapped(tree.this)
        numbers = [bind(each) for each in call.expressions]
        values = [
            each.value for each in numbers if isinstance(each, Literal) and type(each.value) is int
        ]
        if not 1 <= len(values) <= 4 or len(values) < len(numbers):
            raise wrong(
                "range takes whole numbers: range(end), range(start, end), "
                "range(start, end, step) or range(start, end, step, partitions)",
                tree,
            )
        start, end, step = ([0, *values, 1] if len(values) == 1 else [*values, 1])[:3]
        if step == 0:
            raise wrong("the step of range must not be 0", tree)
        last = end - (1 if step > 0 else -1)
        rows = Rows(SINGLE_ROW, self.queries.numbers)
        arguments = [Literal(BIGINT, number) for number in (start, last, step)]
        added = self._add(rows, "sequence_rows", arguments, [("id", BIGINT)], (), tree, False, None)
        name = next(iter(tree.alias_column_names), "id")
        qualifier = (tree.alias,) if tree.alias else ()
        return rows.node, [Visible(name, column, qualifier) for _, column in added]

    def is_generator(self, node: exp.Expr) -> bool:
        """Whether it makes rows of a row: ``explode`` and the like, or a user's table function."""
        if not isinstance(node, exp.Anonymous):
            return False
        if node.name.lower().removesuffix("_outer") in (*_ROWS_OF, *_OF_MANY):
            return True
        udf = self.queries.names.udf(node.name)
        return udf is not None and str(udf.kind) == "table"

    def generate(
        self, rows: Rows, call: exp.Anonymous, given: Sequence[str], bind: Bind, *, outer: bool
    ) -> list[tuple[str, str]]:
        """Add the rows of a call; give the columns' names as written and as they are."""
        name = call.name.lower()
        arguments = tuple(bind(each) for each in call.expressions)
        udf = self.queries.names.udf(call.name)
        if udf is not None and str(udf.kind) == "table":
            columns = [(each.name, each.type) for each in udf.columns]
            return self._add(rows, "udtf", udf.typed(arguments), columns, given, call, outer, udf)
        if name == "json_tuple":
            return self._json_tuple(rows, call, arguments, given)
        if name == "stack":
            value = self._stacked(call, arguments)
            columns = self._made("inline", value, call)
            return self._add(rows, "inline", (value,), columns, given, call, outer, None)
        kind = name.removesuffix("_outer")
        if kind not in _ROWS_OF:
            known = (*_ROWS_OF, *(each + "_outer" for each in _ROWS_OF), *_OF_MANY)
            hint = nearest(call.name, known)
            raise wrong(f"no table function is called {call.name}{hint}", call)
        if len(arguments) != 1:
            raise wrong(f"{kind} takes one argument", call)
        outer = outer or name.endswith("_outer")
        columns = self._made(kind, arguments[0], call)
        return self._add(rows, kind, arguments, columns, given, call, outer, None)

    def _stacked(self, call: exp.Anonymous, arguments: tuple[Expression, ...]) -> Expression:
        """Make ``stack(n, x, …)`` an ARRAY of n ROWs; what is missing in the last is NULL."""
        count = arguments[0].value if arguments and isinstance(arguments[0], Literal) else None
        if not isinstance(count, int) or not 1 <= count <= len(arguments) - 1:
            raise wrong(
                "stack takes the number of rows and their values: stack(2, 'a', a, 'b', b)", call
            )
        width = -(-(len(arguments) - 1) // count)
        values = [*arguments[1:], *[untyped_null()] * (count * width - len(arguments) + 1)]
        with placed(call):
            columns = [
                coerced(values[place::width], self.dialect, f"column {place} of stack")
                for place in range(width)
            ]
        made = []
        for row in range(count):
            named = [(text_literal(f"col{i}"), column[row]) for i, column in enumerate(columns)]
            parts = tuple(part for pair in named for part in pair)
            made.append(function.resolve("named_struct", parts, self.dialect))
        return function.resolve("array", tuple(made), self.dialect)

    def _json_tuple(
        self,
        rows: Rows,
        call: exp.Anonymous,
        arguments: tuple[Expression, ...],
        given: Sequence[str],
    ) -> list[tuple[str, str]]:
        """Add a column for each field that ``json_tuple(json, field, …)`` names."""
        fields = [each.value for each in arguments[1:] if isinstance(each, Literal)]
        if (
            not fields
            or len(fields) != len(arguments) - 1
            or not all(isinstance(each, str) and "'" not in each for each in fields)
        ):
            raise wrong("json_tuple takes JSON and names of fields: json_tuple(j, 'a', 'b')", call)
        shown = list(given) or [f"c{place}" for place in range(len(fields))]
        if len(shown) != len(fields):
            raise wrong(
                f"{len(shown)} names are given for the {len(fields)} columns of json_tuple", call
            )
        values = [
            function.resolve(
                "get_json_object", (arguments[0], text_literal(f"$['{field}']")), self.dialect
            )
            for field in fields
        ]
        return list(zip(shown, rows.compute(values, "u"), strict=True))

    def _made(
        self, function: str, argument: Expression, node: exp.Expr
    ) -> list[tuple[str, DataType]]:
        kind = argument.type
        columns: list[tuple[str, DataType]]
        if kind.root == "ARRAY" and kind.element is not None:
            element = kind.element
            if function == "inline":
                if element.root != "ROW" or element.fields is None:
                    raise wrong(f"inline takes an ARRAY of ROWs, not {kind}", node)
                return [
                    (each.name, each.type.with_nullable(each.type.nullable or element.nullable))
                    for each in element.fields
                ]
            columns = [("col", element)]
        elif kind.root == "MAP" and kind.key and kind.value and function != "inline":
            columns = [("key", kind.key), ("value", kind.value)]
        else:
            raise wrong(f"{function} takes an ARRAY or a MAP, not {kind}", node)
        return [("pos", INT), *columns] if function == "posexplode" else columns

    def _add(
        self,
        rows: Rows,
        function: str,
        arguments: Sequence[Expression],
        columns: Sequence[tuple[str, DataType]],
        given: Sequence[str],
        node: exp.Expr,
        outer: bool,
        udf: object,
    ) -> list[tuple[str, str]]:
        if given and len(given) != len(columns):
            raise wrong(
                f"{len(given)} names are given for the {len(columns)} columns of {function}: "
                f"{', '.join(name for name, _ in columns)}",
                node,
            )
        shown = list(given) or [name for name, _ in columns]
        read = tuple(rows.compute(arguments, "a"))
        names = distinct_names(shown, taken=rows.node.fields.names)
        types = tuple(kind for _, kind in columns)
        rows.node = Unnest(rows.node, function, read, names, types, outer, udf)
        return list(zip(shown, names, strict=True))

    def _elements(
        self, rows: Rows, tree: exp.Unnest, given: Sequence[str], bind: Bind, *, outer: bool
    ) -> list[tuple[str, str]]:
        """Bind UNNEST; the fields of ROWs become columns."""
        if len(tree.expressions) != 1:
            raise wrong("UNNEST takes one ARRAY or MAP", tree)
        value = bind(tree.expressions[0])
        element = value.type.element
        offset = tree.args.get("offset")
        is_rows = element is not None and element.root == "ROW"
        if not offset:
            function = "inline" if is_rows else "explode"
            columns = self._made(function, value, tree)
            return self._add(rows, function, (value,), columns, given, tree, outer, None)
        columns = self._made("posexplode", value, tree)
        added = self._add(rows, "posexplode", (value,), columns, (), tree, outer, None)
        place, *values = (rows.ref(column) for _, column in added)
        fields: list[tuple[str, Expression]] = [
            (name, ref) for (name, _), ref in zip(added[1:], values, strict=True)
        ]
        if is_rows and element is not None and element.fields:
            fields = [
                (each.name, access_field(values[0], each.name, self.dialect))
                for each in element.fields
            ]
        one = Literal(INT, 1)
        number = Call(place.type, "add", (place, one))
        shown = [name for name, _ in fields]
        if given:
            if len(given) not in (len(shown), len(shown) + 1):
                raise wrong(
                    f"{len(given)} names are given for {len(shown) + 1} columns of UNNEST", tree
                )
            shown = list(given[: len(shown)])
        ordinal = offset.name if isinstance(offset, exp.Expr) else "ORDINALITY"
        if len(given) == len(fields) + 1:
            ordinal = given[-1]
        made = [*(value for _, value in fields), number]
        names = rows.compute(made, "u")
        return list(zip([*shown, ordinal], names, strict=True))


def default_names(dialect: Dialect, count: int) -> list[str]:
    """Name columns that have no name: ``col1`` … in the spark dialect, ``EXPR$0`` … in flink."""
    begin, first = ("col", 1) if dialect is Dialect.SPARK else ("EXPR$", 0)
    return [f"{begin}{number}" for number in range(first, first + count)]
