"""Programs: expressions taken apart into steps over Arrow batches.

A `Program` is a list of steps, each of which computes a slot from slots before it: a column, a
constant, a function's kernel, a cast. Equal parts of expressions share a slot, and what depends on
no column is computed when the program is made. What can fail and stands where only some rows ask
for it (a branch of CASE, the right of AND, OR and COALESCE) is a program of its own, run on those
rows alone; so is the body of a lambda, run on elements, so many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.errors import EvaluationError
from pkray.relational.cancellation import checkpoint
from pkray.relational.functions import function, outputs
from pkray.relational.functions.casts.kernels import cast_can_fail, cast_kernel
from pkray.relational.functions.function import Value
from pkray.relational.functions.values import as_array
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.fields import Fields

Slots: TypeAlias = list[Any]
Compute: TypeAlias = Callable[[Slots, int], Any]
_LAZY = ("and", "or", "coalesce")
PIECE_ROWS = 1 << 14
"""Elements that a lambda is computed for at once: a run that is cancelled ends after them."""


def as_array_of(value: Value, kind: pa.DataType, rows: int) -> pa.Array:
    """Make a value an array of a type."""
    array = as_array(value, rows)
    return array if array.type == kind else array.cast(kind)


class Numbers:
    """Numbers expressions: equal ones have one number."""

    def __init__(self) -> None:
        self._by_key: dict[Any, int] = {}
        self._by_identity: dict[int, tuple[ir.Expression, int]] = {}
        self._columns: list[frozenset[str]] = []

    def of(self, expression: ir.Expression) -> int:
        """Give the number of an expression."""
        known = self._by_identity.get(id(expression))
        if known is not None:
            return known[1]
        key = self._key(expression, tuple(self.of(part) for part in expression.operands()))
        number = self._by_key.setdefault(key, len(self._by_key))
        if number == len(self._columns):
            self._columns.append(expression.columns())
        self._by_identity[id(expression)] = (expression, number)  # alive, so that its id is its own
        return number

    def columns(self, number: int) -> frozenset[str]:
        """List the columns that an expression reads."""
        return self._columns[number]

    def _key(self, expression: ir.Expression, parts: tuple[int, ...]) -> Any:
        kind = type(expression).__name__, expression.type
        if isinstance(expression, ir.ColumnRef):
            return (*kind, expression.name)
        if isinstance(expression, ir.Literal):
            return (*kind, repr(expression.value))
        if isinstance(expression, ir.Cast):
            return (*kind, expression.on_error, parts)
        if isinstance(expression, ir.Lambda):
            return (*kind, expression.parameters, parts)
        if isinstance(expression, ir.Case):
            return (*kind, parts)
        if isinstance(expression, ir.Chain):
            links = tuple((link.function, link.type, link.left) for link in expression.links)
            return (*kind, links, parts)
        if isinstance(expression, ir.Call) and function.function(expression.function).deterministic:
            return (*kind, expression.function, parts)
        return (*kind, id(expression))


@dataclass
class Program:
    """Steps that fill slots.

    Attributes:
        template: what the slots hold before the first step: constants, and None.
        inputs: slots that columns, or parameters of a lambda, are put into.
        sources: beside each of them the number of a column or a parameter.
        captures: slots of `parent` whose values this program reads, and `captured`: where to.
        known: the slots of numbered expressions.
    """

    numbers: Numbers = field(default_factory=Numbers)
    parent: Program | None = None
    names: dict[str, int] = field(default_factory=dict)
    template: Slots = field(default_factory=list)
    steps: list[tuple[int, Compute]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    captures: list[int] = field(default_factory=list)
    captured: list[int] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def over(fields: Fields) -> Program:
        """Make a program that reads the columns of batches."""
        return Program(names={name: number for number, name in enumerate(fields.names)})

    def run(self, columns: Sequence[Value], rows: int, captured: Sequence[Value] = ()) -> Slots:
        """Compute all slots.

        Args:
            columns: or the parameters of a lambda.
            captured: values of the parent's slots that `captures` names.
        """
        slots = self.template.copy()
        for slot, source in zip(self.inputs, self.sources, strict=True):
            slots[slot] = columns[source]
        for slot, value in zip(self.captured, captured, strict=True):
            slots[slot] = value
        for slot, compute in self.steps:
            checkpoint()
            slots[slot] = compute(slots, rows)
        return slots

    def find(self, expression: ir.Expression) -> int | None:
        """Find the slot that holds an expression; None where none does yet."""
        number = self.numbers.of(expression)
        found = self.known.get(number)
        if found is not None or self.parent is None or isinstance(expression, ir.Lambda):
            return found  # a lambda is bound to the rows of its own program
        if not self.names.keys().isdisjoint(self.numbers.columns(number)):
            return None  # it reads parameters, which the parent does not know
        outer = self.parent.find(expression)
        if outer is not None:
            found = self.known[number] = self._capture(outer)
        return found

    def slot(self, expression: ir.Expression) -> int:
        """Give the slot that holds an expression; steps are added as need be."""
        found = self.find(expression)
        if found is None:
            found = self._made(expression)
            self.known[self.numbers.of(expression)] = found
        return found

    def _made(self, expression: ir.Expression) -> int:
        if isinstance(expression, ir.ColumnRef):
            return self._column(expression)
        if isinstance(expression, ir.Literal):
            return self._new(constants.scalar(expression.value, expression.type.arrow))
        if isinstance(expression, ir.Lambda):
            return self._new_step(self._lambda(expression))
        if isinstance(expression, ir.Case):
            return self._case(expression)
        if _is_lazy(expression):
            assert isinstance(expression, ir.Call)
            return self._lazy(expression)
        operands = [self.slot(operand) for operand in expression.operands()]
        return self._step(_kernel(expression), operands, _is_constant(expression))

    def _new(self, value: Any = None) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def _column(self, column: ir.ColumnRef) -> int:
        if column.name in self.names:
            slot = self._new()
            self.inputs.append(slot)
            self.sources.append(self.names[column.name])
            return slot
        assert self.parent is not None, column.name
        return self._capture(self.parent.slot(column))

    def _capture(self, outer: int) -> int:
        """Take over a slot of the parent."""
        if outer in self.captures:
            return self.captured[self.captures.index(outer)]
        assert self.parent is not None
        constant = self.parent.template[outer]
        slot = self._new(constant)
        if constant is None:
            self.captures.append(outer)
            self.captured.append(slot)
        return slot

    def _step(
        self, compute: Callable[[list[Value], int], Value], operands: list[int], folds: bool = True
    ) -> int:
        """Add a step, or its value where all operands are constants."""
        constants = [self.template[operand] for operand in operands]
        if folds and None not in constants:
            try:
                return self._new(_scalar(compute(constants, 1)))
            except EvaluationError:
                pass
        return self._new_step(_of_slots(compute, operands))

    def _new_step(self, compute: Compute) -> int:
        slot = self._new()
        self.steps.append((slot, compute))
        return slot

    def _branch(self, expression: ir.Expression) -> Branch:
        program = Program(self.numbers, self)
        return Branch(program, program.slot(expression), expression.type.arrow)

    def _case(self, case: ir.Case) -> int:
        """Choose among values computed for all rows, or compute what can fail for its rows."""
        parts = [part for pair in case.branches for part in pair] + [case.otherwise]
        if not any(can_fail(part) for part in parts[1:]):
            return self._step(_choose, [self.slot(part) for part in parts])
        first = self.slot(case.branches[0][0])
        later = [
            (None if number == 0 else self._branch(condition), self._branch(value))
            for number, (condition, value) in enumerate(case.branches)
        ]
        otherwise = self._branch(case.otherwise)
        return self._new_step(
            lambda slots, rows: _case_by_rows(slots, rows, slots[first], later, otherwise)
        )

    def _lazy(self, call: ir.Call) -> int:
        """Compute what can fail only for the rows that what stands before leaves open."""
        operands = list(call.arguments)
        if call.function != "coalesce":
            operands.sort(key=can_fail)
        first, name = self.slot(operands[0]), call.function
        rest: list[int | Branch] = [
            self._branch(each) if can_fail(each) else self.slot(each) for each in operands[1:]
        ]
        kind = call.type.arrow
        return self._new_step(lambda slots, rows: _lazily(name, slots, rows, first, rest, kind))

    def _lambda(self, expression: ir.Lambda) -> Compute:
        names = {name: number for number, name in enumerate(expression.parameters)}
        program = Program(self.numbers, self, names)
        body, kind = program.slot(expression.body), expression.body.type.arrow

        def bind(slots: Slots, rows: int) -> function.LambdaValue:
            outer = [slots[capture] for capture in program.captures]

            def apply(parameters: Sequence[Value], parents: pa.Array, rows: int) -> pa.Array:
                made: list[pa.Array] = []
                size = start = 0
                count = PIECE_ROWS
                while start < rows:
                    some = parents.slice(start, count)
                    try:
                        captured = [
                            each if isinstance(each, pa.Scalar) else _repeated(each, some)
                            for each in outer
                        ]
                        pieces = [each.slice(start, count) for each in parameters]
                        found = program.run(pieces, len(some), captured)[body]
                    except outputs.OversizedError:
                        if len(some) == 1:
                            raise
                        count = len(some) // 2
                        continue
                    made.append(as_array_of(found, kind, len(some)))
                    start += len(some)
                    size += made[-1].nbytes
                    if size > outputs.MOST_OF_VALUE:
                        outputs.check_batch(f"a lambda of {rows} elements", size, rows)
                return pa.concat_arrays(made) if made else pa.nulls(0, kind)

            return apply

        return bind


@dataclass(frozen=True)
class Branch:
    """An expression that is computed for some rows of the program around it."""

    program: Program
    result: int
    kind: pa.DataType

    def run(self, slots: Slots, rows: int, chosen: pa.Array | None) -> Value:
        """Compute the rows that a mask without NULL chooses; None: all."""
        captured = [slots[capture] for capture in self.program.captures]
        if chosen is not None:
            rows = chosen.true_count
            captured = [
                each if isinstance(each, pa.Scalar) else each.filter(chosen) for each in captured
            ]
        if not rows:
            return pa.nulls(0, self.kind)
        return self.program.run((), rows, captured)[self.result]


def _repeated(column: pa.Array, parents: pa.Array) -> pa.Array:
    """Give a column's values to the elements of its rows."""
    if (
        len(parents) > len(column)
        and column.nbytes // len(column) * len(parents) > outputs.MOST_OF_BATCH
    ):
        size = float(outputs.row_sizes([column], len(column))[np.asarray(parents)].sum())
        outputs.check_batch("a column in a lambda", size, len(parents))
    return column.take(parents)


def can_fail(expression: ir.Expression) -> bool:
    """Whether computing it may raise EvaluationError."""
    if isinstance(expression, ir.ColumnRef | ir.Literal):
        return False
    if isinstance(expression, ir.UdfCall):
        return True
    if isinstance(expression, ir.Call) and function.function(expression.function).fallible:
        return True
    if isinstance(expression, ir.Cast) and cast_can_fail(expression):
        return True
    if isinstance(expression, ir.Chain):
        calls = expression.calls()
        if any((cast and can_fail(cast)) or can_fail(call) for cast, call in calls):
            return True
    return any(can_fail(operand) for operand in expression.operands())


def _is_lazy(expression: ir.Expression) -> bool:
    return (
        isinstance(expression, ir.Call)
        and expression.function in _LAZY
        and any(can_fail(each) for each in expression.arguments)
    )


def _is_constant(expression: ir.Expression) -> bool:
    """Whether equal operands give equal values."""
    if isinstance(expression, ir.Call):
        if any(isinstance(each, ir.Lambda) for each in expression.arguments):
            return False
        return function.function(expression.function).deterministic
    return isinstance(expression, ir.Cast | ir.Chain)


def _kernel(expression: ir.Expression) -> Callable[[list[Value], int], Value]:
    if isinstance(expression, ir.Call):
        call, kernel = expression, function.function(expression.function).kernel
        if call.function not in outputs.ESTIMATES:
            return lambda values, rows: kernel(call, values, rows)

        def bounded(values: list[Value], rows: int) -> Value:
            outputs.check_output(call, values, rows)
            return kernel(call, values, rows)

        return bounded
    if isinstance(expression, ir.Cast):
        return cast_kernel(expression)
    if isinstance(expression, ir.Chain):
        return _chain_kernel(expression)
    assert isinstance(expression, ir.UdfCall), expression
    udf = expression.udf
    return lambda values, rows: udf.evaluate(values, rows)


def _chain_kernel(chain: ir.Chain) -> Callable[[list[Value], int], Value]:
    """Compute a chain from left to right, with no more than the value so far in memory."""
    steps = [(_kernel(cast) if cast else None, _kernel(call)) for cast, call in chain.calls()]

    def compute(values: list[Value], rows: int) -> Value:
        found = values[0]
        for (cast, call), operand in zip(steps, values[1:], strict=True):
            found = cast([found], rows) if cast else found
            found = call([found, operand], rows)
        return found

    return compute


def _of_slots(compute: Callable[[list[Value], int], Value], operands: list[int]) -> Compute:
    if len(operands) == 1:
        (only,) = operands
        return lambda slots, rows: compute([slots[only]], rows)
    if len(operands) == 2:
        left, right = operands
        return lambda slots, rows: compute([slots[left], slots[right]], rows)
    return lambda slots, rows: compute([slots[operand] for operand in operands], rows)


def _scalar(value: Value) -> pa.Scalar:
    return value if isinstance(value, pa.Scalar) else value[0]


def _truth(condition: Value) -> Value:
    """Take NULL for false."""
    if isinstance(condition, pa.Scalar):
        return pa.scalar(bool(condition.as_py()))
    return condition.fill_null(False) if condition.null_count else condition


def _choose(values: list[Value], rows: int) -> Value:
    """Choose by (condition, value, condition, value, …, otherwise)."""
    chosen = values[-1]
    for number in range(len(values) - 3, -1, -2):
        condition, value = _truth(values[number]), values[number + 1]
        for each in (value, chosen):
            if isinstance(each, pa.Scalar):
                outputs.check_repeated(each, rows)
        if isinstance(condition, pa.Scalar):
            chosen = value if condition.as_py() else chosen
        else:
            chosen = pc.if_else(condition, value, chosen)
    return chosen


def _case_by_rows(
    slots: Slots,
    rows: int,
    first: Value,
    branches: list[tuple[Branch | None, Branch]],
    otherwise: Branch,
) -> Value:
    places: list[Any] = []
    parts: list[pa.Array] = []
    left = np.ones(rows, bool)
    for condition, value in branches:
        if not left.any():
            break
        open_rows = None if left.all() else pa.array(left)
        found = first if condition is None else condition.run(slots, rows, open_rows)
        taken = left.copy()
        taken[left] = as_array(_truth(found), int(left.sum())).to_numpy(zero_copy_only=False)
        _part(slots, rows, value, taken, places, parts)
        left &= ~taken
    _part(slots, rows, otherwise, left, places, parts)
    return _scattered(places, parts, rows)


def _part(
    slots: Slots, rows: int, branch: Branch, chosen: Any, places: list[Any], parts: list[pa.Array]
) -> None:
    count = int(chosen.sum())
    if count:
        value = branch.run(slots, rows, None if count == rows else pa.array(chosen))
        parts.append(as_array_of(value, branch.kind, count))
        places.append(np.flatnonzero(chosen))


def _scattered(places: list[Any], parts: list[pa.Array], rows: int) -> pa.Array:
    """Put the parts' values at the rows that they are for."""
    if len(parts) == 1:
        return parts[0]
    order = np.empty(rows, np.int64)
    order[np.concatenate(places)] = np.arange(rows)
    return pa.concat_arrays(parts).take(pa.array(order))


def _lazily(
    name: str, slots: Slots, rows: int, first: int, rest: list[int | Branch], kind: pa.DataType
) -> Value:
    found = as_array(slots[first], rows)
    for each in rest:
        undecided = _undecided(name, found)
        if isinstance(each, int):
            found = _combined(name, found, slots[each])
            continue
        count = undecided.true_count
        if not count:
            continue
        if count == rows:
            found = _combined(name, found, each.run(slots, rows, None))
            continue
        some = as_array_of(each.run(slots, rows, undecided), each.kind, count)
        chosen = undecided.to_numpy(zero_copy_only=False)
        rest_rows = ~chosen
        places = [np.flatnonzero(rest_rows), np.flatnonzero(chosen)]
        later = _combined(name, found.filter(undecided), some)
        kept = as_array_of(found, kind, rows).filter(pa.array(rest_rows))
        found = _scattered(places, [kept, as_array_of(later, kind, count)], rows)
    return found


def _undecided(name: str, found: pa.Array) -> pa.Array:
    if name == "coalesce":
        return found.is_null()
    return pc.fill_null(found, True) if name == "and" else pc.invert(pc.fill_null(found, False))


def _combined(name: str, left: Value, right: Value) -> Value:
    if name == "coalesce":
        if pa.types.is_nested(left.type):
            return pc.if_else(pc.is_valid(left), left, right)
        return pc.coalesce(left, right)
    return (pc.and_kleene if name == "and" else pc.or_kleene)(left, right)
