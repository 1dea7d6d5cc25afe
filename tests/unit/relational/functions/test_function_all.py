"""What holds of every function: whatever arguments it takes, it gives its type and no crash."""

import itertools

import pyarrow as pa
import pytest

from pkray.errors import EvaluationError, PkrayError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.evaluation.compiled import compile_expression
from pkray.relational.functions.function import resolve, written
from pkray.relational.plan.expressions import ColumnRef, Literal
from tests.unit.relational.expressions import fields

COLUMNS = fields(i="INT", s="STRING", m="DECIMAL(10, 2)", d="DOUBLE NOT NULL")
NOTHING = {"i": None, "s": None, "m": None, "d": 1.5}
BATCHES = [
    pa.RecordBatch.from_pylist(rows, COLUMNS.arrow)
    for rows in ([NOTHING] * 3, [NOTHING, {"i": 2, "s": "2é", "m": 2, "d": -0.0}], [])
]
REFS = [ColumnRef(column.type, column.name) for column in COLUMNS]
INT, TEXT, NUMBER, FLOAT = REFS
CALLS = [
    (),
    *itertools.product([*REFS, Literal(TEXT.type, None)], repeat=1),
    *itertools.product(REFS, repeat=2),
    (INT, INT, INT), (TEXT, TEXT, TEXT), (TEXT, TEXT, INT), (TEXT, INT, INT), (TEXT, INT, TEXT),
    (FLOAT, FLOAT, NUMBER), (TEXT, TEXT, INT, INT),
]  # fmt: skip
FAMILIES = ("arithmetic", "comparison", "conditional", "mathematics", "text")
NAMES = sorted(
    {each.name for dialect in Dialect for each in written(dialect) if each.family in FAMILIES}
)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_functions_give_their_type_for_whatever_they_take(dialect: Dialect) -> None:
    for name, arguments in itertools.product(NAMES, CALLS):
        try:
            call = resolve(name, tuple(arguments), dialect)
        except PkrayError:
            continue
        compiled = compile_expression(call, COLUMNS)
        for batch in BATCHES:
            try:
                result = compiled.evaluate(batch)
            except EvaluationError as error:
                unforeseen = "a row cannot be computed" in str(error)
                if unforeseen:
                    raise
                continue
            assert result.type == call.type.arrow, (name, arguments)
            assert len(result) == batch.num_rows, (name, arguments)
            assert call.type.nullable or not result.null_count, (name, arguments)
