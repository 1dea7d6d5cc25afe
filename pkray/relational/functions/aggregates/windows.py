"""Functions that need OVER."""

from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates.aggregate import Resolved, define_window
from pkray.relational.functions.aggregates.arguments import whole_number
from pkray.relational.functions.aggregates.ends import first_or_last
from pkray.relational.functions.coercion import BIGINT, DOUBLE, INT, cast_to
from pkray.relational.functions.function import Written
from pkray.relational.plan.expressions import Literal


def _number_of_row(call: Written) -> Resolved:
    call.exactly(0)
    kind = INT if call.dialect is Dialect.SPARK else BIGINT
    return Resolved(call.name, (), (), kind.with_nullable(False))


def _ntile(call: Written) -> Resolved:
    (said,) = call.exactly(1)
    tiles = whole_number(call.name, said, "the number of tiles", 1)
    kind = INT if call.dialect is Dialect.SPARK else BIGINT
    return Resolved(call.name, (), (tiles,), kind.with_nullable(False))


def _relative_rank(call: Written) -> Resolved:
    call.exactly(0)
    return Resolved(call.name, (), (), DOUBLE.with_nullable(False))


def _offset(call: Written) -> Resolved:
    """Type lag and lead; the default is a second argument, read from the current row."""
    value, *rest = call.between(1, 3)
    offset = Literal(INT.with_nullable(False), 1)
    if rest:
        offset = whole_number(call.name, rest[0], "the offset")
    default = tuple(cast_to(each, value.type) for each in rest[1:])
    nullable = value.type.nullable or not default or default[0].type.nullable
    return Resolved(call.name, (value, *default), (offset,), value.type.with_nullable(nullable))


def _nth_value(call: Written) -> Resolved:
    value, said = call.exactly(2)
    nth = whole_number(call.name, said, "the row number", 1)
    return Resolved(call.name, (value,), (nth,), value.type.with_nullable(True))


for _name, _about in (
    ("row_number", "Numbers the rows from 1."),
    ("rank", "Gives 1 plus the number of rows before, peers left out."),
    ("dense_rank", "Numbers the distinct values that are ordered by, from 1."),
):
    define_window(f"{_name}() -> INT (spark), BIGINT (flink)", _about, _number_of_row)
define_window("percent_rank() -> DOUBLE", "Gives the rank from 0 to 1.", _relative_rank)
define_window(
    "cume_dist() -> DOUBLE",
    "Gives the share of rows that are not after the row and its peers.",
    _relative_rank,
)
define_window("ntile(n) -> INT", "Cuts the partition into n equal parts.", _ntile)
define_window("lag(x [, offset [, default]]) -> x", "Reads a row before.", _offset)
define_window("lead(x [, offset [, default]]) -> x", "Reads a row after.", _offset)
define_window("first_value(x) -> x", "Reads the frame's first row.", first_or_last("first_value"))
define_window("last_value(x) -> x", "Reads the frame's last row.", first_or_last("last_value"))
define_window("nth_value(x, n) -> x", "Reads the frame's row n, from 1.", _nth_value)
