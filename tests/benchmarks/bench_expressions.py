"""How long compiled expressions take, against the same calls of pyarrow.compute by hand.

Filter and projection of batches of 1,000 rows and of 1M rows; at most 3 times and 1.1 times the
time by hand are wanted.

    python -m tests.benchmarks.bench_expressions
"""

import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.evaluation.compiled import CompiledExpressions, compile_expressions
from tests.unit.relational.expressions import bound, fields

COLUMNS = fields(a="INT", b="BIGINT", d="DOUBLE", s="STRING")
CONDITION = "a > 500 AND d < 0.5D"
VALUES = ("a + 1", "b * 2", "d * 100D - 1D", "upper(s)")


def rows(count: int) -> pa.RecordBatch:
    """Make a batch of random numbers and short texts."""
    chance = np.random.default_rng(1)
    return pa.record_batch(
        [
            pa.array(chance.integers(0, 1000, count), pa.int32()),
            pa.array(chance.integers(0, 10**9, count)),
            pa.array(chance.random(count)),
            pa.array(chance.integers(0, 1000, count)).cast(pa.string()),
        ],
        schema=COLUMNS.arrow,
    )


def compiled(condition: CompiledExpressions, values: CompiledExpressions, batch: Any) -> Any:
    """Filter and project by compiled expressions."""
    return values.evaluate(batch.filter(condition.evaluate(batch)[0]))


def by_hand(batch: pa.RecordBatch) -> list[pa.Array]:
    """Filter and project by calls."""
    above = pc.greater(batch.column(0), pa.scalar(500, pa.int32()))
    kept = batch.filter(pc.and_kleene(above, pc.less(batch.column(2), 0.5)))
    return [
        pc.add_checked(kept.column(0), pa.scalar(1, pa.int32())),
        pc.multiply_checked(kept.column(1), 2),
        pc.subtract(pc.multiply(kept.column(2), 100.0), 1.0),
        pc.utf8_upper(kept.column(3)),
    ]


def seconds(work: Callable[[], Any], number: int) -> float:
    """Give the least time of a call over several trials."""
    return min(timeit.repeat(work, number=number, repeat=9)) / number


def main() -> None:
    """Print both times and their ratio."""
    condition = compile_expressions([bound(CONDITION, COLUMNS)], COLUMNS)
    values = compile_expressions([bound(text, COLUMNS) for text in VALUES], COLUMNS)
    for count, number in ((1000, 300), (1_000_000, 1)):
        batch = rows(count)
        ours = seconds(partial(compiled, condition, values, batch), number)
        hand = seconds(partial(by_hand, batch), number)
        print(f"{count:>9,} rows: compiled {ours * 1e3:.3f} ms, by hand {hand * 1e3:.3f} ms, "
              f"ratio {ours / hand:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
