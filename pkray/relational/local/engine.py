"""Runs a plan: finds what computes each node, and passes batches between them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from pkray.columns.batches import cut
from pkray.errors import EvaluationError, UnsupportedError
from pkray.relational.cancellation import Cancellation, Tokens, checkpoint, under
from pkray.relational.functions.outputs import OversizedError
from pkray.relational.local.memory import Memory
from pkray.relational.local.shared import Held, repeated
from pkray.relational.local.threads import ahead
from pkray.relational.plan.nodes import Node

BATCH_ROWS = 1 << 16
"""Rows a batch: so many that calling a kernel costs nothing beside its work."""

Step: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
Operator: TypeAlias = Callable[[Any, "Engine"], Iterator[pa.RecordBatch]]
Skip: TypeAlias = Callable[[pa.RecordBatch, str], object]
"""Takes a batch of one row, and why it cannot be computed."""
StepMaker: TypeAlias = Callable[[Any], Step | None]
Watch: TypeAlias = Callable[[Node, pa.RecordBatch], object]
Maker = TypeVar("Maker", bound=StepMaker)

OPERATORS: dict[type[Node], Operator] = {}
STEPS: dict[type[Node], StepMaker] = {}
WATCHES: list[Watch] = []
"""Called with each batch that comes out of a node. Tests check schemas by it; else it is empty."""


def run(
    plan: Node,
    *,
    batch_rows: int = BATCH_ROWS,
    memory: int | None = None,
    skip: Skip | None = None,
    cancellation: Cancellation | None = None,
) -> Iterator[pa.RecordBatch]:
    """Compute the rows of a plan.

    Args:
        batch_rows: most rows of a batch that comes out.
        memory: bytes that the operators hold together, about; rows beyond are set aside on the
            local disk. By default half of the machine's.
        skip: takes rows that a step from row to row cannot compute, and why: they are left out.
            By default such a row is an error.
        cancellation: ends the run from another thread.

    Returns:
        batches of the schema ``plan.fields.arrow``; none is empty.

    Raises:
        EvaluationError: a row cannot be computed.
        QueryCancelledError: it was cancelled.
        UnsupportedError: the engine lacks what the plan needs, or rows that an operator needs at
            once take more than `memory`.
        StorageError: rows cannot be set aside on the local disk.
    """
    with _named_errors():
        held = Memory.of(plan, memory)
        found = Engine(batch_rows, held, repeated(plan), skip).batches(plan)
    return _told(found, () if cancellation is None else (cancellation,))


def _told(batches: Iterator[pa.RecordBatch], tokens: Tokens) -> Iterator[pa.RecordBatch]:
    while True:
        with _named_errors(), under(*tokens):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _named_errors() -> Iterator[None]:
    """Say what Arrow refuses as an error of the query."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"the local engine lacks this: {error}; run on Spark") from error
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise EvaluationError(f"rows cannot be computed: {error}") from error
    except UnicodeDecodeError as error:
        raise EvaluationError(f"a text holds bytes that are no UTF-8: {error}") from error
    except OverflowError as error:
        raise EvaluationError(f"rows cannot be computed, a number is too large: {error}") from error
    except MemoryError as error:
        raise UnsupportedError(
            f"the memory of this process does not suffice ({error}): select fewer columns or "
            "smaller values, or run on Spark"
        ) from error
    except RecursionError:
        raise UnsupportedError("the plan is nested too deeply: give its parts names") from None


@dataclass(frozen=True)
class Engine:
    """Computes the nodes of one plan.

    Attributes:
        batch_rows: most rows of a batch.
        memory: what operators may hold.
        shared: by their ids, nodes that the plan holds more than once.
        skip: as of `run`.
    """

    batch_rows: int
    memory: Memory
    shared: Mapping[int, Held] = field(default_factory=dict)
    skip: Skip | None = None

    def batches(self, node: Node) -> Iterator[pa.RecordBatch]:
        """Compute a node's rows in batches of its schema, none empty."""
        return self._once(node) if id(node) in self.shared else self._computed(node)

    def _once(self, node: Node) -> Iterator[pa.RecordBatch]:
        """Compute a node's rows, or give those that were."""
        held = self.shared[id(node)]
        if held.rows is None:
            held.rows = self.memory.set_aside(self._computed(node), self.memory.share)
        yield from _watched(node, held.rows.read_again())

    def _computed(self, node: Node) -> Iterator[pa.RecordBatch]:
        steps: list[Step] = []
        while (maker := STEPS.get(type(node))) is not None:
            step = maker(node)
            if WATCHES:
                step = _watching(node, step)
            if step is not None:
                steps.append(step if self.skip is None else _skipping(step, self.skip))
            (node,) = node.inputs
            if id(node) in self.shared:
                return self.mapped(steps[::-1], self._once(node))
        operator = OPERATORS.get(type(node))
        if operator is None:
            raise UnsupportedError(
                f"the local engine computes no {type(node).__name__}: run the query on Spark",
                node=type(node).__name__,
            )
        found = _watched(node, operator(node, self))
        return self.mapped(steps[::-1], found) if steps else self._pieces(found)

    def mapped(
        self, steps: list[Step], batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Take batches through steps, several batches at once; their order stays."""

        def taken(batch: pa.RecordBatch) -> pa.RecordBatch:
            for step in steps:
                batch = step(batch)
            return batch

        def begun(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            try:
                return iter((taken(batch),))
            except OversizedError:
                return _in_halves(taken, batch)

        found = ahead(begun, self._pieces(batches))
        return self._pieces(batch for some in found for batch in some)

    def _pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        checkpoint()
        for batch in batches:
            checkpoint()
            yield from cut(batch, self.batch_rows)


def _in_halves(step: Step, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Compute what makes too much at once: as many rows as fit, as they are asked for."""
    half = batch.num_rows // 2
    for part in (batch.slice(0, half), batch.slice(half)) if half else (batch,):
        try:
            made = step(part)
        except OversizedError:
            if not half:
                raise
            yield from _in_halves(step, part)
        else:
            yield made


def _watched(node: Node, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return map(_watching(node, None), batches) if WATCHES else batches


def _watching(node: Node, step: Step | None) -> Step:
    def computed(rows: pa.RecordBatch) -> pa.RecordBatch:
        made = rows if step is None else step(rows)
        for watch in WATCHES:
            watch(node, made)
        return made

    return computed


def _skipping(step: Step, skip: Skip) -> Step:
    """Let a step leave out the rows that it cannot compute."""

    def computed(rows: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return step(rows)
        except EvaluationError as error:
            if rows.num_rows == 1:
                skip(rows, str(error))
                return step(rows.slice(0, 0))
            half = rows.num_rows // 2
            return pa.concat_batches([computed(rows.slice(0, half)), computed(rows.slice(half))])

    return computed


def operator(kind: type[Node]) -> Callable[[Operator], Operator]:
    """Say that a function computes a kind of node."""

    def put(function: Operator) -> Operator:
        OPERATORS[kind] = function
        return function

    return put


def step(kind: type[Node]) -> Callable[[Maker], Maker]:
    """Say that a function makes the step, from batch to batch, of a kind of node; None: nothing."""

    def put(function: Maker) -> Maker:
        STEPS[kind] = function
        return function

    return put
