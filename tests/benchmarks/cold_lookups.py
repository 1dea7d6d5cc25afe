"""First lookups of a fresh process: run by ``bench_table_lookup.py --cold``, one a process."""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness import SCHEMA, batches, warm_up

import pkray
from pkray.storage.local import LocalStore

COLUMNS = ["k", "a", "b"]
BATCH, SINGLES = 1_000, 40
"""Keys of the batch, and of those asked one by one before and after it."""
HELD = ("page_reads", "scans", "builds", "making", "disk_bytes", "memory_bytes")


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


@contextlib.contextmanager
def ingest(table: pkray.Table, keys: int) -> Iterator[None]:
    """Commit upserts of random keys, with the compactions that are due, until the block ends."""
    ended = threading.Event()

    def write() -> None:
        schema = pa.schema([SCHEMA.field(name) for name in COLUMNS])
        with table.open_writer("beside") as writer:
            for rows in batches(1 << 30, keys, 10_000):
                if ended.is_set():
                    return
                writer.upsert(rows.select(COLUMNS).cast(schema))
                writer.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def ask(folder: str, keys: int, beside: bool) -> dict[str, Any]:
    """Look keys up in this process, which is fresh; milliseconds of each."""
    random = np.random.default_rng()
    warm_up("rocksdict", "pyarrow.dataset")
    with contextlib.ExitStack() as stack:
        catalog = stack.enter_context(pkray.connect(folder))
        started = time.perf_counter()
        table = catalog.load_table("bench.t")
        table.service_stats()
        begun = (time.perf_counter() - started) * 1e3
        if beside:
            stack.enter_context(ingest(table, keys))

        def milliseconds(count: int) -> float:
            wanted = pa.table({"k": random.choice(keys, count, replace=False)})
            start = time.perf_counter()
            found = table.lookup(wanted, visibility="committed")
            assert found.num_rows == count
            return (time.perf_counter() - start) * 1e3

        first = milliseconds(1)
        before = [milliseconds(1) for _ in range(SINGLES)]
        many = milliseconds(BATCH)
        after = [milliseconds(1) for _ in range(SINGLES)]
        stats = [owner["lookup"] for owner in table.service_stats()["owners"]]
    held = {name: sum(getattr(each, name) for each in stats) for name in HELD}
    return {"begun": begun, "first": first, "before": before, "many": many, "after": after} | held


def measure(folder: str, keys: int, delay: float, beside: bool) -> None:
    """Ask in a process of its own, and print."""
    command = [sys.executable, __file__, folder, str(keys), "--delay", str(delay)]
    done = subprocess.run(
        [*command, *(["--beside"] if beside else [])], check=True, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    where = f"at {delay:g} ms a request" if delay else "on disk"
    print(f"{where}{', beside ingest and compaction' if beside else ''}:")
    print(f"  load the table, start its service: {found['begun']:.0f} ms")
    print(f"  first key: {found['first']:.0f} ms")
    print(f"  first {BATCH:,} random keys: {found['many']:.0f} ms")
    for name in ("before", "after"):
        times = sorted(found[name])
        print(
            f"  {SINGLES} single keys {name} them: median {statistics.median(times):.1f}, "
            f"most {times[-1]:.1f} ms"
        )
    print("  " + ", ".join(f"{name} {found[name]:,}" for name in HELD))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("keys", type=int)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--beside", action="store_true")
    options = parser.parse_args()
    if options.delay:
        Delayed(options.delay / 1000).install()
    print(json.dumps(ask(options.folder, options.keys, options.beside)))


if __name__ == "__main__":
    main()
