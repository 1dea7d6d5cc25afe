import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import UnsupportedError
from pkray.schema.table_schema import KIND, TableSchema
from pkray.service.client.routing import Router, owner_of


def schema(buckets: int, partition_keys: tuple[str, ...] = ()) -> TableSchema:
    columns = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
    keys = [*partition_keys, "id"]
    options = {"bucket": str(buckets)}
    return TableSchema.create(columns, keys, partition_keys, options, None, 0)


def rows(count: int, days: int = 1) -> pa.RecordBatch:
    ids = np.arange(count, dtype=np.int64) * 7919 % 1009
    return pa.record_batch(
        {
            "dt": pa.array([f"d{i % days}" for i in range(count)]),
            "id": pa.array(ids),
            "v": pa.array([str(i) for i in range(count)]),
            KIND: pa.array(np.zeros(count, np.int8)),
        }
    )


def test_every_row_reaches_one_owner():
    router = Router(schema(5, ("dt",)))
    batch = rows(1000, days=3)
    routed = router.routing(batch).route(batch, 3)
    together = pa.concat_batches([part.rows for part in routed.values()])
    assert together.sort_by("v").equals(batch.sort_by("v"))


def test_slices_hold_one_bucket_each_and_keep_arrival_order():
    router, batch = Router(schema(4)), rows(1000)
    for routed in router.routing(batch).route(batch, 2).values():
        for piece in routed.slices:
            part = routed.rows.slice(piece.offset, piece.length)
            assert set(router.buckets(part)) == {piece.bucket}
            arrived = part.column("v").cast(pa.int64()).to_numpy()
            assert (np.diff(arrived) > 0).all()


def test_a_bucket_goes_to_the_owner_that_owner_of_names():
    batch = rows(500)
    for owner, routed in Router(schema(4)).routing(batch).route(batch, 3).items():
        for piece in routed.slices:
            assert owner_of(piece.partition, piece.bucket, 3) == owner


def test_one_bucket_is_routed_without_a_copy():
    batch = rows(100)
    (routed,) = Router(schema(1)).routing(batch).route(batch, 1).values()
    assert routed.rows is batch


def test_positions_cover_each_key_once_with_matching_slices():
    router = Router(schema(4, ("dt",)))
    keys = pa.Table.from_batches([rows(300, days=2)]).select(["dt", "id"])
    seen = []
    for pieces in router.routing(keys).positions(2).values():
        offset = 0
        for piece, positions in pieces:
            assert (piece.offset, piece.length) == (offset, len(positions))
            offset += piece.length
            seen.extend(positions)
    assert sorted(seen) == list(range(300))


def test_dynamic_buckets_are_refused():
    with pytest.raises(UnsupportedError, match="bucket=-1"):
        Router(schema(-1))
