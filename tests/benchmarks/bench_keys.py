"""Upserts over keys of several types, against BIGINT keys.

    python tests/benchmarks/bench_keys.py [--rows 2000000] [--runs 3] [--buckets 1]

Ten commits of uniform upserts over half as many keys, compaction included, then a merge read of
the whole table. Each kind of key runs in a process of its own, in turn; ratios are of rows per
processor second, and their median counts.
"""

import statistics
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import SCHEMA, batches, in_turn, measure, parsed, report, warm_up

COMMITS = 10
GOAL = 0.5
KEYS = {
    "BIGINT": [pa.int64()],
    "STRING(16) random": [pa.string()],
    "STRING user-0000042": [pa.string()],
    "(INT, STRING)": [pa.int32(), pa.string()],
    "(BIGINT, BIGINT)": [pa.int64(), pa.int64()],
    "DECIMAL(20,2)": [pa.decimal128(20, 2)],
}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def key_columns(kind: str, numbers: np.ndarray) -> list[pa.Array]:
    """A key of this kind for each number."""
    scattered = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # a bijection
    if kind == "BIGINT":
        return [pa.array(numbers)]
    if kind == "STRING(16) random":
        return [_texts(scattered)]
    if kind == "STRING user-0000042":
        digits = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 7, "0")
        return [pc.binary_join_element_wise("user-", digits, "")]
    if kind == "(INT, STRING)":
        names = pc.cast(pa.array(numbers // 1000), pa.string())
        return [
            pa.array((numbers % 1000).astype(np.int32)),
            pc.binary_join_element_wise("customer-", names, ""),
        ]
    if kind == "(BIGINT, BIGINT)":
        return [pa.array(numbers // 1000), pa.array((scattered >> np.uint64(1)).astype(np.int64))]
    words = np.zeros((len(numbers), 2), np.int64)
    words[:, 0] = numbers * 100 + 7
    return [pa.Array.from_buffers(pa.decimal128(20, 2), len(numbers), [None, pa.py_buffer(words)])]


def _texts(words: np.ndarray) -> pa.Array:
    """Sixteen hexadecimal digits of each."""
    nibbles = words.byteswap().view(np.uint8).reshape(-1, 8)
    digits = _HEX[np.stack([nibbles >> 4, nibbles & 15], axis=2)].reshape(-1)
    offsets = np.arange(0, len(digits) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(words), pa.py_buffer(offsets), pa.py_buffer(digits))


def incoming(kind: str, rows: int) -> list[pa.Table]:
    made = []
    fields = [pa.field(f"k{n}", of, nullable=False) for n, of in enumerate(KEYS[kind])]
    schema = pa.schema([*fields, *list(SCHEMA)[1:]])
    for table in batches(rows, rows // 2, rows // COMMITS):
        keys = key_columns(kind, table.column("k").to_numpy())
        made.append(pa.table([*keys, *table.columns[1:]], schema=schema))
    return made


def upsert(tables: list[pa.Table], folder: str, buckets: int) -> int:
    import pkray

    names = [name for name in tables[0].column_names if name.startswith("k")]
    with pkray.connect(folder) as catalog:
        settings = {"bucket": str(buckets)}
        table = catalog.create_table("bench.t", tables[0].schema, names, options=settings)
        with table.open_writer("bench") as writer:
            for number, rows in enumerate(tables):
                writer.upsert(rows)
                writer.commit(commit_identifier=number)
        table.compact(full=False)  # what runs beside the commits is part of the work
        return sum(batch.num_rows for batch in table.to_batches())


def run_one(kind: str, rows: int, buckets: int) -> None:
    warm_up("pkray.service.local")
    pa.set_cpu_count(1)
    tables = incoming(kind, rows)
    with tempfile.TemporaryDirectory() as folder:
        report(measure(lambda: upsert(tables, folder, buckets)))


def main() -> None:
    options = parsed(__doc__, rows=2_000_000, runs=3, keys=";".join(KEYS), buckets=1)
    if options.one:
        run_one(options.one, options.rows, options.buckets)
        return
    kinds = list(dict.fromkeys(["BIGINT", *options.keys.split(";")]))
    found = in_turn(__file__, kinds, options.runs)
    print(f"{options.rows:,} upserts over {options.rows // 2:,} keys in {COMMITS} commits, a read")
    assert len({one.result for measured in found.values() for one in measured}) == 1
    for kind, measured in found.items():
        cpu = statistics.median(one.cpu_seconds for one in measured)
        pairs = zip(found["BIGINT"], measured, strict=True)
        ratio = statistics.median(base.cpu_seconds / one.cpu_seconds for base, one in pairs)
        goal = "" if kind == "BIGINT" else f"  {ratio:5.2f} of BIGINT (goal {GOAL})"
        print(f"{kind:20} {options.rows / cpu / 1e6:6.2f}M rows/cpu-s{goal}")


if __name__ == "__main__":
    main()
