"""TPC-H's queries as tables that are kept up to date: an epoch against the bounded local run.

    python tests/benchmarks/bench_tpch_continuous.py [--scale 0.1] [--epochs 5] [--queries 1,6,13]

Each epoch changes 0.1 % of the rows: orders and line items come, go and are updated, as are some
customers, parts and what suppliers offer. An epoch's time is what the query takes for them, its
result's commit among it, and not what the writers of the tables take. All figures are the least of
some runs, in wall milliseconds and, where other work runs on the machine, in processor time.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import numpy as np
import pyarrow as pa
from harness import parsed

import pkray
from pkray.relational.continuous.run import Run
from pkray.relational.sources.changelog import ROW_KIND
from tests.integration.relational.test_tpch_continuous import _tables_in, _unordered
from tests.tpch.changing import ChangingTpch
from tests.tpch.generator import KEYS, NUMBERS

SHARE = 0.0003
"""Of orders and line items that come, go and are updated, each."""
GOAL = 0.2
BOUNDED_RUNS, FIRST_EPOCHS = 3, 2


class Steps:
    """Measures the steps of queries, and holds them up while tables are written.

    Attributes:
        seconds, cpu_seconds: of the epochs since tables were written.
    """

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0
        self._gate = threading.Lock()
        step = Run.step

        def timed(run: Run) -> bool:
            with self._gate:
                begun = clocks()
                ran = step(run)
                if ran:
                    wall, cpu = clocks() - begun
                    self.seconds += wall
                    self.cpu_seconds += cpu
                return ran

        Run.step = timed  # type: ignore[method-assign]

    @contextmanager
    def held_up(self) -> Iterator[None]:
        with self._gate:
            self.seconds = self.cpu_seconds = 0.0
            yield


def clocks() -> np.ndarray:
    """Read the wall clock and what the process took of processors: seconds."""
    return np.array([time.perf_counter(), time.process_time()])


class Tables:
    """TPC-H's tables in a catalog, and their newest snapshots."""

    def __init__(self, tpch: ChangingTpch, catalog: pkray.Catalog) -> None:
        options = {"bucket": "1", "changelog-producer": "lookup"}
        self.tpch = tpch
        self._tables = {
            name: catalog.create_table(
                f"default.{name}", tpch.table(name).schema, key, options=options
            )
            for name, key in KEYS.items()
        }
        self.snapshots: dict[str, int] = {}
        self.write(tpch.begin())

    def write(self, changes: Mapping[str, pa.Table]) -> None:
        for name, rows in changes.items():
            with self._tables[name].open_writer() as writer:
                writer.write(rows, row_kinds=ROW_KIND)
                snapshot = writer.commit()
            assert snapshot is not None
            self.snapshots[name] = int(snapshot.id)

    def of(self, names: Sequence[str]) -> dict[str, int]:
        return {f"default.{name}": self.snapshots[name] for name in names}


def measured(
    catalog: pkray.Catalog, tables: Tables, steps: Steps, number: int, epochs: int
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Give the wall and processor seconds of an epoch and of a bounded run, and the last status."""
    text = _unordered(tables.tpch.queries[number])
    names = _tables_in(text)
    query = catalog.sql(text).materialize(f"default.q{number}")
    query.wait(tables.of(names), timeout=300)
    taken = []
    for _ in range(FIRST_EPOCHS + epochs):
        with steps.held_up():
            tables.write(tables.tpch.change())
        query.wait(tables.of(names), timeout=300)
        taken.append([steps.seconds, steps.cpu_seconds])
    status = query.status()
    query.drop()
    bounded = []
    for _ in range(BOUNDED_RUNS):
        begun = clocks()
        catalog.sql(text).to_arrow(engine="local")
        bounded.append(clocks() - begun)
    return np.min(taken[FIRST_EPOCHS:], axis=0), np.min(bounded, axis=0), status


def main() -> None:
    options = parsed(__doc__, scale=0.1, epochs=5, queries="")
    chosen = [int(number) for number in options.queries.split(",") if number]
    steps, ratios = Steps(), []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        catalog = pkray.connect(folder)
        tables = Tables(ChangingTpch(options.scale, SHARE), catalog)
        for number in chosen or NUMBERS:
            epoch, bounded, status = measured(catalog, tables, steps, number, options.epochs)
            wall, cpu = epoch / bounded
            ratios.append(epoch / bounded)
            rows = sum(sum(node["state_rows"].values()) for node in status["nodes"])
            print(
                f"query {number}: {1000 * epoch[0]:.0f} ms an epoch, {1000 * bounded[0]:.0f} ms "
                f"bounded: {wall:.2f} of it, in processor time {cpu:.2f}; {rows:,} rows of state",
                flush=True,
            )
    wall, cpu = np.sum(np.array(ratios) < GOAL, axis=0)
    print(f"below {GOAL}: {wall} of {len(ratios)}, {cpu} in processor time (goal: half)")


if __name__ == "__main__":
    main()
