"""Runs a table through its life in this process, and prints the peak memory of each step.

    python tests/integration/bounded_memory.py ROWS WIDTH COMMITS [OPTION=VALUE ...]

Peaks are of resident memory beyond what was there before, in bytes, as JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import pkray

BATCH_BYTES = 2 << 20
LOOKUPS = 10


def rows_of(rows: int, width: int, seed: int) -> Iterator[pa.Table]:
    """Upserts of keys 0 … rows in random order, with texts of about ``width`` bytes."""
    random = np.random.default_rng(seed)
    pool = random.integers(97, 123, (4 << 20) + width, dtype=np.uint8).tobytes()
    keys = random.permutation(rows)
    some = max(1, BATCH_BYTES // (width + 24))
    for start in range(0, rows, some):
        chosen = keys[start : start + some]
        lengths = random.integers(width // 2, width + 1, len(chosen))
        places = random.integers(0, 4 << 20, len(chosen))
        texts = [pool[at : at + n] for at, n in zip(places.tolist(), lengths.tolist(), strict=True)]
        columns = [pa.array(chosen), pa.array(texts, pa.binary()).cast(pa.string())]
        yield pa.table([*columns, pa.array(random.integers(0, 9, len(chosen)))], schema=SCHEMA)


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


def live(folder: str, rows: int, width: int, commits: int, options: dict[str, str]) -> dict:
    with pkray.connect(folder) as catalog:
        table = catalog.create_table("db.t", SCHEMA, ["k"], options={"bucket": "1", **options})
        other = catalog.create_table("db.warm", SCHEMA, ["k"], options={"bucket": "1", **options})
        with other.open_writer("warm") as writer:
            writer.upsert(next(rows_of(10, 10, 0)))
            writer.commit()
        other.compact()
        other.lookup([{"k": 1}])
        list(other.to_batches())
        list(other.changelog_batches())
        seen: dict[str, object] = {}

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

        peaks = {
            "write": peak_of(write),
            "read many runs": peak_of(read),
            "lookup": peak_of(lookup),
            "changelog": peak_of(changelog),
            "compact": peak_of(table.compact),
            "read": peak_of(read),
        }
        return {"peaks": peaks, **seen}


def main() -> None:
    rows, width, commits = map(int, sys.argv[1:4])
    options = dict(option.split("=", 1) for option in sys.argv[4:])
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(live(folder, rows, width, commits, options)))


if __name__ == "__main__":
    main()
