"""Runs a table through its life in this process, and prints the peak memory of each step.

    python tests/integration/bounded_memory.py ROWS WIDTH COMMITS LIMIT [OPTION=VALUE ...]

Peaks are of resident memory beyond what was there before, in bytes, as JSON. LIMIT is of what the
process may allocate once everything is loaded, in bytes; 0 is none.
"""

import gc
import json
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import pkray

BATCH_BYTES = 2 << 20
LOOKUPS = 10
THREADS = 2
"""Of Arrow's pools, on machines of any size: each has a stack."""


def rows_of(rows: int, width: int, seed: int) -> Iterator[pa.Table]:
    """Upserts of keys 0 … rows, all over the place, with texts of about ``width`` bytes."""
    random = np.random.default_rng(seed)
    pool = random.integers(97, 123, (4 << 20) + BATCH_BYTES + width, dtype=np.uint8).tobytes()
    step = next(n for n in range(rows // 2 + seed + 1, 2 * rows) if math.gcd(n, rows) == 1)
    some = max(1, BATCH_BYTES // (width + 24))
    for start in range(0, rows, some):
        chosen = random.permutation(np.arange(start, min(start + some, rows)) * step % rows)
        ends = np.zeros(len(chosen) + 1, np.int32)
        random.integers(width // 2, width + 1, len(chosen)).cumsum(out=ends[1:])
        place = random.integers(0, 4 << 20)
        buffers = pa.py_buffer(ends), pa.py_buffer(pool[place : place + ends[-1]])
        texts = pa.StringArray.from_buffers(len(chosen), *buffers)
        numbers = pa.array(random.integers(0, 9, len(chosen)))
        yield pa.table([pa.array(chosen), texts, numbers], schema=SCHEMA)


SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("s", pa.string()), ("n", pa.int64())])


def peak_of(step: Callable[[], object]) -> int:
    """Bytes beyond what is resident now."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    step()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def allow(more: int) -> None:
    """Let this process allocate so much more, in bytes, and no byte beyond it."""
    most = _status("VmData") + more
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def is_limited(size: int) -> bool:
    try:
        bytearray(size)
    except MemoryError:
        return True
    return False


def live(
    folder: str, rows: int, width: int, commits: int, limit: int, options: dict[str, str]
) -> dict:
    with pkray.connect(folder) as catalog:
        table = catalog.create_table("db.t", SCHEMA, ["k"], options={"bucket": "1", **options})
        other = catalog.create_table("db.warm", SCHEMA, ["k"], options={"bucket": "1", **options})
        other.upsert(next(rows_of(10, 10, 0)), commit_user="warm")
        other.compact()
        other.lookup([{"k": 1}])
        list(other.to_batches())
        list(other.changelog_batches())
        seen: dict[str, object] = {}
        if limit:
            allow(limit)

        def write() -> None:
            with table.open_writer("job") as writer:
                for number in range(commits):
                    for batch in rows_of(rows, width, number):
                        writer.upsert(batch)
                    writer.commit()

        def read() -> None:
            seen["rows"] = sum(batch.num_rows for batch in table.to_batches())

        def changelog() -> None:
            seen["changes"] = sum(batch.num_rows for batch in table.changelog_batches())

        def lookup() -> None:
            keys = [{"k": k} for k in range(0, rows, max(1, rows // LOOKUPS))]
            seen["found"] = table.lookup(keys).num_rows / len(keys)
            while any(owner["lookup"].making for owner in table.service_stats()["owners"]):
                time.sleep(0.01)  # copies are made behind lookups

        peaks = {
            "write": peak_of(write),
            "read many runs": peak_of(read),
            "lookup": peak_of(lookup),
            "changelog": peak_of(changelog),
            "compact": peak_of(table.compact),
            "read": peak_of(read),
        }
        return {"peaks": peaks, **seen, "is_limited": is_limited(limit)}


def main() -> None:
    rows, width, commits, limit = map(int, sys.argv[1:5])
    options = dict(option.split("=", 1) for option in sys.argv[5:])
    pa.set_cpu_count(THREADS)
    pa.set_io_thread_count(THREADS)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(live(folder, rows, width, commits, limit, options)))


if __name__ == "__main__":
    main()
