"""How fast rows of a table with dynamic buckets are assigned to buckets.

    python -m tests.benchmarks.bench_dynamic_bucket [--keys 10000000] [--batch 1000000]

Prints keys per CPU-second: an owner's assignment of keys that are there, of new ones, of both;
locating keys for lookups; and from the rows on, with hashing and splitting, beside fixed buckets.
"""

import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from harness import parsed

from pkray.commit.committer import Committer
from pkray.format.binary_row import EMPTY_ROW
from pkray.format.bucket import hash_rows
from pkray.format.commit_message import CommitMessage
from pkray.format.hash_index import unique, write_hashes
from pkray.format.paths import FileNames
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import KIND, TableSchema
from pkray.service.assignment.assigner import BucketAssigner
from pkray.service.calls import OwnerClient
from pkray.service.client.dynamic_client import AssignerClient
from pkray.service.client.routing import Router
from pkray.service.handles.local_handle import LocalHandle
from pkray.service.protocol import HashedKeys, SessionId
from pkray.storage.location import TableLocation

COLUMNS = [("id", "BIGINT"), ("v", "BIGINT")]


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The best of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def table(folder: str, keys: int) -> tuple[TableLocation, TableSchema]:
    """A table whose index holds the keys 0 … keys-1; it needs no data."""
    location = TableLocation(f"{folder}/db.db/t", "db.t")
    store = location.open()
    schema = TableSchema.create(COLUMNS, ["id"], [], {"bucket": "-1"})
    SchemaStore(store, "db.t").create(schema)
    hashes = unique(hash_rows([pa.array(np.arange(keys))], schema.types(["id"])))
    hashes = np.random.default_rng(1).permutation(hashes)
    target = schema.core.dynamic_bucket_target_row_num
    messages = [
        CommitMessage(
            partition=EMPTY_ROW,
            bucket=bucket,
            total_buckets=-1,
            index_files=(write_hashes(store, FileNames(), hashes[start : start + target]),),
        )
        for bucket, start in enumerate(range(0, len(hashes), target))
    ]
    Committer(store, schema, "bench").commit(0, messages)
    return location, schema


def main() -> None:
    options = parsed(__doc__, keys=10_000_000, batch=1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        location, schema = table(folder, options.keys)
        store = location.open()
        assigner = BucketAssigner(store, schema, SnapshotStore(store), 0, 1, lambda: 0)
        random = np.random.default_rng(7)
        session = SessionId("bench", 1)
        codes = np.zeros(options.batch, np.int32)

        def hashes(low: int, high: int) -> np.ndarray:
            ids = pa.array(random.integers(low, high, options.batch))
            return hash_rows([ids], schema.types(["id"]))

        def report(what: str, time_taken: float) -> None:
            print(
                f"{what:42} {options.batch / time_taken / 1e6:7.1f} M keys per CPU-second",
                flush=True,
            )

        start = time.process_time()
        assigner.assign(session, HashedKeys([EMPTY_ROW], codes[:1], hashes(0, 1)[:1]))
        print(f"read the index of {options.keys:,} keys: {time.process_time() - start:.2f} s")

        def keys(hashed: np.ndarray) -> HashedKeys:
            return HashedKeys([EMPTY_ROW], codes, hashed)

        known = hashes(0, options.keys)
        report("assign known keys", seconds(lambda: assigner.assign(session, keys(known))))
        report("locate known keys", seconds(lambda: assigner.locate(keys(known))))
        new = iter([hashes(-(2**62), 0) for _ in range(3)])
        report("assign new keys", seconds(lambda: assigner.assign(session, keys(next(new))), 3))
        half = iter([np.where(hashes(0, 2) > 0, known, hashes(-(2**62), 0)) for _ in range(3)])
        report(
            "assign, half of them new",
            seconds(lambda: assigner.assign(session, keys(next(half))), 3),
        )
        rows = pa.record_batch(
            {
                "id": pa.array(random.integers(0, options.keys, options.batch)),
                "v": pa.array(np.arange(options.batch)),
                KIND: pa.array(np.zeros(options.batch, np.int8)),
            }
        )
        client = AssignerClient(schema, [OwnerClient(LocalHandle(assigner, "owner"))])
        route = seconds(lambda: client.assign(session, rows, {}).route(rows, 1))
        report("hash, assign and split rows", route)
        count = -(-options.keys // schema.core.dynamic_bucket_target_row_num)
        fixed = TableSchema.create(COLUMNS, ["id"], [], {"bucket": str(count)})
        plain = seconds(lambda: Router(fixed, 1).route(rows))
        report(f"the same with {count} fixed buckets", plain)


if __name__ == "__main__":
    main()
