"""Expressions compiled for Arrow batches: `programs` has the steps."""

from collections.abc import Sequence

import pyarrow as pa

from pkray.errors import EvaluationError
from pkray.relational.cancellation import checkpoint
from pkray.relational.functions.evaluation.programs import Program, as_array_of
from pkray.relational.functions.outputs import OversizedError, check_batch
from pkray.relational.plan.expressions import Call, Case, Cast, Chain, Expression, Literal
from pkray.relational.plan.fields import Fields
from pkray.rows.python_values import row_text


class CompiledExpressions:
    """Expressions over the columns of `fields`, ready to be computed for batches."""

    def __init__(self, expressions: Sequence[Expression], fields: Fields) -> None:
        self._program = Program.over(fields)
        self._results = [self._program.slot(each) for each in expressions]
        self._types = [each.type.arrow for each in expressions]

    def evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Compute an array an expression, each of the batch's length and the expression's type.

        Args:
            batch: its columns are those of `fields`, in their order.

        Raises:
            EvaluationError: a row cannot be computed.
        """
        rows = batch.num_rows
        if not rows:
            return [pa.nulls(0, kind) for kind in self._types]
        try:
            slots = self._program.run(batch.columns, rows)
            pairs = zip(self._results, self._types, strict=True)
            return [as_array_of(slots[slot], kind, rows) for slot, kind in pairs]
        except OversizedError as error:
            if rows == 1:
                raise EvaluationError(error.message) from error
        except (EvaluationError, pa.ArrowInvalid) as error:
            raise self._placed(error, batch) from error
        return self._in_halves(batch)

    def _in_halves(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Compute what makes too much at once, if what comes of it is less."""
        checkpoint()
        half = batch.num_rows // 2
        parts = [self.evaluate(part) for part in (batch.slice(0, half), batch.slice(half))]
        size = sum(array.nbytes for part in parts for array in part)
        check_batch(f"the result of {batch.num_rows} rows", size, batch.num_rows)
        return [pa.concat_arrays(both) for both in zip(*parts, strict=True)]

    def _placed(self, error: Exception, batch: pa.RecordBatch) -> EvaluationError:
        """Say the row that cannot be computed: the first, found by halving."""
        low, high = 0, batch.num_rows
        while high - low > 1:
            middle = (low + high) // 2
            if (found := self._failure(batch, low, middle)) is not None:
                error, high = found, middle
            elif (found := self._failure(batch, middle, high)) is not None:
                error, low = found, middle
            else:
                return _as_evaluation_error(error)  # of all rows together
        known = _as_evaluation_error(error)
        said = row_text(batch, low)
        if not said:
            return known
        values = {**known.values, "row": low}
        return EvaluationError(f"{known.message}; the row has {said}", **values)

    def _failure(self, batch: pa.RecordBatch, start: int, end: int) -> Exception | None:
        rows = end - start
        try:
            self._program.run(batch.slice(start, rows).columns, rows)
        except OversizedError as error:
            if rows == 1:
                return error
            middle = start + rows // 2
            return self._failure(batch, start, middle) or self._failure(batch, middle, end)
        except (EvaluationError, pa.ArrowInvalid) as error:
            return error
        return None


def _as_evaluation_error(error: Exception) -> EvaluationError:
    if isinstance(error, EvaluationError):
        return error
    return EvaluationError(f"a row cannot be computed: {error}")


class CompiledExpression:
    """One expression over the columns of `fields`, ready to be computed for batches."""

    def __init__(self, expression: Expression, fields: Fields) -> None:
        self._all = CompiledExpressions([expression], fields)

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Compute an array of the batch's length and the expression's type.

        Args:
            batch: its columns are those of `fields`, in their order.

        Raises:
            EvaluationError: a row cannot be computed.
        """
        return self._all.evaluate(batch)[0]


def compile_expression(expression: Expression, fields: Fields) -> CompiledExpression:
    """Compile an expression over the columns of `fields`."""
    return CompiledExpression(expression, fields)


def compile_expressions(expressions: Sequence[Expression], fields: Fields) -> CompiledExpressions:
    """Compile expressions over the columns of `fields` together: their equal parts are shared."""
    return CompiledExpressions(expressions, fields)


def fold(expression: Expression) -> Expression:
    """Compute what depends on no column; what cannot be computed stays as it is."""
    return expression.transform(_folded)


def _folded(expression: Expression) -> Expression:
    if not isinstance(expression, Call | Case | Cast | Chain):
        return expression
    if not all(isinstance(operand, Literal) for operand in expression.operands()):
        return expression
    value = constant_value(expression)
    if value is None:
        return expression
    try:
        return Literal(expression.type.with_nullable(not value.is_valid), value.as_py())
    except (OverflowError, ValueError):  # a time that Python has no value for
        return expression


def constant_value(expression: Expression) -> pa.Scalar | None:
    """Compute what depends on no column; None where that fails."""
    program = Program.over(Fields(()))
    value = program.template[program.slot(expression)]
    return value if isinstance(value, pa.Scalar) else None
