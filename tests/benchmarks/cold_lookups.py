"""First lookups of a fresh process: run by ``bench_table_lookup.py --cold``, one a process."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness import SCHEMA, batches, warm_up

import pkray
from pkray.lookup import block_store  # noqa: F401
from pkray.storage.local import LocalStore

COLUMNS = ["k", "a", "b"]
FIRST, SINGLES = 1_000, 40
"""Keys of the batch, and of those asked one by one."""


class Delayed:
    """Makes reads of local files as slow as an object store's, and the store look like one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def install(self) -> None:
        for name in ("read", "read_marked", "exists", "size", "list_dirs", "open_input"):
            setattr(LocalStore, name, self._slow(getattr(LocalStore, name)))
        LocalStore.read_ranges = self._slow(_ranges)
        listed = LocalStore.list
        LocalStore.list = lambda *args, **named: self._later(listed, *args, **named)
        LocalStore.local_path = lambda store, path: None
        LocalStore.fingerprint = lambda store, path: None

    def _later(self, call: Callable[..., object], *args: object, **named: object) -> object:
        time.sleep(self._seconds)
        return call(*args, **named)

    def _slow(self, call: Callable[..., object]) -> Callable[..., object]:
        return lambda *args, **named: self._later(call, *args, **named)


def _ranges(store: LocalStore, path: str, ranges: list[tuple[int, int]]) -> list[bytes]:
    with Path(store._path(path)).open("rb") as file:
        found = []
        for start, end in ranges:
            file.seek(start)
            found.append(file.read(end - start))
        return found


def make(folder: str, keys: int, files: int, pages: bool) -> None:
    """Write a compacted table of dense keys in 16 buckets."""
    schema = pa.schema([SCHEMA.field(name) for name in COLUMNS])
    target = max(1, keys * 22 // files >> 20)
    options = {"bucket": "16", "target-file-size": f"{target} mb"}
    options["write-buffer-size"] = f"{max(8, keys * 32 // 5 >> 20)} mb"
    options["lookup.pages.enabled"] = str(pages).lower()
    parts = max(2, keys // 2_500_000)
    with pkray.connect(folder) as catalog:
        table = catalog.create_table("bench.t", schema, primary_keys=["k"], options=options)
        with table.open_writer("load") as writer:
            for number, rows in enumerate(batches(keys, keys, -(-keys // parts))):
                dense = pa.array(np.arange(number, keys, parts)[: rows.num_rows])
                rows = rows.slice(0, len(dense)).set_column(0, SCHEMA.field("k"), dense)
                writer.upsert(rows.select(COLUMNS))
            writer.commit(commit_identifier=1, full_compact=True)
        sizes = [path.stat().st_size for path in Path(folder).rglob("data-*.parquet")]
        beside = [path.stat().st_size for path in Path(folder).rglob("data-*.pages")]
        print(
            f"{keys:,} keys, {table.files().num_rows} files; on disk {sum(sizes) >> 20} MB of "
            f"data files and {sum(beside) >> 20} MB of pages"
        )


def ask(folder: str, keys: int, owners: int | None, batch_first: bool) -> dict[str, object]:
    """Look keys up in a fresh process; milliseconds of each."""
    random = np.random.default_rng()
    warm_up("rocksdict", "pyarrow.dataset")
    options = {"owners": owners} if owners else None
    with pkray.connect(folder, runtime_options=options) as catalog:
        started = time.perf_counter()
        table = catalog.load_table("bench.t")
        table.runtime.service(table.location, table.schema)
        begun = time.perf_counter() - started

        def milliseconds(count: int) -> float:
            wanted = pa.table({"k": random.choice(keys, count, replace=False)})
            start = time.perf_counter()
            found = table.lookup(wanted, visibility="committed")
            assert found.num_rows == count
            return (time.perf_counter() - start) * 1e3

        first = [] if batch_first else [milliseconds(1)]
        before = [] if batch_first else [milliseconds(1) for _ in range(SINGLES)]
        many = milliseconds(FIRST)
        after = [milliseconds(1) for _ in range(SINGLES)]
        stats = table.runtime.service(table.location, table.schema).stats()["owners"]
    return {
        "begun": begun * 1e3,
        "first": first,
        "before": before,
        "many": many,
        "after": after,
        "lookup": [str(owner["lookup"]) for owner in stats],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("keys", type=int)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--owners", type=int)
    parser.add_argument("--batch-first", action="store_true")
    options = parser.parse_args()
    if options.delay:
        Delayed(options.delay / 1000).install()
    print(json.dumps(ask(options.folder, options.keys, options.owners, options.batch_first)))


if __name__ == "__main__":
    main()
